"""Sends a topic's messages to a tenant's queue: as SNS's service principal, under the queue's policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cns_common.arn import parse_arn
from cns_common.aws.call import Call, Caller
from cns_common.aws.policy.evaluation import PolicyVerdict
from cns_common.bounded_cache import BoundedCache
from cns_common.errors import RequestError
from cqs.authorization import QueueAccess
from cqs.engines.contract import Entry, RejectedEntry, SentEntry
from cqs.messages.validation import ValidatedMessage, invalid, validate_message
from cqs.queues.names import QueueKey
from cqs.queues.policies import unknown_actions
from cqs.queues.urls import key_of_arn, no_such_queue
from cqs.queues.view import QueueView
from cqs.service import QueueService

TOPICS_REMEMBERED = 10_000
ACTION = "SendMessage"
SERVICE = "sns.amazonaws.com"
SENDER_ID = "AROACNSDELIVERYWORKER:AWS-CLOUDCAST"  # like the role id and session name in SNS's SenderId


class TopicMessage(NamedTuple):
    """`members` are those of SendMessage."""

    members: dict[str, Any]
    trace_header: str


class PreparedMessage(NamedTuple):
    """A message that its queue takes, for a settlement of the queue's engine."""

    view: QueueView
    entry: Entry


class TopicSender:
    def __init__(self, service: QueueService) -> None:
        self._cache = service.cache
        self._clock = service.clock
        self._access = QueueAccess(service.cache, service.clock)
        self._sender = service.sender
        self._calls: BoundedCache[tuple[str, bool], Call] = BoundedCache(TOPICS_REMEMBERED)
        self._allowed: BoundedCache[tuple[str, str, bool], tuple[int, QueueView]] = BoundedCache(TOPICS_REMEMBERED)

    async def send(
        self, queue_arn: str, messages: Sequence[TopicMessage], *, topic_arn: str, enforced: bool
    ) -> list[str | RequestError]:
        """Send the messages to the queue in order, in one engine call. Returns the message id or the error of each.
        Raises RequestError if the queue accepts no message of the topic. Drops deduplication ids if the queue is a
        standard queue. With `enforced=False` (`--auth=off`) policies are not evaluated."""
        view = await self.queue(queue_arn, topic_arn, enforced=enforced)
        checked = [_validate(view, message) for message in messages]
        valid = [one for one in checked if isinstance(one, ValidatedMessage)]
        sent = iter(await self._sender.send(view, valid, SENDER_ID) if valid else ())
        return [next(sent).id if isinstance(one, ValidatedMessage) else one for one in checked]

    def prepare(self, view: QueueView, message: TopicMessage, now_ms: int) -> PreparedMessage:
        """Check a message as `send` does, and send nothing. Raises RequestError and StoreUnavailable."""
        checked = _validate(view, message)
        if isinstance(checked, RequestError):
            raise checked
        (entry,) = self._sender.entries(view, [checked], SENDER_ID, now_ms)
        return PreparedMessage(view, entry)

    async def record(
        self, prepared: Sequence[PreparedMessage], answers: Sequence[SentEntry | RejectedEntry], now_ms: int
    ) -> None:
        """Count prepared messages that were settled, and write the events of audited queues."""
        await self._sender.record([(*one, answer) for one, answer in zip(prepared, answers, strict=True)], now_ms)

    async def refusal(self, queue_arn: str, *, topic_arn: str, enforced: bool) -> RequestError | None:
        """Why the queue accepts no message of the topic; None if it does."""
        try:
            await self.queue(queue_arn, topic_arn, enforced=enforced)
        except RequestError as error:
            return error
        return None

    def known_queue(self, queue_arn: str, topic_arn: str, now_ms: int, *, enforced: bool) -> QueueView | None:
        """The queue that `queue` returned within this second of message time, unless it has changed. Nothing else in a
        topic's call changes with which a policy's answer could."""
        allowed_s, view = self._allowed.get((queue_arn, topic_arn, enforced)) or (0, None)
        if view is None or allowed_s != now_ms // 1000 or self._cache.cached(view.queue.key) is not view:
            return None
        return view

    async def queue(self, queue_arn: str, topic_arn: str, *, enforced: bool) -> QueueView:
        """The queue, if it accepts messages of the topic. Raises RequestError."""
        now_s = self._clock.now_ms() // 1000
        view = await self._allowed_queue(queue_arn, topic_arn, enforced=enforced)
        self._allowed.put((queue_arn, topic_arn, enforced), (now_s, view))
        return view

    async def _allowed_queue(self, queue_arn: str, topic_arn: str, *, enforced: bool) -> QueueView:
        key = key_of_arn(queue_arn)
        if key is None:
            raise no_such_queue()
        call = self._calls.get((topic_arn, enforced)) or self._call(topic_arn, enforced=enforced)
        try:
            return await self._access.queue_by_key(call, key, ACTION)
        except RequestError as error:
            if error.code != "AccessDenied":
                raise
            raise RequestError(error.code, await self._why_denied(call, key, topic_arn)) from None

    async def _why_denied(self, call: Call, key: QueueKey, topic_arn: str) -> str:
        """The reason for the operator's log and `cns explain`: SQS's error text names neither the topic nor the
        policy."""
        view, verdict = await self._access.verdict(call, key, ACTION)
        if view is None or view.policy is None:
            return f"the queue has no policy that allows topic {topic_arn}"
        if verdict is PolicyVerdict.DENIED:
            return f"queue policy denies topic {topic_arn}"
        unknown = ", ".join(unknown_actions(view.policy))
        hint = f"; it names actions that SQS does not know: {unknown}" if unknown else ""
        return f"queue policy does not allow topic {topic_arn}{hint}"

    def _call(self, topic_arn: str, *, enforced: bool) -> Call:
        topic = parse_arn(topic_arn)
        if topic is None:
            raise invalid("TopicArn", topic_arn, "Must be an ARN.")
        call = Call(
            caller=Caller(account="", arn="", user_id=SENDER_ID, service=SERVICE),
            region=topic.region,
            request_id="",
            base_url="",
            policies_enforced=enforced,
            facts={"aws:SourceArn": topic_arn, "aws:SourceAccount": topic.account},
        )
        self._calls.put((topic_arn, enforced), call)
        return call


def _validate(view: QueueView, message: TopicMessage) -> ValidatedMessage | RequestError:
    members = message.members
    if not view.fifo and "MessageDeduplicationId" in members:
        members = {name: value for name, value in members.items() if name != "MessageDeduplicationId"}
    try:
        return validate_message(view, members, message.trace_header)
    except RequestError as refusal:
        return refusal
