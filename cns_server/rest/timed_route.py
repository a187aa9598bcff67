"""The routes of the REST API: they write answers of `cns.rest`, and count the response times of operations."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any

import msgspec
from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic.alias_generators import to_camel

from cns_server.rest.answer_models import model_of
from cns_server.rest.calls import RestCalls


def operation_id(route: APIRoute) -> str:
    """The name of an operation in the OpenAPI document and in metrics, such as `listQueues`."""
    return to_camel(route.name)


class TimedRoute(APIRoute):
    """An answer without an error is counted under the operation id."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        options["response_model"] = _described(options.get("response_model"))
        for response in (options.get("responses") or {}).values():
            response |= {"model": _described(response["model"])} if "model" in response else {}
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, operation = super().get_route_handler(), operation_id(self)

        async def timed(request: Request) -> Response:
            calls: RestCalls = request.app.state.calls
            began_s = perf_counter()
            response = await handle(request)
            calls.time(operation, began_s)
            return response

        return timed


def _described(model: Any) -> Any:
    return model_of(model) if isinstance(model, type) and issubclass(model, msgspec.Struct) else model
