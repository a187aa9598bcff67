"""Sending to a tenant's queue on a topic's behalf: as SNS's service principal, under the queue's own policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cns_common.arn import parse_arn
from cns_common.aws.call import Call, Caller
from cns_common.aws.policy.evaluation import Verdict
from cns_common.bounded_cache import BoundedCache
from cns_common.errors import RequestError
from cqs.authorization import Access
from cqs.messages.validation import ValidatedMessage, invalid, validate_message
from cqs.queues.names import QueueKey
from cqs.queues.policies import unknown_actions
from cqs.queues.urls import key_of_arn, no_such_queue
from cqs.queues.view import QueueView
from cqs.service import QueueService

TOPICS_REMEMBERED = 10_000
ACTION = "SendMessage"
SERVICE = "sns.amazonaws.com"
SENDER_ID = "AROACNSDELIVERYWORKER:AWS-CLOUDCAST"  # SNS's form of a SenderId: a role of the service and its session


class Message(NamedTuple):
    """`members` are SendMessage's."""

    members: dict[str, Any]
    trace_header: str


class TopicSender:
    def __init__(self, service: QueueService) -> None:
        self._access = Access(service.cache, service.clock)
        self._sender = service.sender
        self._calls: BoundedCache[tuple[str, bool], Call] = BoundedCache(TOPICS_REMEMBERED)

    async def send(
        self, queue_arn: str, messages: Sequence[Message], *, topic_arn: str, enforced: bool
    ) -> list[str | RequestError]:
        """Send the messages to the queue in their order, in one step. Returns for each its id or its refusal; raises
        RequestError when the queue takes none of the topic's messages. Ids that the queue's type does not take are left
        out. `enforced` is False under `--auth=off`: then every queue takes every topic's messages."""
        key = key_of_arn(queue_arn)
        if key is None:
            raise no_such_queue()
        call = self._calls.get((topic_arn, enforced)) or self._call(topic_arn, enforced=enforced)
        try:
            view = await self._access.queue_of(call, key, ACTION)
        except RequestError as error:
            if error.code != "AccessDenied":
                raise
            raise RequestError(error.code, await self._why_denied(call, key, topic_arn)) from None
        drafts = [_draft(view, message) for message in messages]
        good = [draft for draft in drafts if isinstance(draft, ValidatedMessage)]
        accepted = iter(await self._sender.send(view, good, SENDER_ID) if good else ())
        return [next(accepted).id if isinstance(draft, ValidatedMessage) else draft for draft in drafts]

    async def _why_denied(self, call: Call, key: QueueKey, topic_arn: str) -> str:
        """For the operator's log and `cns explain`: SQS's own text names neither the topic nor the policy."""
        view, verdict = await self._access.verdict(call, key, ACTION)
        if view is None or view.policy is None:
            return f"the queue has no policy that allows topic {topic_arn}"
        if verdict is Verdict.DENIED:
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


def _draft(view: QueueView, message: Message) -> ValidatedMessage | RequestError:
    members = message.members
    if not view.fifo and "MessageDeduplicationId" in members:
        members = {name: value for name, value in members.items() if name != "MessageDeduplicationId"}
    try:
        return validate_message(view, members, message.trace_header)
    except RequestError as refusal:
        return refusal
