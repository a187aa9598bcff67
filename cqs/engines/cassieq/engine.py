"""The engine's calls, each passed on to the part that does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import CnsError
from cns_common.ids import hex_id
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cassandra.garbage import Garbage
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cassandra.standard_engine import MAX_DELAY_MS, QueueRecords, StandardQueueEngine
from cqs.engines.cassieq.bucket import NEVER_MS
from cqs.engines.cassieq.bucket_writes import BucketWrites
from cqs.engines.cassieq.hidden import CassieqHiddenMessages
from cqs.engines.cassieq.invisibility import Invisibility
from cqs.engines.cassieq.known_queues import CassieqKnownQueues
from cqs.engines.cassieq.maintenance import CassieqMaintenance, GarbageCollector
from cqs.engines.cassieq.monotons import Monotons
from cqs.engines.cassieq.options import OPTIONS
from cqs.engines.cassieq.pointers import QueuePointers
from cqs.engines.cassieq.raw_views import RawViews
from cqs.engines.cassieq.reader import Reader
from cqs.engines.cassieq.receiving import CassieqReceiver
from cqs.engines.cassieq.repair import Repairer, RepairLeases
from cqs.engines.cassieq.rows import CassieqRows
from cqs.engines.cassieq.scan import Scanner
from cqs.engines.cassieq.sending import CassieqSender
from cqs.engines.cassieq.settling import CassieqSettler
from cqs.engines.contract import (
    Capabilities,
    Change,
    Counts,
    Entry,
    Outcome,
    PeekPage,
    QueueRef,
    ReceiveResult,
    RejectedEntry,
    SentEntry,
)
from cqs.engines.options import EngineOption
from cqs.engines.waiters import WaiterRegistry

NAME = "cassieq"
NODE_DIGITS = 12
POLL_AGE_MS = 300
"""A poll wakes waiters only for messages that have been visible for this long: sends of this process wake them at
once."""


class CassieqEngine(StandardQueueEngine):
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
    options: Mapping[str, EngineOption] = OPTIONS

    def __init__(self, cassandra: Cassandra, clock: Clock, skew: ClockSkew) -> None:
        records, pointers = QueueRecords.of(cassandra, NAME), QueuePointers(cassandra)
        self._known_queues = known_queues = CassieqKnownQueues(records.generations, pointers, clock)
        super().__init__(records, known_queues, WaiterRegistry(clock), clock)
        self._skew = skew
        rows, hidden = CassieqRows(cassandra, clock), CassieqHiddenMessages(cassandra, clock)
        self._monotons = Monotons(cassandra)
        self._writes = BucketWrites(cassandra, rows)
        self._reader = Reader(rows, pointers, self._monotons, hidden, known_queues)
        self._invisibility = Invisibility(rows, pointers, hidden)
        self._sender = CassieqSender(rows, self._writes, self._monotons, known_queues, clock)
        self._receiver = CassieqReceiver(
            rows,
            self._writes,
            hidden,
            self._reader,
            self._invisibility,
            known_queues,
            records,
            self._waiters,
        )
        self._settler = CassieqSettler(rows, self._writes, hidden, known_queues, self._waiters)
        self._scanner = Scanner(rows, self._monotons, hidden, known_queues)
        self._leases = RepairLeases(cassandra, clock, hex_id()[:NODE_DIGITS])
        self._repairer = Repairer(rows, self._writes, self._monotons, pointers, self._leases, self._waiters)
        self._collector = GarbageCollector(cassandra, rows, pointers, self._monotons, hidden, records.garbage)
        self._maintenance = CassieqMaintenance(known_queues, self._receiver, self._invisibility, self._repairer)
        self.raw = RawViews(rows, pointers, self._monotons, hidden, known_queues)

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        if not entries:
            return []
        sent = await self._sender.send(q, entries)
        if q.id in self._waiters and isinstance(sent[0], SentEntry):
            self._wake(q.id, entries, now_ms)
        return sent

    def _wake(self, queue_id: str, entries: Sequence[Entry], now_ms: int) -> None:
        visible = sum(entry.visible_at_ms <= now_ms for entry in entries)
        self._waiters.wake(queue_id, visible)
        if visible < len(entries) and queue_id in self._waiters:
            due_ms = min(entry.visible_at_ms for entry in entries if entry.visible_at_ms > now_ms)
            self._waiters.wake_soonest(queue_id, due_ms)

    async def receive(
        self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = ""
    ) -> ReceiveResult:
        """`attempt_id` is ignored: it is for FIFO queues only."""
        self._skew.refuse_if_wrong()
        return await self._receiver.receive(q, want, visible_at_ms, now_ms)

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        return await self._settler.delete(q, handles)

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        return await self._settler.change(q, changes, now_ms)

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        return await self._scanner.peek(q, cursor, n, now_ms)

    async def counts(self, q: QueueRef, now_ms: int, *, oldest: bool = False) -> Counts:
        return await self._scanner.counts(q, now_ms, oldest=oldest)

    async def drop(self, q: QueueRef, now_ms: int) -> None:
        generation = await self._records.generations.generation(q.id)
        await self._records.generations.drop(q.id)
        await self._known_queues.observe_generation(q, DROPPED)
        self._waiters.wake_all(q.id)
        if generation is not None:  # the rows of each generation are found by its number
            await self._records.garbage.add(Garbage(q.id, generation + 1))
        await self._records.retentions.forget(q.id)

    async def clear_garbage(self, budget: int) -> int:
        return await self._collector.collect(budget)

    async def maintain_queues(self, budget: int, now_ms: int) -> int:
        return await self._maintenance.run(budget, now_ms)

    async def _poll(self, queue_id: str) -> None:
        known = self._known_queues.find(queue_id)
        if known is None:
            return
        known = await self._known_queues.refresh(known.q)
        if known.dropped:
            self._waiters.wake_all(queue_id)
            return
        now_ms = self._clock.now_ms()
        view = await self._reader.look(known, now_ms)
        waiting = [row for row in view.visible.values() if row.visible_at_ms <= now_ms - POLL_AGE_MS]
        self._waiters.wake(queue_id, len(waiting))
        if view.next_due_ms != NEVER_MS and queue_id in self._waiters:
            self._waiters.wake_soonest(queue_id, view.next_due_ms)

    async def close(self) -> None:
        await self._receiver.close()
        await self._monotons.close()
        await self._writes.close()
        with suppress(CnsError):  # the leases end by themselves
            await self._leases.release_all()
