"""Queues of other services: one signed SendMessage (AWS JSON 1.0), and what its failures mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from cns.delivery.envelope import USER_AGENT
from cns.delivery.remote_queues import RemoteQueue
from cns.endpoints.http import HttpRequest, HttpSender
from cns.endpoints.http_connection import HttpResponse
from cns.endpoints.http_url import target_of
from cns.endpoints.outcome import RESPONSE_CHARS_MAX, Cause, Delivered, Failed, Outcome
from cns.queue_port.contract import QueueMessage
from cns.queue_port.sqs_delivery import send_message_members
from cns_common.aws.auth.request_signing import SigningCredential, sign

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
"""A wrong key or clock of ours says nothing of the queue: it is put right while the message waits."""
_RETRYABLE_CODES = _THROTTLING_CODES | _CREDENTIAL_CODES


class RemoteQueueRequest(msgspec.Struct, frozen=True):
    queue: RemoteQueue
    message: QueueMessage


class _SendMessageResponse(msgspec.Struct):
    id: str = msgspec.field(default="", name="MessageId")


class _ErrorResponse(msgspec.Struct):
    type: str = msgspec.field(default="", name="__type")
    message: str | None = None
    capital: str | None = msgspec.field(default=None, name="Message")  # older services spell it so


class RemoteQueueSender:
    """Sends by `http`, whose it is not to close."""

    def __init__(self, http: HttpSender, now_ms: Callable[[], int]) -> None:
        self._http = http
        self._now_ms = now_ms

    async def send(self, request: RemoteQueueRequest) -> Outcome:
        answer = await self._http.post(_signed(request, self._now_ms()))
        if isinstance(answer, Failed):
            return replace(answer, permanent=False)  # where the service is, is the operator's to put right
        if 200 <= answer.status < 300:
            return Delivered(answer.status, answer.dwell_ms, _read(answer, _SendMessageResponse).id)
        return self._refused(answer)

    async def close(self) -> None: ...

    def _refused(self, answer: HttpResponse) -> Failed:
        refusal = _read(answer, _ErrorResponse)
        code = refusal.type.rpartition("#")[2]
        text = (refusal.message or refusal.capital or "")[:RESPONSE_CHARS_MAX]
        # without a code it is not a queue service that answers, but something before it or instead
        final = bool(code) and 400 <= answer.status < 500 and answer.status != 429 and code not in _RETRYABLE_CODES
        return Failed(
            Cause.QUEUE if final else Cause.STATUS,  # the queue's own fault, or one of all that is there
            f"{code}: {text}" if code else f"HTTP {answer.status}",
            answer.dwell_ms,
            status=answer.status,
            permanent=final,
            retry_after_s=self._http.retry_after_s(answer),
            response=text,
            code=code,
        )


def _signed(request: RemoteQueueRequest, now_ms: int) -> HttpRequest:
    queue, message = request.queue, request.message
    members = {"QueueUrl": queue.url, **send_message_members(message)}
    if message.trace_header:
        trace = {"DataType": "String", "StringValue": message.trace_header}
        members["MessageSystemAttributes"] = {"AWSTraceHeader": trace}
    body = msgspec.json.encode(members)
    url = f"{queue.place.url}/"
    target = target_of(url)
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": "AmazonSQS.SendMessage",
    }
    if target is None:
        return HttpRequest(url, headers, body)  # who is to send it says that it cannot be posted
    signature = sign(
        method="POST",
        path=target.path,
        headers={"Host": target.host_field, **headers},
        body=body,
        credential=SigningCredential(queue.place.key_id, queue.place.secret, queue.region, "sqs"),
        now_ms=now_ms,
    )
    return HttpRequest(url, {**headers, **signature, "User-Agent": USER_AGENT}, body)


def _read(answer: HttpResponse, form: type[Any]) -> Any:
    """What an answer says; nothing, if it is not in the service's form."""
    try:
        return msgspec.json.decode(answer.body, type=form)
    except (ValueError, RecursionError):  # msgspec's own, of its UTF-8, and of brackets without end
        return form()
