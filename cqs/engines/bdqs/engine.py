"""The engine's operations. `open_engine` creates it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cns_common.clock import Clock
from cns_common.cluster.stopwatch import start_stopwatch
from cns_common.metrics.catalogue import QUEUE_DUPLICATE_DELIVERIES
from cns_common.metrics.model import Sample
from cqs.engines.bdqs.consistency import QueueConsistency, check_consistency
from cqs.engines.bdqs.deliveries import BdqsDeliveries
from cqs.engines.bdqs.due_times import DueTimes
from cqs.engines.bdqs.ids import MessageKey, generations_of
from cqs.engines.bdqs.known_queues import CONSISTENCY, ORDER_HINT, KnownQueues
from cqs.engines.bdqs.maintenance import BdqsMaintenance
from cqs.engines.bdqs.order_hint import AUTO, check_order_hint
from cqs.engines.bdqs.reading import QueueReader
from cqs.engines.bdqs.sender import BdqsSender
from cqs.engines.bdqs.settler import BdqsSettler
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cassandra.standard_engine import MAX_DELAY_MS, QueueRecords, StandardQueueEngine
from cqs.engines.contract import (
    Capabilities,
    Change,
    Counts,
    Entry,
    Message,
    Outcome,
    PeekPage,
    QueueRef,
    ReceiveResult,
    RejectedEntry,
    SentEntry,
)
from cqs.engines.options import EngineOption
from cqs.engines.waiters import WaiterRegistry

EXPIRED_AT_ONCE = 1_000
"""Expired messages that a receive removes after a pick that found only expired ones."""
ROUNDS_MAX = 20
"""The most picks of one receive: messages of a pick may be taken, deleted, purged or expired by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    records: QueueRecords
    known_queues: KnownQueues
    sender: BdqsSender
    deliveries: BdqsDeliveries
    settler: BdqsSettler
    reading: QueueReader
    maintenance: BdqsMaintenance


