"""Sending notifications to customers' queues, as the topic's service principal and under each queue's own policy."""

from __future__ import annotations

from cns.queue_port import QueueMessage, Refused
from common.arn import parse_arn
from common.aws.call import Call, Caller
from common.bounded import Bounded
from common.clock import Clock
from common.errors import RequestError
from cqs.access import Access
from cqs.drafts import read_draft
from cqs.service import QueueService

TOPICS_REMEMBERED = 10_000
SERVICE = "sns.amazonaws.com"
SENDER_ID = "AROACNSDELIVERYWORKER:AWS-CLOUDCAST"  # SNS's form of a SenderId: a role of the service and its session
_NO_QUEUE = Refused("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.", permanent=True)


class QueueDeliverer:
    """`enforced` is False under `--auth=off`: then every queue takes every topic's messages."""

    def __init__(self, service: QueueService, clock: Clock, *, enforced: bool) -> None:
        self._access = Access(service.cache, clock)
        self._sending = service.sending
        self._enforced = enforced
        self._calls: Bounded[str, Call] = Bounded(TOPICS_REMEMBERED)

    async def deliver(self, queue_arn: str, message: QueueMessage, topic_arn: str) -> str | Refused:
        """The id of the message it became, or why the queue did not take it."""
        queue = parse_arn(queue_arn)
        if queue is None:
            return _NO_QUEUE
        call = self._calls.get(topic_arn) or self._call(topic_arn)
        try:
            view = await self._access.queue_of(call, (queue.account, queue.region, queue.resource), "SendMessage")
            draft = read_draft(view, _members(message, fifo=view.fifo), message.trace_header)
            accepted = await self._sending.send(view, [draft], SENDER_ID)
        except RequestError as error:
            return Refused(error.code, error.message, permanent=True)
        return accepted[0].id

    def _call(self, topic_arn: str) -> Call:
        _, _, _, region, account, _ = topic_arn.split(":", 5)
        call = Call(
            caller=Caller(account="", arn="", user_id=SENDER_ID, service=SERVICE),
            region=region,
            request_id="",
            base_url="",
            policies_enforced=self._enforced,
            facts={"aws:SourceArn": topic_arn, "aws:SourceAccount": account},
        )
        self._calls.put(topic_arn, call)
        return call


def _members(message: QueueMessage, *, fifo: bool) -> dict[str, object]:
    """A SendMessage's members. A standard queue takes the group as its fairness tenant, and no deduplication id."""
    members: dict[str, object] = {"MessageBody": message.body}
    if message.attributes:
        members["MessageAttributes"] = message.attributes
    if message.group:
        members["MessageGroupId"] = message.group
    if fifo and message.dedup:
        members["MessageDeduplicationId"] = message.dedup
    return members
