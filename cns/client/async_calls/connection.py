"""The connection of the client, which its methods send requests by."""

from __future__ import annotations

from types import TracebackType
from typing import Self, TypeVar

import httpx

from cns.client.connection import client_options, request_arguments
from cns.client.requests import ApiRequest, Credentials, Requests

T = TypeVar("T")


class AsyncConnection:
    """Sends requests. Use it as a context manager, or close it."""

    def __init__(self, url: str, account: str, credentials: Credentials, *, region: str = "") -> None:
        """`url` is the service's, such as http://127.0.0.1:6059; `region` is the service's own by default."""
        self._http = httpx.AsyncClient(**client_options(url, credentials, region))
        self.account = account
        self._requests = Requests(account)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _send(self, request: ApiRequest[T]) -> T:
        return request.read(await self._http.request(**request_arguments(request)))

    async def _send_optional(self, request: ApiRequest[T]) -> T | None:
        return request.read_optional(await self._http.request(**request_arguments(request)))
