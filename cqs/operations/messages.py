"""SendMessage, ReceiveMessage, DeleteMessage, ChangeMessageVisibility."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.aws.call import Call, Params, Result
from cqs.authorization import QueueAccess
from cqs.limits import RECEIVE_MESSAGES_MAX, RECEIVE_WAIT_S_MAX
from cqs.messages.delete_and_visibility import InFlightMessages, VisibilityChange, check_visibility
from cqs.messages.receive import MessageReceiver, ReceiveRequest
from cqs.messages.send import MessageSender, SentMessage
from cqs.messages.validation import ValidatedMessage, check_id, invalid, missing, validate_message
from cqs.operations.message_result import message_result, read_selection
from cqs.queues.view import QueueView


class ReceiveBounds(NamedTuple):
    messages_max: int = RECEIVE_MESSAGES_MAX
    wait_s_max: int = RECEIVE_WAIT_S_MAX


_SQS_BOUNDS = ReceiveBounds()


class MessageOperations:
    def __init__(
        self,
        access: QueueAccess,
        sender: MessageSender,
        receiver: MessageReceiver,
        in_flight: InFlightMessages,
        bounds: ReceiveBounds = _SQS_BOUNDS,
    ) -> None:
        self._access = access
        self._sender = sender
        self._receiver = receiver
        self._in_flight = in_flight
        self._bounds = bounds

    async def send_message(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "SendMessage")
        message = validate_message(view, params, call.trace_header)
        (accepted,) = await self._sender.send(view, (message,), sender_of(call))
        return send_result(message, accepted)

    async def receive_message(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "ReceiveMessage")
        selection, request = read_selection(params), _receive_request(view, params, self._bounds)
        when_gone = call.when_gone
        if request.wait_ms and call.extend is not None:
            call.extend(request.wait_ms / 1000)
        del call, params  # a waiting long poll must not keep its request in memory
        delivery = await self._receiver.receive(view, request, when_gone)
        return {
            "Messages": [
                message_result(view, message, delivery.received_at_ms, selection) for message in delivery.messages
            ]
        }

    async def delete_message(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "DeleteMessage")
        (fault,) = await self._in_flight.delete(view, (_handle(params),))
        if fault is not None:
            raise fault
        return {}

    async def change_message_visibility(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "ChangeMessageVisibility")
        handle = _handle(params)
        timeout_s = params.get("VisibilityTimeout")
        if timeout_s is None:
            raise missing("VisibilityTimeout")
        (fault,) = await self._in_flight.change_visibility(view, (VisibilityChange(handle, timeout_s),))
        if fault is not None:
            raise fault
        return {}


def sender_of(call: Call) -> str:
    """Unsigned callers are identified by their address."""
    return call.caller.user_id or call.source_ip


def send_result(message: ValidatedMessage, accepted: SentMessage) -> Result:
    """The response of SendMessage for one message."""
    result = {"MessageId": accepted.id, "MD5OfMessageBody": message.md5}
    if message.attributes.sent_md5:
        result["MD5OfMessageAttributes"] = message.attributes.sent_md5
    if message.system_md5:
        result["MD5OfMessageSystemAttributes"] = message.system_md5
    if accepted.sequence:
        result["SequenceNumber"] = accepted.sequence
    return result


def _handle(params: Params) -> str:
    handle: str = params.get("ReceiptHandle") or ""
    if not handle:
        raise missing("ReceiptHandle")
    return handle


def _receive_request(view: QueueView, params: Params, bounds: ReceiveBounds) -> ReceiveRequest:
    messages_max, wait_s_max = bounds
    want: int = params.get("MaxNumberOfMessages", 1)
    if not 1 <= want <= messages_max:
        raise invalid("MaxNumberOfMessages", want, f"Must be between 1 and {messages_max}, if provided.")
    visibility_s: int | None = params.get("VisibilityTimeout")
    visibility_ms = view.visibility_ms if visibility_s is None else check_visibility(visibility_s) * 1000
    wait_s: int | None = params.get("WaitTimeSeconds")
    if wait_s is not None and not 0 <= wait_s <= wait_s_max:
        raise invalid("WaitTimeSeconds", wait_s, f"Must be >= 0 and <= {wait_s_max}, if provided.")
    wait_ms = view.wait_ms if wait_s is None else wait_s * 1000
    attempt_id: str | None = params.get("ReceiveRequestAttemptId")
    if attempt_id is None or not view.fifo:  # AWS ignores it for a standard queue
        return ReceiveRequest(want, visibility_ms, wait_ms)
    check_id("ReceiveRequestAttemptId", attempt_id)
    return ReceiveRequest(want, visibility_ms, wait_ms, attempt_id)
