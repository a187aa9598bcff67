"""Queues of other services: one signed SendMessage, and what its failures mean."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from cns.delivery.envelope import USER_AGENT
from cns.delivery.remote_queues import RemoteQueue
from cns.endpoints.contract import Request
from cns.endpoints.http import EndpointRequest, HttpSender
from cns.endpoints.http_connection import HttpResponse
from cns.endpoints.outcome import RESPONSE_CHARS_MAX, Cause, Delivered, Failed, Outcome
from cns.queue_port.contract import QueueMessage
from cns.queue_port.sqs_delivery import send_message_members
from cns.queue_port.sqs_requests import decode_or_default, error_of, signed_request
from cns_common.text_size import utf8_bytes

_THROTTLING_CODES = frozenset(
    {
        "KmsThrottled",
        "RequestLimitExceeded",
        "RequestThrottled",
        "ServiceUnavailable",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_CREDENTIAL_CODES = frozenset(
    {
        "ExpiredToken",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "OptInRequired",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""The operator's key or clock is wrong, not the queue: the message waits until that is corrected."""
_RETRYABLE_CODES = _THROTTLING_CODES | _CREDENTIAL_CODES


class RemoteQueueRequest(Request, frozen=True):
    queue: RemoteQueue
    message: QueueMessage


class _SendMessageResponse(msgspec.Struct):
    id: str = msgspec.field(default="", name="MessageId")


class RemoteQueueSender:
    """Sends through `http`, which its owner closes."""

    def __init__(self, http: HttpSender, now_ms: Callable[[], int]) -> None:
        self._http = http
        self._now_ms = now_ms

    async def send(self, request: RemoteQueueRequest) -> Outcome:
        response = await self._http.post(_http_request(request, self._now_ms()))
        if isinstance(response, Failed):
            return replace(response, permanent=False)  # the operator can correct the service's URL
        if 200 <= response.status < 300:
            message_id = decode_or_default(response.body, _SendMessageResponse).id
            size_bytes = utf8_bytes(request.message.body)
            return Delivered(
                response.status, response.dwell_ms, message_id, size_bytes=size_bytes, repeats=response.repeats
            )
        return self._failure(response)

    async def close(self) -> None: ...

    def _failure(self, response: HttpResponse) -> Failed:
        code, message = error_of(response.body)
        text = message[:RESPONSE_CHARS_MAX]
        # without a code the response is not a queue service's, but that of something before it or in its place
        final = bool(code) and 400 <= response.status < 500 and response.status != 429 and code not in _RETRYABLE_CODES
        return Failed(
            Cause.QUEUE if final else Cause.STATUS,  # the fault of this queue, or one of the whole service
            f"{code}: {text}" if code else f"HTTP {response.status}",
            response.dwell_ms,
            status=response.status,
            permanent=final,
            retry_after_s=self._http.retry_after_s(response),
            response=text,
            code=code,
            repeats=response.repeats,
        )


def _http_request(request: RemoteQueueRequest, now_ms: int) -> EndpointRequest:
    queue, message = request.queue, request.message
    members = {"QueueUrl": queue.url, **send_message_members(message)}
    if message.trace_header:
        trace = {"DataType": "String", "StringValue": message.trace_header}
        members["MessageSystemAttributes"] = {"AWSTraceHeader": trace}
    url, headers, body = signed_request(queue.service, queue.region, "SendMessage", members, now_ms)
    return EndpointRequest(url, headers | {"User-Agent": USER_AGENT}, body)
