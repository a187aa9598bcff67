"""Messages of a queue: put, lease the next, update contents and lease, acknowledge, browse."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from cns.rest.models import BrowsedMessage, BrowsedMessages, MessageAttribute, ReceivedMessage, SentMessage
from cns_common.aws.asgi_caller import AsgiCaller
from cns_common.errors import RequestError
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.cursors import Cursors
from cns_server.rest.dependencies import Begun
from cns_server.rest.models import MessageUpdate, NewMessage, NewMessageAttribute
from cns_server.rest.problems import Problem
from cns_server.rest.queues import AccountId, After, QueueName
from cqs.authorization import QueueAccess
from cqs.engines.contract import Outcome, PeekedMessage
from cqs.operations.messages import sender_of
from cqs.queues.model import decode_body
from cqs.queues.view import QueueView
from cqs.service import QueueService

BROWSED_MAX = 100
PopReceipt = Annotated[str, Query(alias="popReceipt", min_length=1, max_length=1_024, pattern="^[!-~]*$")]
_SHOWN = {"SenderId", "AWSTraceHeader", "DeadLetterQueueSourceArn", "MessageGroupId", "MessageDeduplicationId"} | {
    "SequenceNumber"
}
"""System attributes that are not members of their own."""


class MessageRoutes:
    def __init__(self, calls: RestCalls, queues: QueueService, cursors: Cursors) -> None:
        self._calls = calls
        self._queues = queues
        self._cursors = cursors
        self._access = QueueAccess(queues.cache, queues.clock)

    def add_to(self, router: APIRouter) -> None:
        messages = "/accounts/{account}/queues/{queue}/messages"
        router.add_api_route(messages, self.put_message, methods=["POST"], status_code=201, response_model=SentMessage)
        router.add_api_route(
            messages + "/next",
            self.next_message,
            methods=["GET"],
            response_model=ReceivedMessage,
            responses={204: {"description": "The queue has no visible message."}},
        )
        router.add_api_route(messages, self.update_message, methods=["PUT"], status_code=204, response_class=Response)
        router.add_api_route(
            messages, self.acknowledge_message, methods=["DELETE"], status_code=204, response_class=Response
        )
        router.add_api_route(messages, self.browse_messages, methods=["GET"], response_model=BrowsedMessages)

    async def put_message(self, rest: Begun, account: AccountId, queue: QueueName, body: NewMessage) -> SentMessage:
        """Put a message at the tail of the queue."""
        params = {
            "QueueUrl": rest.queue_url(account, queue),
            "MessageBody": body.body,
            "DelaySeconds": body.delay_seconds,
            "MessageAttributes": sqs_attributes(body.attributes),
            "MessageGroupId": body.group_id,
            "MessageDeduplicationId": body.deduplication_id,
        }
        sent = await self._calls.run(rest, "sqs:SendMessage", params, account=account, queue=queue)
        return SentMessage(
            message_id=sent["MessageId"],
            md5_of_body=sent["MD5OfMessageBody"],
            sequence_number=sent.get("SequenceNumber"),
        )

    async def next_message(
        self,
        rest: Begun,
        account: AccountId,
        queue: QueueName,
        request: Request,
        lease_seconds: Annotated[int | None, Query(alias="leaseSeconds")] = None,
        wait_seconds: Annotated[int | None, Query(alias="waitSeconds")] = None,
    ) -> ReceivedMessage | Response:
        """Lease the next message: it is hidden until it is acknowledged or the lease ends. 204 if there is none."""
        params = {
            "QueueUrl": rest.queue_url(account, queue),
            "VisibilityTimeout": lease_seconds,
            "WaitTimeSeconds": wait_seconds,
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        }
        await request.body()  # after it the channel has the disconnect only
        caller = AsgiCaller(request.receive)
        rest.call.when_gone = caller.when_gone
        try:
            received = await self._calls.run(rest, "sqs:ReceiveMessage", params, account=account, queue=queue)
        finally:
            caller.forget()
        messages = received["Messages"]
        return _received(messages[0]) if messages else Response(status_code=204)

    async def update_message(
        self, rest: Begun, account: AccountId, queue: QueueName, pop_receipt: PopReceipt, body: MessageUpdate
    ) -> None:
        """Replace the contents of a leased message, renew its lease, or both."""
        if body.body is None and body.lease_seconds is None:
            raise Problem(400, "InvalidRequest", "Give body, leaseSeconds or both.")
        view = await self._view(rest, account, queue, "UpdateMessage", "ChangeMessageVisibility")
        members = None
        if body.body is not None:
            await self._view(rest, account, queue, "UpdateMessage", "SendMessage")
            members = {"MessageBody": body.body}
        outcome = await self._queues.leased.update(
            view, pop_receipt, members=members, lease_s=body.lease_seconds, sender=sender_of(rest.call)
        )
        _check(outcome)

    async def acknowledge_message(
        self, rest: Begun, account: AccountId, queue: QueueName, pop_receipt: PopReceipt
    ) -> None:
        """Delete a leased message. 409 if its lease has ended and it was delivered again."""
        view = await self._view(rest, account, queue, "DeleteMessage", "DeleteMessage")
        _check(await self._queues.leased.acknowledge(view, pop_receipt))

    async def browse_messages(
        self,
        rest: Begun,
        account: AccountId,
        queue: QueueName,
        after: After = "",
        limit: Annotated[int, Query(ge=1, le=BROWSED_MAX)] = 10,
    ) -> BrowsedMessages:
        """Look at messages without leasing them, the soonest visible first."""
        view = await self._view(rest, account, queue, "ReceiveMessage", "ReceiveMessage")
        now_ms = self._queues.clock.now_ms()
        page = await view.engine.peek(view.ref, self._cursors.read(view.queue.id, after), limit, now_ms)
        expired_ms = now_ms - view.ref.retention_ms
        shown = [_browsed(one, now_ms) for one in page.messages if one.born_at_ms > expired_ms]
        return BrowsedMessages(messages=shown, next=self._cursors.write(view.queue.id, page.cursor))

    async def _view(self, rest: RestCall, account: str, queue: str, level_action: str, action: str) -> QueueView:
        """The queue, if the grant allows `level_action` there and the policies `action`."""
        self._calls.check(rest, f"sqs:{level_action}", account=account, queue=queue)
        return await self._access.queue_by_name(rest.call, account, queue, action)


def sqs_attributes(attributes: dict[str, NewMessageAttribute]) -> dict[str, dict[str, Any]] | None:
    """The attributes as members of SendMessage or Publish; None if there are none."""
    return {
        name: {
            key: value
            for key, value in (
                ("DataType", one.data_type),
                ("StringValue", one.string_value),
                ("BinaryValue", one.binary_value),
            )
            if value is not None
        }
        for name, one in attributes.items()
    } or None


def _received(message: dict[str, Any]) -> ReceivedMessage:
    system = message["Attributes"]
    return ReceivedMessage(
        message_id=message["MessageId"],
        pop_receipt=message["ReceiptHandle"],
        body=message["Body"],
        delivery_count=int(system["ApproximateReceiveCount"]),
        sent_at=int(system["SentTimestamp"]),
        first_received_at=int(system["ApproximateFirstReceiveTimestamp"]),
        attributes={name: _attribute(member) for name, member in message.get("MessageAttributes", {}).items()},
        system_attributes={name: text for name, text in system.items() if name in _SHOWN},
    )


def _attribute(member: Mapping[str, Any]) -> MessageAttribute:
    binary: bytes | None = member.get("BinaryValue")
    return MessageAttribute(
        data_type=member["DataType"],
        string_value=member.get("StringValue"),
        binary_value=None if binary is None else base64.b64encode(binary).decode("ascii"),
    )


def _browsed(message: PeekedMessage, now_ms: int) -> BrowsedMessage:
    body = decode_body(message.body)
    hidden = message.visible_at_ms > now_ms
    return BrowsedMessage(
        message_id=message.id,
        body=body.text,
        state=("inFlight" if message.deliveries else "delayed") if hidden else "visible",
        delivery_count=message.deliveries,
        sent_at=body.sent_at_ms,
        visible_at=message.visible_at_ms,
        group_id=message.group or None,
        attributes={one.name: _attribute(one.as_member()) for one in body.attributes},
        dead_letter_source_arn=body.source_arn or None,
    )


def _check(outcome: Outcome) -> None:
    """Raise the problem of an outcome that is not DONE."""
    match outcome:
        case Outcome.DONE:
            return
        case Outcome.GONE:
            raise Problem(404, "MessageDoesNotExist", "The message was acknowledged, purged, moved or has expired.")
        case Outcome.MALFORMED:
            raise RequestError("ReceiptHandleIsInvalid", "The pop receipt was never issued by this queue.")
        case _:
            raise Problem(409, "LeaseExpired", "The lease has ended: another delivery may have the message.")
