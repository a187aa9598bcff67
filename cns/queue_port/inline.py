"""The inline driver of the queue port: the queue engine of this process (in a worker its remote driver).

Job queues belong to the reserved account `cns`, which no credential names, so no tenant can see or reach them. They are
fair queues: the group of a publish job is its account, of an endpoint job its topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache

from cns.delivery.jobs import ENDPOINT_JOBS, INTERNAL_QUEUES, groups_of_queue_jobs, own_queues_group
from cns.queue_port.contract import (
    CommitAnswer,
    CommitDelivery,
    EnqueuedJob,
    LeasedJob,
    NewJob,
    QueueDelivery,
    QueueMessage,
    QueuePort,
    Refusal,
    Renewal,
)
from cns.queue_port.sqs_delivery import QueueDeliverer
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cqs.engines.contract import Change, Engine, Entry, Message, Outcome, QueueRef, RejectedEntry, SentEntry, Settlement
from cqs.internal_queues import internal_ref
from cqs.messages.sequence_number import sequence_text

DeliverToQueue = Callable[[str, Sequence[QueueMessage], str], Awaitable[list[str | Refusal]]]
"""Sends messages for a topic to a customer's queue: queue ARN, messages, topic ARN."""

SUBSCRIPTIONS_REMEMBERED = 10_000
QUEUE_GONE = RejectedEntry("no_such_queue")
REFS = {name: internal_ref(name) for name in INTERNAL_QUEUES}


class InlineQueuePort(QueuePort):
    def __init__(self, engine: Engine, clock: Clock, deliver: DeliverToQueue) -> None:
        self._engine = engine
        self._clock = clock
        self._deliver = deliver
        self._waits = engine.long_polls()

    def stop_waiting(self) -> None:
        """From now on waiting receives return no jobs; a receive that the engine has begun still leases jobs."""
        self._waits.stop()

    async def close(self) -> None:
        """Nothing to close: the engine has another owner."""

    async def enqueue(self, new_jobs: Sequence[NewJob]) -> None:
        now_ms = self._clock.now_ms()
        if len({job.queue for job in new_jobs}) == 1:
            await self._engine.send(REFS[new_jobs[0].queue], [_entry(job, now_ms) for job in new_jobs], now_ms)
        elif new_jobs:
            await self._engine.settle(Settlement(sends=_sends(new_jobs, now_ms)), now_ms)

    async def enqueue_in_order(self, new_jobs: Sequence[NewJob]) -> list[EnqueuedJob]:
        now_ms = self._clock.now_ms()
        sent = await self._engine.send(REFS[new_jobs[0].queue], [_entry(job, now_ms) for job in new_jobs], now_ms)
        return [_enqueued_job(each) for each in sent]

    async def receive(self, queue: str, n: int, lease_ms: int, wait_s: float) -> list[LeasedJob]:
        q = REFS[queue]
        received = await self._waits.receive(q, n, lease_ms, wait_s)
        return [_leased_job(q, message) for message in received.messages]

    async def settle(
        self, queue: str, deletes: Sequence[str] = (), new_jobs: Sequence[NewJob] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        now_ms = self._clock.now_ms()
        q = REFS[queue]
        settled = await self._engine.settle(
            Settlement(
                deletes=tuple([(q, bytes.fromhex(handle)) for handle in deletes]),
                sends=_sends(new_jobs, now_ms),
                changes=tuple(
                    [
                        (
                            REFS[renewal.queue],
                            Change(bytes.fromhex(renewal.handle), now_ms + renewal.visible_in_ms, renewal.body),
                        )
                        for renewal in renewals
                    ]
                ),
            ),
            now_ms,
        )
        return [outcome is Outcome.DONE for outcome in settled.deletes]

    async def deliver(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
        return await self._deliver(queue_arn, messages, topic_arn)

    async def depth(self, queue: str) -> int:
        counts = await self._engine.counts(REFS[queue], self._clock.now_ms())
        return counts.visible + counts.in_flight + counts.delayed


class InlineCommitDelivery(CommitDelivery):
    """For an engine with `atomic_settle`, which has all queues."""

    def __init__(self, engine: Engine, clock: Clock, queues: QueueDeliverer) -> None:
        self._engine = engine
        self._clock = clock
        self._queues = queues

    async def write(
        self, new_jobs: Sequence[NewJob], deliveries: Sequence[QueueDelivery], topic_arn: str
    ) -> CommitAnswer:
        now_ms = self._clock.now_ms()
        found = [await self._queues.prepare(delivery, topic_arn, now_ms) for delivery in deliveries]
        prepared = [one for one in found if one is not None and one.view.engine is self._engine]
        if len(prepared) < len(found):
            taken = {one.entry.id for one in prepared}
            return CommitAnswer(False, [one.entry.id if one and one.entry.id in taken else None for one in found])
        idle = [(REFS[ENDPOINT_JOBS], own_queues_group(topic_arn))]
        owners: list[int | None] = [None]  # of the groups in `idle`, by position in `deliveries`
        for number, delivery in enumerate(deliveries):
            groups = _waiting_jobs(delivery.subscription)
            idle += groups
            owners += [number] * len(groups)
        sends = [*[(view.ref, entry) for view, entry in prepared], *_sends(new_jobs, now_ms)]
        settled = await self._engine.settle(Settlement(sends=tuple(sends), idle=tuple(idle)), now_ms)
        if not settled.busy and QUEUE_GONE not in settled.sends:
            await self._queues.record(prepared, settled.sends[: len(prepared)], now_ms)
            return CommitAnswer(True, [one.entry.id for one in prepared])
        refused = {owners[position] for position in settled.busy}
        refused |= {number for number, sent in enumerate(settled.sends) if sent == QUEUE_GONE}
        ids = [None if number in refused else one.entry.id for number, one in enumerate(prepared)]
        return CommitAnswer(False, ids, is_topic_busy=None in refused)


@lru_cache(SUBSCRIPTIONS_REMEMBERED)
def _waiting_jobs(subscription: str) -> tuple[tuple[QueueRef, str], ...]:
    """The groups of jobs that a delivery to the subscription would overtake."""
    return tuple([(REFS[queue], group) for queue, group in groups_of_queue_jobs(subscription)])


def _leased_job(q: QueueRef, message: Message) -> LeasedJob:
    if not q.fifo:
        return LeasedJob(message.id, message.handle.hex(), message.body, message.deliveries, sent_ms=message.born_at_ms)
    number = sequence_text(message.sequence)
    return LeasedJob(
        message.id,
        message.handle.hex(),
        message.body,
        message.deliveries,
        message.group,
        number,
        message.born_at_ms,
    )


def _enqueued_job(sent: SentEntry | RejectedEntry) -> EnqueuedJob:
    if isinstance(sent, RejectedEntry):
        raise StoreUnavailable(f"a queue of CNS's own refuses a job: {sent.reason}")
    return EnqueuedJob(sent.id, sequence_text(sent.sequence), sent.duplicate)


def _entry(job: NewJob, now_ms: int) -> Entry:
    return Entry(job.id, job.body, now_ms, now_ms + job.delay_ms, job.group, job.dedup)


def _sends(new_jobs: Sequence[NewJob], now_ms: int) -> tuple[tuple[QueueRef, Entry], ...]:
    return tuple([(REFS[job.queue], _entry(job, now_ms)) for job in new_jobs])
