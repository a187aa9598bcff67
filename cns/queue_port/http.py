"""The queue port's http driver: a CQS elsewhere, called as the reserved account `cns`.

Jobs are received with SQS's own long polls and counted with its attributes; everything that changes them is the
extension `Settle`, and notifications reach customers' queues by the extension `Deliver` (`cqs.internal_api`). Neither
is repeated unless nothing was sent: engines do not deduplicate entries by id.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from cns.queue_port.batching import Together, Weight
from cns.queue_port.contract import DELIVER_ENTRIES_MAX, Held, Numbered, Put, QueueMessage, Refused, Renewal, size_of
from cns.queue_port.http_client import QueueClient
from cns.queue_port.sqs_delivery import members_of
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cqs.queues.names import is_fifo

RECEIVE_MAX = 10
WAIT_S_MAX = 20
SETTLE_ENTRIES_MAX = 500
_ATTRIBUTES = ("ApproximateReceiveCount",)
_FIFO_ATTRIBUTES = (*_ATTRIBUTES, "MessageGroupId", "SequenceNumber")
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


class Delete(msgspec.Struct, frozen=True, rename="pascal"):
    queue: str
    receipt_handle: str


class Send(msgspec.Struct, frozen=True, rename="pascal"):
    queue: str
    message_id: str
    body: bytes
    group: str
    delay_ms: int
    dedup: str


class Change(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True):
    queue: str
    receipt_handle: str
    visible_in_ms: int
    body: bytes | None = None


class Settlement(msgspec.Struct, frozen=True, rename="pascal"):
    """What is to become of jobs; `Settle`'s input."""

    deletes: list[Delete]
    sends: list[Send]
    changes: list[Change]


class Sent(msgspec.Struct, frozen=True, rename="pascal"):
    """Into a FIFO queue."""

    message_id: str
    sequence_number: str
    duplicate: bool


class Settled(msgspec.Struct, frozen=True, rename="pascal"):
    deletes: list[str] = []
    in_order: list[Sent] = []


class Job(msgspec.Struct, frozen=True, rename="pascal"):
    message_id: str
    receipt_handle: str
    body: bytes
    attributes: dict[str, str]


class Received(msgspec.Struct, frozen=True, rename="pascal"):
    messages: list[Job] = []


class Attributes(msgspec.Struct, frozen=True, rename="pascal"):
    attributes: dict[str, str] = {}


class Result(msgspec.Struct, frozen=True, rename="pascal"):
    """Of one delivery: the message's id, or why there is none."""

    message_id: str = ""
    code: str = ""
    message: str = ""


class Results(msgspec.Struct, frozen=True, rename="pascal"):
    results: list[Result] = []


