"""The connections of the sync and the async client, which their methods send requests by."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from cns.client import values
from cns.client.requests import PREFIX, ApiRequest, Credentials, Requests

T = TypeVar("T")
TIMEOUT_S = 30.0


def _options(url: str, credentials: Credentials, region: str) -> dict[str, Any]:
    query = dict(httpx.QueryParams(credentials.query))
    if region:
        query["region"] = region
    return {
        "base_url": url.rstrip("/") + PREFIX,
        "headers": credentials.headers(),
        "auth": credentials.basic(),
        "params": query,
        "timeout": TIMEOUT_S,
    }


def _arguments(request: ApiRequest[T]) -> dict[str, Any]:
    return {"method": request.method, "url": request.path, "params": request.params, "json": request.body}


def find_caller(url: str, credentials: Credentials) -> values.Caller:
    """The caller that the service identifies by the credentials. Raises ApiError."""
    request = ApiRequest("GET", "/caller", values.Caller)
    with httpx.Client(**_options(url, credentials, "")) as http:
        return request.read(http.request(**_arguments(request)))


class Connection:
    """For threads. Use it as a context manager, or close it."""

    def __init__(self, url: str, account: str, credentials: Credentials, *, region: str = "") -> None:
        """`url` is the service's, such as http://127.0.0.1:6059; `region` is the service's own by default."""
        self._http = httpx.Client(**_options(url, credentials, region))
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
        return request.read(self._http.request(**_arguments(request)))

    def _send_optional(self, request: ApiRequest[T]) -> T | None:
        return request.read_optional(self._http.request(**_arguments(request)))


class AsyncConnection:
    """For asyncio."""

    def __init__(self, url: str, account: str, credentials: Credentials, *, region: str = "") -> None:
        """`url` is the service's, such as http://127.0.0.1:6059; `region` is the service's own by default."""
        self._http = httpx.AsyncClient(**_options(url, credentials, region))
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
        return request.read(await self._http.request(**_arguments(request)))

    async def _send_optional(self, request: ApiRequest[T]) -> T | None:
        return request.read_optional(await self._http.request(**_arguments(request)))
