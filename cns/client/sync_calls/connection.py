# Generated from cns/client/async_calls by `make format`: change it there.
"""The connection of the client, which its methods send requests by."""

from __future__ import annotations

from types import TracebackType
from typing import Self, TypeVar

import httpx

from cns.client.connection import client_options, request_arguments
from cns.client.requests import ApiRequest, Credentials, Requests

T = TypeVar("T")


class Connection:
    """Sends requests. Use it as a context manager, or close it."""

    def __init__(self, url: str, account: str, credentials: Credentials, *, region: str = "") -> None:
        """`url` is the service's, such as http://127.0.0.1:6059; `region` is the service's own by default."""
        self._http = httpx.Client(**client_options(url, credentials, region))
        self.account = account
        self._requests = Requests(account)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _send(self, request: ApiRequest[T]) -> T:
        return request.read(self._http.request(**request_arguments(request)))

    def _send_optional(self, request: ApiRequest[T]) -> T | None:
        return request.read_optional(self._http.request(**request_arguments(request)))