class BdqsEngine(StandardQueueEngine):
    """`open_engine` creates it."""

    capabilities = Capabilities(
        fifo=False,
        update_body=True,
        atomic_settle=False,
        max_delay_ms=MAX_DELAY_MS,
        exact_counts=False,
        fair=False,
        order="nearly",
    )
    options: Mapping[str, EngineOption] = {
        one.name: one
        for one in (
            EngineOption(ORDER_HINT, AUTO, check_order_hint, True),
            EngineOption(CONSISTENCY, QueueConsistency.QUORUM.value, check_consistency, False),
        )
    }

    def __init__(self, parts: EngineParts, waiters: WaiterRegistry, clock: Clock, skew: ClockSkew) -> None:
        super().__init__(parts.records, parts.known_queues, waiters, clock)
        self._known_queues = parts.known_queues
        self._sender = parts.sender
        self._deliveries = parts.deliveries
        self._settler = parts.settler
        self._reading = parts.reading
        self._maintenance = parts.maintenance
        self._due_times = DueTimes(waiters)
        self._skew = skew

    # -- messages -----------------------------------------------------------------------------------------------------

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        if not entries:
            return []
        began = start_stopwatch(self._clock)
        await self._skew.ensure()
        queue = await self._known_queues.get(q)
        sent = await self._known_queues.send(
            queue, lambda generation: self._sender.send(queue, generation, entries, now_ms, began)
        )
        if sent is None:
            return [RejectedEntry() for _ in entries]
        self._wake(q.id, [entry.visible_at_ms for entry in entries], now_ms)
        return [SentEntry(entry.id, key.seq) for entry, key in zip(entries, sent, strict=True)]

    async def receive(
        self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = ""
    ) -> ReceiveResult:
        """`attempt_id` is ignored: it is for FIFO queues only."""
        began = start_stopwatch(self._clock)
        await self._skew.ensure()
        self._skew.refuse_if_wrong()
        queue = await self._known_queues.get(q)
        messages: list[Message] = []
        spent: list[Message] = []
        seen: set[MessageKey] = set()
        for _ in range(ROUNDS_MAX):
            if queue.generation == DROPPED:
                return ReceiveResult(dropped=True)
            picker, left = queue.picker, want - len(messages) - len(spent)
            request = await picker.pick(left, now_ms, queue.k, queue.mode.level, seen, wants_due=q.id in self._waiters)
            if not request.picked:
                if not messages and not spent:
                    self._due_times.set(q.id, request.next_due_ms)
                    return ReceiveResult(next_due_ms=request.next_due_ms)
                break
            try:
                taken = await self._deliveries.take(queue, request.picked, visible_at_ms, now_ms, began)
            finally:
                picker.release(request.picked)
            seen |= {candidate.entry.message for candidate in request.picked}
            messages += taken.messages
            spent += taken.spent
            queue.automatic_k.observe(taken.lost_races)
            if request.next_due_ms is not None:
                self._due_times.expect(q.id, request.next_due_ms, now_ms)
            if not taken.again:
                break
            if not taken.messages and not taken.spent and taken.expired:  # there may be many more
                await self._maintenance.expire(queue, EXPIRED_AT_ONCE, now_ms)
        if messages or spent:
            self._due_times.expect(q.id, visible_at_ms, now_ms)
        if len(messages) + len(spent) == want:
            self._waiters.wake(q.id, 1)
        return ReceiveResult(tuple(messages), tuple(spent))

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        queue = await self._known_queues.get_for(q, generations_of(handles))
        return await self._settler.delete(queue, handles)

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        began = start_stopwatch(self._clock)
        await self._skew.ensure()
        queue = await self._known_queues.get_for(q, generations_of([change.handle for change in changes]))
        done = await asyncio.gather(*[self._settler.change(queue, change, now_ms, began) for change in changes])
        moved = [
            change.visible_at_ms
            for change, (_, is_moved) in zip(changes, done, strict=True)
            if is_moved and change.visible_at_ms is not None
        ]
        self._wake(q.id, moved, now_ms)
        return [outcome for outcome, _ in done]

    def _wake(self, queue_id: str, due_ms: Sequence[int], now_ms: int) -> None:
        """Wake the queue's waiters at these times."""
        if queue_id not in self._waiters:
            return
        hidden = [one for one in due_ms if one > now_ms]
        self._waiters.wake(queue_id, len(due_ms) - len(hidden))
        if hidden:
            self._due_times.expect(queue_id, min(hidden), now_ms)

    # -- the whole queue ----------------------------------------------------------------------------------------------

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        queue = await self._known_queues.get(q)
        return PeekPage() if queue.generation == DROPPED else await self._reading.peek(queue, cursor, n)

    async def counts(self, q: QueueRef, now_ms: int, *, oldest: bool = False) -> Counts:
        """Positions are counted: a message that two processes took at one moment may count twice for a while."""
        queue = await self._known_queues.get(q)
        return Counts() if queue.generation == DROPPED else await self._reading.counts(queue, now_ms, oldest=oldest)

    # -- upkeep -------------------------------------------------------------------------------------------------------

    async def clear_garbage(self, budget: int) -> int:
        return await self._maintenance.clear_garbage(budget)

    async def maintain_queues(self, budget: int, now_ms: int) -> int:
        return await self._maintenance.maintain_queues(budget, now_ms)

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def _poll(self, queue_id: str) -> None:
        queue = self._known_queues.find(queue_id)
        if queue is None or queue.generation == DROPPED:
            return
        queue = await self._known_queues.get(queue.q)
        now_ms = self._clock.now_ms()
        if queue.generation == DROPPED:
            self._waiters.wake_all(queue_id)
            return
        strangers, next_due_ms = await self._reading.look(queue, now_ms)
        self._waiters.wake(queue_id, strangers)
        if next_due_ms is not None:
            self._due_times.expect(queue_id, next_due_ms, now_ms)

    def samples(self) -> list[Sample]:
        return [QUEUE_DUPLICATE_DELIVERIES.sample(self._deliveries.duplicates), *super().samples()]
