"""Errors of the REST API as problem details (RFC 9457), `application/problem+json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from cns_common.aws.protocol.faults import find_fault
from cns_common.errors import CnsError, OutcomeUnknown, RequestError, StoreFull, StoreUnavailable

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
RETRY_AFTER_FULL_S = 5
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
            return _status(code), code, encodable(text)
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


def _status(code: str) -> int:
    if code in _STATUSES:
        return _STATUSES[code]
    fault = find_fault("sqs", code) or find_fault("sns", code)
    return fault.status if fault else 400


def encodable(text: str) -> str:
    """The text without halves of surrogate pairs, which a request may have."""
    return text.encode(errors="replace").decode()
