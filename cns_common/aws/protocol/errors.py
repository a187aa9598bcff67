"""Errors as HTTP answers: status, headers and body in AWS JSON or AWS Query.

A code that no table has, and any exception that is not the caller's fault, is an InternalError whose text reveals no
cause. The code that caught the exception logs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from cns_common.aws.protocol.faults import INTERNAL_ERROR, UNAVAILABLE, Fault, find_fault
from cns_common.aws.protocol.names import XML_DECLARATIONS, XML_NAMESPACES, ServiceName
from cns_common.aws.protocol.xml import escape
from cns_common.errors import OutcomeUnknown, RequestError, StoreAway, StoreFull, StoreUnavailable

RETRY_AFTER_MS = 500
"""SDKs take `x-amz-retry-after` instead of their own delay if it is longer, by 5 s at most."""
RETRY_AFTER_LONG_MS = 5000
"""For a full disk, which stays full for a while, and for a store that a call has waited for."""

OUTCOME_UNKNOWN = (b"x-cns-outcome", b"unknown")
"""Tells CNS that a call to CQS, unlike others answered with 503, may have taken effect."""

_INTERNAL_TEXT = "We encountered an internal error. Please try again."
_UNAVAILABLE_TEXT = "The service is unavailable. Please try again."
_UNKNOWN_TEXT = "The service did not learn in time whether the request took effect. Please try again."
_FULL_TEXT = "The service has no space left to store messages. Please try again later."

# in AWS Query these codes have a fixed text, whatever the operation's message is
_QUERY_TEXTS: Mapping[str, str] = {"QueueDoesNotExist": "The specified queue does not exist for this wsdl version."}


class HttpAnswer(NamedTuple):
    """An HTTP answer, as ASGI takes it: header names are lower case; the server adds content-length."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class _Failure(NamedTuple):
    """An error as the caller sees it."""

    code: str
    fault: Fault
    text: str
    retry_after_ms: int = 0
    outcome_known: bool = True

    @property
    def side(self) -> str:
        return "Sender" if self.fault.status < 500 else "Receiver"

    @property
    def query_text(self) -> str:
        return _QUERY_TEXTS.get(self.code, self.text)


def render_error_json(service: ServiceName, error: BaseException, request_id: str) -> HttpAnswer:
    """AWS JSON 1.0. Every answer has `x-amzn-query-error`: without it some clients crash or raise the wrong class."""
    failure = _failure(service, error)
    fields = {"__type": failure.fault.shape}
    if failure.text:
        fields["message"] = _encodable(failure.text)
    answer = _answer(failure, b"application/x-amz-json-1.0", request_id, msgspec.json.encode(fields))
    answer.headers.append((b"x-amzn-query-error", f"{failure.fault.wire};{failure.side}".encode()))
    return answer


def render_error_xml(service: ServiceName, error: BaseException, request_id: str) -> HttpAnswer:
    """AWS Query. Only SQS has the empty Detail."""
    failure = _failure(service, error)
    detail = "<Detail/>" if service == "sqs" else ""
    body = (
        f'{XML_DECLARATIONS[service]}<ErrorResponse xmlns="{XML_NAMESPACES[service]}"><Error>'
        f"<Type>{failure.side}</Type><Code>{failure.fault.wire}</Code>"
        f"<Message>{escape(failure.query_text)}</Message>{detail}"
        f"</Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    )
    return _answer(failure, b"text/xml", request_id, body.encode())


def render_error_query_json(service: ServiceName, error: BaseException, request_id: str) -> HttpAnswer:
    """AWS Query for a client that accepts JSON."""
    failure = _failure(service, error)
    fields = {"Code": failure.fault.wire, "Message": _encodable(failure.query_text), "Type": failure.side}
    body = msgspec.json.encode({"Error": fields, "RequestId": request_id})
    return _answer(failure, b"application/json", request_id, body)


def render_refusal(error: BaseException, headers: Mapping[bytes, bytes], request_id: str) -> HttpAnswer:
    """The error of a request that reaches no operation, in the protocol that its headers tell."""
    if b"x-amz-target" in headers:
        return render_error_json("sqs", error, request_id)
    if b"application/json" in headers.get(b"accept", b""):
        return render_error_query_json("sqs", error, request_id)
    return render_error_xml("sns" if b"/sns/" in headers.get(b"authorization", b"") else "sqs", error, request_id)


def _failure(service: ServiceName, error: BaseException) -> _Failure:
    match error:
        case RequestError(code=code, message=text) if fault := find_fault(service, code):
            return _Failure(code, fault, text, RETRY_AFTER_MS if fault is UNAVAILABLE else 0)
        case StoreFull():
            return _Failure("ServiceUnavailable", UNAVAILABLE, _FULL_TEXT, RETRY_AFTER_LONG_MS)
        case StoreAway():
            return _Failure("ServiceUnavailable", UNAVAILABLE, _UNAVAILABLE_TEXT, RETRY_AFTER_LONG_MS)
        case StoreUnavailable():
            return _Failure("ServiceUnavailable", UNAVAILABLE, _UNAVAILABLE_TEXT, RETRY_AFTER_MS)
        case OutcomeUnknown():  # SDKs repeat the call, and it may take effect twice
            return _Failure("ServiceUnavailable", UNAVAILABLE, _UNKNOWN_TEXT, RETRY_AFTER_MS, outcome_known=False)
        case _:
            return _Failure("InternalError", INTERNAL_ERROR, _INTERNAL_TEXT)


def _answer(failure: _Failure, content_type: bytes, request_id: str, body: bytes) -> HttpAnswer:
    headers = [(b"content-type", content_type), (b"x-amzn-requestid", request_id.encode())]
    if failure.retry_after_ms:
        headers.append((b"x-amz-retry-after", str(failure.retry_after_ms).encode()))
    if not failure.outcome_known:
        headers.append(OUTCOME_UNKNOWN)
    return HttpAnswer(failure.fault.status, headers, body)


def _encodable(text: str) -> str:
    """Replace lone surrogates, which a text that quotes a request may have."""
    return text.encode(errors="replace").decode()
