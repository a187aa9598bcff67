"""How requests are sent: the options of an HTTP client, the arguments of a request."""

from __future__ import annotations

from typing import Any, TypeVar

import httpx

from cns.client import values
from cns.client.requests import PREFIX, ApiRequest, Credentials

T = TypeVar("T")
TIMEOUT_S = 30.0


def client_options(url: str, credentials: Credentials, region: str) -> dict[str, Any]:
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


def request_arguments(request: ApiRequest[T]) -> dict[str, Any]:
    return {"method": request.method, "url": request.path, "params": request.params, "json": request.body}


def find_caller(url: str, credentials: Credentials) -> values.Caller:
    """The caller that the service identifies by the credentials. Raises ApiError."""
    request = ApiRequest("GET", "/caller", values.Caller)
    with httpx.Client(**client_options(url, credentials, "")) as http:
        return request.read(http.request(**request_arguments(request)))
