"""Errors of the REST API as problem details (RFC 9457), `application/problem+json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.routing import Match

from cns_common.aws.protocol.faults import find_fault
from cns_common.errors import CnsError, OutcomeUnknown, RequestError, StoreFull, StoreUnavailable

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
RETRY_AFTER_FULL_S = 5
_INPUT_CHARS_MAX = 200
_STATUSES: Mapping[str, int] = {
    "QueueDoesNotExist": 404,
    "QueueNameExists": 409,
    "QueueDeletedRecently": 409,
    "PurgeQueueInProgress": 409,
    "ReceiptHandleIsInvalid": 400,
    "OverLimit": 429,
    "RequestThrottled": 429,
    "MissingAuthenticationToken": 401,
    "InvalidClientTokenId": 401,
    "SignatureDoesNotMatch": 401,
    "IncompleteSignature": 401,
    "NoSuchAccount": 404,
    "NoSuchEntity": 404,
    "EntityAlreadyExists": 409,
    "LimitExceeded": 409,
    "ValidationError": 400,
}
"""Statuses of codes that are other ones, or none, in the AWS protocols."""


class Problem(Exception):
    """An answer that is an error of the caller. `code` is a stable name that programs may rely on."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail


def title_of(code: str) -> str:
    """The code in words: QueueDoesNotExist → Queue does not exist."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", code).split()
    return " ".join([words[0], *[word.lower() for word in words[1:]]])


def problem_response(
    status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **members: Any
) -> JSONResponse:
    content = {
        "type": f"urn:cns:problem:{code}",
        "title": title_of(code),
        "status": status,
        "code": code,
        "detail": detail,
        **members,
    }
    return JSONResponse(content, status, dict(headers or {}), MEDIA_TYPE)


def status_and_text(error: CnsError | Problem) -> tuple[int, str, str]:
    """Status, code and text of an error that an operation raised on purpose."""
    match error:
        case Problem(status=status, code=code, detail=detail):
            return status, code, detail
        case RequestError(code=code, message=text):
            return _status(code), code, _encodable(text)
        case OutcomeUnknown():
            return 503, "OutcomeUnknown", "It is not known whether the request took effect. Repeat it."
        case StoreFull():
            return 503, "ServiceUnavailable", "The service has no space left to store messages."
        case StoreUnavailable():
            return 503, "ServiceUnavailable", "The service is unavailable. Nothing was changed. Repeat the request."
        case _:
            return 500, "InternalError", "The service met an internal error."


def response_of(error: CnsError | Problem) -> JSONResponse:
    status, code, text = status_and_text(error)
    headers = {}
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="cns"'
    if status == 503:
        headers["retry-after"] = str(RETRY_AFTER_FULL_S if isinstance(error, StoreFull) else RETRY_AFTER_S)
    return problem_response(status, code, text, headers)


def add_problem_handlers(app: FastAPI) -> None:
    """Make every error of the app a problem."""

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
        return problem_response(400, "InvalidRequest", _encodable(text), errors=faults)

    @app.exception_handler(HTTPException)
    async def routing(request: Request, error: HTTPException) -> JSONResponse:
        code = {404: "NoSuchResource", 405: "MethodNotAllowed"}.get(error.status_code, "InvalidRequest")
        headers = {"allow": ", ".join(sorted(_methods_of(app, request)))} if error.status_code == 405 else {}
        return problem_response(error.status_code, code, str(error.detail), headers)


def _methods_of(app: FastAPI, request: Request) -> set[str]:
    """The methods that the request's path has: each is a route of its own."""
    methods: set[str] = set()
    for context in iter_route_contexts(app.routes):
        if isinstance(context.original_route, APIRoute) and context.matches(request.scope)[0] is not Match.NONE:
            methods |= context.methods or set()
    return methods


def _reason(request: Request, fault: Mapping[str, Any]) -> str:
    """What is wrong. FastAPI does not read a body that is not said to be JSON: curl says that it is a form."""
    if tuple(fault["loc"]) == ("body",) and fault["type"] != "missing":
        given = request.headers.get("content-type", "")
        kind = given.partition(";")[0].strip().lower()
        if not (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))):
            return f"Give it as Content-Type: application/json, not {given!r:.100}"
    return str(fault["msg"])


def _status(code: str) -> int:
    if code in _STATUSES:
        return _STATUSES[code]
    fault = find_fault("sqs", code) or find_fault("sns", code)
    return fault.status if fault else 400


def _where(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location)[:_INPUT_CHARS_MAX]


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()
