"""The http driver of the queue port: another CQS, called as the reserved account `cns`.

Jobs are received by long polls of SQS and counted by its attributes. The extension `Settle` changes jobs, the extension
`Deliver` sends notifications to customers' queues (`cqs.internal_api`). Neither is repeated unless nothing was sent:
engines do not deduplicate entries by id.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from cns.queue_port.batching import Batcher, Weight
from cns.queue_port.contract import (
    DELIVER_ENTRIES_MAX,
    EnqueuedJob,
    LeasedJob,
    NewJob,
    QueueMessage,
    QueuePort,
    Refusal,
    Renewal,
    size_of,
)
from cns.queue_port.http_client import QueueClient
from cns.queue_port.sqs_delivery import send_message_members
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cqs.queues.names import is_fifo

RECEIVE_MESSAGES_MAX = 10
WAIT_S_MAX = 20
SETTLE_ENTRIES_MAX = 500
_ATTRIBUTES = ("ApproximateReceiveCount", "SentTimestamp")
_FIFO_ATTRIBUTES = (*_ATTRIBUTES, "MessageGroupId", "SequenceNumber")
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


class DeleteEntry(msgspec.Struct, frozen=True, rename="pascal"):
    queue: str
    receipt_handle: str


class SendEntry(msgspec.Struct, frozen=True, rename="pascal"):
    queue: str
    message_id: str
    body: bytes
    group: str
    delay_ms: int
    dedup: str


class ChangeEntry(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True):
    queue: str
    receipt_handle: str
    visible_in_ms: int
    body: bytes | None = None


class SettleRequest(msgspec.Struct, frozen=True, rename="pascal"):
    """Input of `Settle`."""

    deletes: list[DeleteEntry]
    sends: list[SendEntry]
    changes: list[ChangeEntry]


class SentEntry(msgspec.Struct, frozen=True, rename="pascal"):
    """An entry sent to a FIFO queue."""

    message_id: str
    sequence_number: str
    duplicate: bool


class SettleResponse(msgspec.Struct, frozen=True, rename="pascal"):
    deletes: list[str] = []
    in_order: list[SentEntry] = []


class ReceivedJob(msgspec.Struct, frozen=True, rename="pascal"):
    message_id: str
    receipt_handle: str
    body: bytes
    attributes: dict[str, str]


class ReceiveResponse(msgspec.Struct, frozen=True, rename="pascal"):
    messages: list[ReceivedJob] = []


class AttributesResponse(msgspec.Struct, frozen=True, rename="pascal"):
    attributes: dict[str, str] = {}


class DeliverResult(msgspec.Struct, frozen=True, rename="pascal"):
    """The message id of one delivery, or its error."""

    message_id: str = ""
    code: str = ""
    message: str = ""


class DeliverResponse(msgspec.Struct, frozen=True, rename="pascal"):
    results: list[DeliverResult] = []


class HttpQueuePort(QueuePort):
    """Leases and waits are whole seconds, rounded up.

    `space` prefixes the names of this CNS's queues where one CQS serves several CNS: a job received by a CNS that does
    not know its subscriptions would be lost.
    """

    def __init__(self, client: QueueClient, space: str = "") -> None:
        self._client = client
        self._prefix = f"{space}-" if space else ""
        self._settle_batcher: Batcher[SettleRequest, list[bool]] = Batcher(
            self._settle_all, _weight, SETTLE_ENTRIES_MAX
        )
        self._deliver_batcher: Batcher[list[dict[str, Any]], list[DeliverResult]] = Batcher(
            self._deliver_all, _weight_of_messages, DELIVER_ENTRIES_MAX
        )
        self._waits: set[asyncio.Future[ReceiveResponse]] = set()
        self._stopping = False

    def stop_waiting(self) -> None:
        """From now on waiting receives return no jobs. Jobs in a response that is lost become visible when their lease
        ends; CQS leases nothing to a caller that has disconnected."""
        self._stopping = True
        for wait in self._waits:
            wait.cancel()

    async def close(self) -> None:
        await self._client.close()

    async def enqueue(self, new_jobs: Sequence[NewJob]) -> None:
        if new_jobs:
            await self._settle_batcher.call(SettleRequest([], self._sends(new_jobs), []))

    async def enqueue_in_order(self, new_jobs: Sequence[NewJob]) -> list[EnqueuedJob]:
        """Not batched with other calls: these jobs have an order."""
        settled = await self._client.call("Settle", SettleRequest([], self._sends(new_jobs), []), SettleResponse)
        _check_answers("Settle", len(new_jobs), len(settled.in_order))
        return [EnqueuedJob(sent.message_id, sent.sequence_number, sent.duplicate) for sent in settled.in_order]

    async def receive(self, queue: str, n: int, lease_ms: int, wait_s: float) -> list[LeasedJob]:
        wait_whole_s = 0 if self._stopping else min(math.ceil(wait_s), WAIT_S_MAX)
        members = {
            "QueueUrl": self._address(queue),
            "MaxNumberOfMessages": min(n, RECEIVE_MESSAGES_MAX),
            "VisibilityTimeout": math.ceil(lease_ms / 1000),
            "WaitTimeSeconds": wait_whole_s,
            "MessageSystemAttributeNames": _FIFO_ATTRIBUTES if is_fifo(queue) else _ATTRIBUTES,
        }
        wait = asyncio.ensure_future(
            self._client.call("ReceiveMessage", members, ReceiveResponse, wait_s=wait_whole_s, repeatable=True)
        )
        self._waits.add(wait)
        try:
            await asyncio.wait({wait})  # raises when the caller is cancelled, not when `stop_waiting` cancels
        finally:
            self._waits.discard(wait)
            wait.cancel()
        return [] if wait.cancelled() else [_leased_job(job) for job in wait.result().messages]

    async def settle(
        self, queue: str, deletes: Sequence[str] = (), new_jobs: Sequence[NewJob] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        if not (deletes or new_jobs or renewals):
            return []
        return await self._settle_batcher.call(
            SettleRequest(
                [DeleteEntry(self._prefix + queue, handle) for handle in deletes],
                self._sends(new_jobs),
                [
                    ChangeEntry(self._prefix + each.queue, each.handle, each.visible_in_ms, each.body)
                    for each in renewals
                ],
            )
        )

    async def deliver(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
        results = await self._deliver_batcher.call([_entry(queue_arn, message, topic_arn) for message in messages])
        for result in results:  # errors of the store, which takes all messages or none
            if result.code == "ServiceUnavailable":
                raise StoreUnavailable(result.message)
            if result.code == "InternalError":
                raise OutcomeUnknown(result.message)
        return [
            Refusal(result.code, result.message, permanent=True) if result.code else result.message_id
            for result in results
        ]

    async def depth(self, queue: str) -> int:
        members = {"QueueUrl": self._address(queue), "AttributeNames": _COUNTS}
        answer = await self._client.call("GetQueueAttributes", members, AttributesResponse, repeatable=True)
        return sum(int(answer.attributes[name]) for name in _COUNTS)

    def _address(self, queue: str) -> str:
        return f"/{INTERNAL_ACCOUNT}/{self._prefix}{queue}"

    def _sends(self, new_jobs: Sequence[NewJob]) -> list[SendEntry]:
        return [
            SendEntry(self._prefix + job.queue, job.id, job.body, job.group, job.delay_ms, job.dedup)
            for job in new_jobs
        ]

    async def _settle_all(self, settlements: Sequence[SettleRequest]) -> list[list[bool]]:
        """Settle in one request. Each caller gets the outcomes of its own deletes."""
        deletes = [delete for each in settlements for delete in each.deletes]
        settled = await self._client.call(
            "Settle",
            SettleRequest(
                deletes,
                [send for each in settlements for send in each.sends],
                [change for each in settlements for change in each.changes],
            ),
            SettleResponse,
        )
        _check_answers("Settle", len(deletes), len(settled.deletes))
        outcomes = iter([outcome == "DONE" for outcome in settled.deletes])
        return [[next(outcomes) for _ in each.deletes] for each in settlements]

    async def _deliver_all(self, calls: Sequence[list[dict[str, Any]]]) -> list[list[DeliverResult]]:
        """Deliver in one request. Each caller gets the results of its own messages."""
        entries = [entry for each in calls for entry in each]
        results = (await self._client.call("Deliver", {"Entries": entries}, DeliverResponse)).results
        _check_answers("Deliver", len(entries), len(results))
        unread = iter(results)
        return [[next(unread) for _ in each] for each in calls]


def _entry(queue_arn: str, message: QueueMessage, topic_arn: str) -> dict[str, Any]:
    members = {**send_message_members(message), "QueueArn": queue_arn, "TopicArn": topic_arn}
    if message.trace_header:
        members["TraceHeader"] = message.trace_header
    return members


def _check_answers(action: str, asked: int, answered: int) -> None:
    if asked != answered:
        raise OutcomeUnknown(f"{action}: {answered} answers to {asked} entries")


def _leased_job(job: ReceivedJob) -> LeasedJob:
    attributes = job.attributes
    return LeasedJob(
        job.message_id,
        job.receipt_handle,
        job.body,
        int(attributes["ApproximateReceiveCount"]),
        attributes.get("MessageGroupId", ""),
        attributes.get("SequenceNumber", ""),
        int(attributes["SentTimestamp"]),
    )


def _weight(settlement: SettleRequest) -> Weight:
    sizes = [len(send.body) for send in settlement.sends] + [len(change.body or b"") for change in settlement.changes]
    return Weight(len(settlement.deletes) + len(sizes), sum(sizes))


def _weight_of_messages(entries: list[dict[str, Any]]) -> Weight:
    """Entries, and bytes of bodies and attributes, which JSON seldom doubles."""
    sizes = [size_of(members["MessageBody"], members.get("MessageAttributes", {})) for members in entries]
    return Weight(len(entries), sum(sizes))
