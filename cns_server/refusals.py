"""Answers to requests that reach no operation and no page, in the shape that their client reads: an SDK then prints a
code and a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cns_common.aws.cors import CorsPolicy
from cns_common.aws.protocol.errors import HttpAnswer, render_refusal
from cns_common.errors import CnsError, RequestError, StoreUnavailable
from cns_common.ids import uuid_text
from cns_server.paths import PAGES_PREFIX, PORTAL_PREFIX, REST_PREFIX
from cns_server.rest.problems import problem_response, response_of

_NO_PATH = "There is nothing at this path. The endpoint URL of an SDK has no path: it is like http://host:port."
NO_CERTIFICATE = "There is no signing certificate of this name."
_OWN_PAGES = (PAGES_PREFIX, PORTAL_PREFIX, "/_cns")
"""The beginnings of paths that pages of other origins may not call, as those of the REST API."""
REFUSALS: Mapping[int, CnsError] = {
    400: RequestError("InvalidHttpRequest", "The body of the request is not framed as HTTP asks."),
    404: RequestError("UnknownOperationException", _NO_PATH),
    405: RequestError("MethodNotAllowed", "This path does not take the method of the request."),
    408: RequestError("RequestTimeout", "The request did not arrive in time."),
    413: RequestError("RequestEntityTooLarge", "The request is larger than any operation takes."),
    431: RequestError("RequestHeaderFieldsTooLarge", "The URL and headers of the request are too large."),
    503: StoreUnavailable("overloaded"),
}


def refusal(
    error: CnsError, path: str, headers: Iterable[tuple[bytes, bytes]], cors: CorsPolicy | None = None
) -> HttpAnswer:
    """`headers` are those of the request, with names in lower case. `cors` is for the paths of AWS calls only."""
    if path.startswith(f"{REST_PREFIX}/"):
        response = response_of(error)
        kept = [(name, value) for name, value in response.raw_headers if name != b"content-length"]
        return HttpAnswer(response.status_code, kept, bytes(response.body))
    fields = dict(headers)
    answer = render_refusal(error, fields, uuid_text())
    if cors is not None and not path.startswith(_OWN_PAGES):
        answer.headers.extend(cors.headers(fields))
    return answer


def refuse(
    error: CnsError, request: Request, headers: Mapping[str, str] | None = None, cors: CorsPolicy | None = None
) -> Response:
    """`headers` are further ones of the answer. A browser that asks before its call is answered, to see the refusal
    of that."""
    path, asked = request.scope["path"], request.scope["headers"]
    preflight = None
    if cors is not None and not path.startswith((REST_PREFIX, *_OWN_PAGES)):
        preflight = cors.preflight(request.method, dict(asked))
    status, own, body = preflight or refusal(error, path, asked, cors)
    return Response(body, status, {name.decode(): value.decode() for name, value in own} | dict(headers or {}))


async def no_such_page(cors: CorsPolicy | None, request: Request, error: Exception) -> Response:
    """404 and 405 of the app that the others are mounted in: also below a mount, for paths with a line feed."""
    assert isinstance(error, HTTPException)
    if request.scope["path"].startswith(REST_PREFIX):
        code = "NoSuchResource" if error.status_code == 404 else "MethodNotAllowed"
        return problem_response(error.status_code, code, error.detail, error.headers)
    refused = REFUSALS[error.status_code]
    if isinstance(refused, RequestError) and error.detail != HTTPStatus(error.status_code).phrase:
        refused = RequestError(refused.code, error.detail)  # the raiser knows more
    headers = {name: ", ".join(sorted(text.split(", "))) for name, text in (error.headers or {}).items()}  # Allow
    return refuse(refused, request, headers, cors if error.status_code == 404 else None)
