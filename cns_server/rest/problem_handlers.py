"""Makes every error of the REST API's app a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.routing import Match

from cns_common.errors import CnsError
from cns_server.rest.problems import Problem, encodable, problem_response, response_of

_INPUT_CHARS_MAX = 200
_DETAILS = {
    "Not Found": "There is no operation at this path: /api/v1/ lists all.",
    "Method Not Allowed": "The path has other methods: see the header Allow.",
}
"""In the place of texts that only repeat the status."""


def add_problem_handlers(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def problem(_: Request, error: Problem) -> JSONResponse:
        return response_of(error)

    @app.exception_handler(CnsError)
    async def refused(_: Request, error: CnsError) -> JSONResponse:
        return response_of(error)

    @app.exception_handler(Exception)
    async def crashed(_: Request, __: Exception) -> JSONResponse:
        """A bug: the app that this one is part of logs it as `page.crashed`."""
        return problem_response(500, "InternalError", "The service met an internal error.")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        faults = [{"where": _where(one["loc"]), "reason": _reason(request, one)} for one in error.errors()]
        text = "; ".join([f"{fault['where']}: {fault['reason']}" for fault in faults])
        return problem_response(400, "InvalidRequest", encodable(text), errors=faults)

    @app.exception_handler(HTTPException)
    async def routing(request: Request, error: HTTPException) -> JSONResponse:
        code = {404: "NoSuchResource", 405: "MethodNotAllowed"}.get(error.status_code, "InvalidRequest")
        headers = {"allow": ", ".join(sorted(_methods_of(app, request)))} if error.status_code == 405 else {}
        return problem_response(error.status_code, code, _DETAILS.get(error.detail, str(error.detail)), headers)


def _methods_of(app: FastAPI, request: Request) -> set[str]:
    """The methods that the request's path has: each is a route of its own."""
    methods: set[str] = set()
    for context in iter_route_contexts(app.routes):
        if isinstance(context.original_route, APIRoute) and context.matches(request.scope)[0] is not Match.NONE:
            methods |= context.methods or set()
    return methods


def _reason(request: Request, fault: Mapping[str, Any]) -> str:
    """Describe the fault. FastAPI does not read a body that is not said to be JSON: curl says that it is a form."""
    if tuple(fault["loc"]) == ("body",) and fault["type"] != "missing":
        given = request.headers.get("content-type", "")
        kind = given.partition(";")[0].strip().lower()
        if not (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))):
            return f"Give it as Content-Type: application/json, not {given!r:.100}"
    return str(fault["msg"])


def _where(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location)[:_INPUT_CHARS_MAX]