class HttpQueuePort:
    """See `cns.queue_port.contract.QueuePort`. Leases and waits are in whole seconds, rounded up.

    `space` sets this CNS's queues apart where a CQS serves several, of which its own is one: a job in the hands of a
    CNS that does not know its subscriptions would be lost.
    """

    def __init__(self, client: QueueClient, space: str = "") -> None:
        self._client = client
        self._prefix = f"{space}-" if space else ""
        self._settling: Together[Settlement, list[bool]] = Together(self._settle_all, _weight, SETTLE_ENTRIES_MAX)
        self._delivering: Together[list[dict[str, Any]], list[Result]] = Together(
            self._deliver_all, _weight_of_messages, DELIVER_ENTRIES_MAX
        )
        self._waits: set[asyncio.Future[Received]] = set()
        self._stopping = False

    def stop_waiting(self) -> None:
        """Receives that wait return empty from now on. What one of them was just being handed comes back when its
        lease is over; CQS gives nothing to a caller that has gone."""
        self._stopping = True
        for wait in self._waits:
            wait.cancel()

    async def close(self) -> None:
        await self._client.close()

    async def put(self, puts: Sequence[Put]) -> None:
        if puts:
            await self._settling.call(Settlement([], self._sends(puts), []))

    async def put_in_order(self, puts: Sequence[Put]) -> list[Numbered]:
        """Not together with others: a request has one answer, and these have an order."""
        settled = await self._client.call("Settle", Settlement([], self._sends(puts), []), Settled)
        _check_answers("Settle", len(puts), len(settled.in_order))
        return [Numbered(sent.message_id, sent.sequence_number, sent.duplicate) for sent in settled.in_order]

    async def receive(self, queue: str, n: int, lease_ms: int, wait_s: float) -> list[Held]:
        wait_whole_s = 0 if self._stopping else min(math.ceil(wait_s), WAIT_S_MAX)
        members = {
            "QueueUrl": self._address(queue),
            "MaxNumberOfMessages": min(n, RECEIVE_MAX),
            "VisibilityTimeout": math.ceil(lease_ms / 1000),
            "WaitTimeSeconds": wait_whole_s,
            "MessageSystemAttributeNames": _FIFO_ATTRIBUTES if is_fifo(queue) else _ATTRIBUTES,
        }
        wait = asyncio.ensure_future(
            self._client.call("ReceiveMessage", members, Received, wait_s=wait_whole_s, repeatable=True)
        )
        self._waits.add(wait)
        try:
            await asyncio.wait({wait})  # raises what ends the caller, and not what `stop_waiting` ends
        finally:
            self._waits.discard(wait)
            wait.cancel()
        return [] if wait.cancelled() else [_held(job) for job in wait.result().messages]

    async def settle(
        self, queue: str, done: Sequence[str] = (), puts: Sequence[Put] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        if not (done or puts or renewals):
            return []
        return await self._settling.call(
            Settlement(
                [Delete(self._prefix + queue, handle) for handle in done],
                self._sends(puts),
                [Change(self._prefix + each.queue, each.handle, each.visible_in_ms, each.body) for each in renewals],
            )
        )

    async def deliver(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refused]:
        results = await self._delivering.call([_entry(queue_arn, message, topic_arn) for message in messages])
        for result in results:  # of the store, which takes all or none
            if result.code == "ServiceUnavailable":
                raise StoreUnavailable(result.message)
            if result.code == "InternalError":
                raise OutcomeUnknown(result.message)
        return [
            Refused(result.code, result.message, permanent=True) if result.code else result.message_id
            for result in results
        ]

    async def depth(self, queue: str) -> int:
        members = {"QueueUrl": self._address(queue), "AttributeNames": _COUNTS}
        answer = await self._client.call("GetQueueAttributes", members, Attributes, repeatable=True)
        return sum(int(answer.attributes[name]) for name in _COUNTS)

    def _address(self, queue: str) -> str:
        return f"/{INTERNAL_ACCOUNT}/{self._prefix}{queue}"

    def _sends(self, puts: Sequence[Put]) -> list[Send]:
        return [Send(self._prefix + put.queue, put.id, put.body, put.group, put.delay_ms, put.dedup) for put in puts]

    async def _settle_all(self, settlements: Sequence[Settlement]) -> list[list[bool]]:
        """In one step: each caller gets the outcomes of its own deletes."""
        deletes = [delete for each in settlements for delete in each.deletes]
        settled = await self._client.call(
            "Settle",
            Settlement(
                deletes,
                [send for each in settlements for send in each.sends],
                [change for each in settlements for change in each.changes],
            ),
            Settled,
        )
        _check_answers("Settle", len(deletes), len(settled.deletes))
        outcomes = iter([outcome == "DONE" for outcome in settled.deletes])
        return [[next(outcomes) for _ in each.deletes] for each in settlements]

    async def _deliver_all(self, calls: Sequence[list[dict[str, Any]]]) -> list[list[Result]]:
        """In one request: each caller gets the results of its own messages."""
        entries = [entry for each in calls for entry in each]
        results = (await self._client.call("Deliver", {"Entries": entries}, Results)).results
        _check_answers("Deliver", len(entries), len(results))
        given = iter(results)
        return [[next(given) for _ in each] for each in calls]


def _entry(queue_arn: str, message: QueueMessage, topic_arn: str) -> dict[str, Any]:
    members = {**members_of(message), "QueueArn": queue_arn, "TopicArn": topic_arn}
    if message.trace_header:
        members["TraceHeader"] = message.trace_header
    return members


def _check_answers(action: str, asked: int, answered: int) -> None:
    if asked != answered:
        raise OutcomeUnknown(f"{action}: {answered} answers to {asked} entries")


def _held(job: Job) -> Held:
    shown = job.attributes
    return Held(
        job.message_id,
        job.receipt_handle,
        job.body,
        int(shown["ApproximateReceiveCount"]),
        shown.get("MessageGroupId", ""),
        shown.get("SequenceNumber", ""),
    )


def _weight(settlement: Settlement) -> Weight:
    sizes = [len(send.body) for send in settlement.sends] + [len(change.body or b"") for change in settlement.changes]
    return Weight(len(settlement.deletes) + len(sizes), sum(sizes))


def _weight_of_messages(entries: list[dict[str, Any]]) -> Weight:
    """Bytes of bodies and attributes, which JSON seldom makes twice as long."""
    sizes = [size_of(members["MessageBody"], members.get("MessageAttributes", {})) for members in entries]
    return Weight(len(entries), sum(sizes))
