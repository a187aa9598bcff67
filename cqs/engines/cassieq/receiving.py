"""Receives: those of a queue that wait at the same time share one look and one conditional write per bucket."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cqs.engines.cassandra.standard_engine import QueueRecords
from cqs.engines.cassieq.bucket import NEVER_MS, CassieqMessageRow
from cqs.engines.cassieq.bucket_writes import BucketWrites, RowWrite, WriteResult, acknowledge, consume
from cqs.engines.cassieq.hidden import CassieqHiddenMessages
from cqs.engines.cassieq.ids import PopReceipt, bucket_of, sequence_of
from cqs.engines.cassieq.invisibility import LAG_MAX, Invisibility
from cqs.engines.cassieq.known_queues import CassieqKnownQueue, CassieqKnownQueues
from cqs.engines.cassieq.options import strict_fifo
from cqs.engines.cassieq.reader import Reader, VisibleMessages
from cqs.engines.cassieq.rows import CassieqRows
from cqs.engines.contract import SPENT_HIDE_MS, Message, QueueRef, ReceiveResult
from cqs.engines.waiters import WaiterRegistry

MESSAGES_MAX = 200
"""The most messages that are taken together."""
ROUNDS_MAX = 200
"""The most looks of one receive. Each takes messages, removes expired ones, or loses all its races."""


class CassieqLeaseRequest(NamedTuple):
    """A message to lease for a waiting receive."""

    row: CassieqMessageRow
    spent: bool
    visible_at_ms: int
    deliveries: int
    first_at_ms: int


@dataclass(slots=True, eq=False)
class WaitingReceive:
    q: QueueRef
    want: int
    visible_at_ms: int
    now_ms: int
    result: asyncio.Future[ReceiveResult]
    taken: list[CassieqLeaseRequest] = field(default_factory=list)

    @property
    def lacks(self) -> int:
        return self.want - len(self.taken)

    def lease_request(self, row: CassieqMessageRow) -> CassieqLeaseRequest:
        spent = bool(self.q.max_receives) and row.deliveries >= self.q.max_receives
        return CassieqLeaseRequest(
            row,
            spent,
            self.now_ms + SPENT_HIDE_MS if spent else self.visible_at_ms,
            row.deliveries if spent else row.deliveries + 1,
            row.first_at_ms if spent else row.first_at_ms or self.now_ms,
        )


class CassieqReceiver:
    def __init__(
        self,
        rows: CassieqRows,
        writes: BucketWrites,
        hidden: CassieqHiddenMessages,
        reader: Reader,
        invisibility: Invisibility,
        known_queues: CassieqKnownQueues,
        records: QueueRecords,
        waiters: WaiterRegistry,
    ) -> None:
        self._rows = rows
        self._writes = writes
        self._hidden = hidden
        self._reader = reader
        self._invisibility = invisibility
        self._known_queues = known_queues
        self._expired, self._retentions = records.expired, records.retentions
        self._waiters = waiters
        self._waiting: dict[str, list[WaitingReceive]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost_races = 0

    async def receive(self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int) -> ReceiveResult:
        loop = asyncio.get_running_loop()
        request = WaitingReceive(q, want, visible_at_ms, now_ms, loop.create_future())
        if q.id in self._waiting:
            self._waiting[q.id].append(request)
        else:
            self._waiting[q.id] = [request]
            task = loop.create_task(self._run(q.id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await request.result

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, queue_id: str) -> None:
        while waiting := [request for request in self._waiting[queue_id] if not request.result.done()]:
            batch: list[WaitingReceive] = []
            while waiting and (not batch or _may_join(batch, waiting[0])):
                batch.append(waiting.pop(0))
            self._waiting[queue_id] = waiting
            try:
                await self._serve(batch)
            except Exception as error:  # noqa: BLE001  # the callers raise it
                for request in batch:
                    if not request.result.done():
                        request.result.set_exception(error)
        del self._waiting[queue_id]

    async def _serve(self, batch: list[WaitingReceive]) -> None:
        known = await self._known_queues.get(batch[0].q)
        now_ms = min(request.now_ms for request in batch)
        given: set[int] = set()
        view, left = VisibleMessages(), 0
        for _ in range(ROUNDS_MAX):
            if known.dropped:
                _end(batch, ReceiveResult(dropped=True))
                return
            view, current = await asyncio.gather(
                self._reader.look(known, now_ms), self._known_queues.refresh(batch[0].q)
            )
            if current is not known:
                known = current
                given.clear()
                for request in batch:
                    request.taken.clear()  # purged meanwhile
                continue
            candidates = self._sorted(known, view, given)
            left = await self._take(known, view, candidates, batch, given, now_ms)
            if not candidates or not any(request.lacks for request in batch):
                break
        if known.reader - known.invisible > LAG_MAX:
            await self._invisibility.advance(known, now_ms)
        await self._answer(known, batch, view, left)

    def _sorted(self, known: CassieqKnownQueue, view: VisibleMessages, given: set[int]) -> list[CassieqMessageRow]:
        rows = [
            row
            for row in view.visible.values()
            if row.monoton not in given and row.visible_at_ms <= view.fresh_until_ms
        ]
        rows.sort(key=lambda row: (row.visible_at_ms, row.monoton))
        if not strict_fifo(known.q):
            random.shuffle(rows)
        return rows

    async def _take(
        self,
        known: CassieqKnownQueue,
        view: VisibleMessages,
        candidates: list[CassieqMessageRow],
        batch: Sequence[WaitingReceive],
        given: set[int],
        now_ms: int,
    ) -> int:
        """Lease messages for the requests, oldest first. Returns how many visible ones are left."""
        old = await self._too_old(known, candidates, now_ms)
        too_old = {row.monoton for row in old}
        young = [row for row in candidates if row.monoton not in too_old]
        pairs: list[tuple[WaitingReceive, CassieqLeaseRequest]] = []
        for request in batch:
            pairs += [(request, request.lease_request(row)) for row in young[len(pairs) : len(pairs) + request.lacks]]
        if old:
            await self._expire(known, view, old, now_ms)
        results = await self._lease(known, view, [lease for _, lease in pairs])
        for (request, lease), result in zip(pairs, results, strict=True):
            bucket = bucket_of(lease.row.monoton, known.size)
            if result.applied:
                request.taken.append(lease)
                given.add(lease.row.monoton)
                known.delivered(bucket, lease.visible_at_ms)
                view.due(lease.visible_at_ms)
            else:
                self.lost_races += 1
                known.delivered(bucket, 0)
        return len(young) - len(pairs)

    async def _lease(
        self, known: CassieqKnownQueue, view: VisibleMessages, leases: Sequence[CassieqLeaseRequest]
    ) -> list[WriteResult]:
        """A message found by an entry of the hidden ones gets a new entry before it is leased, so that it is found
        again after a crash in between."""
        again = [one for one in leases if one.row.monoton in view.entries]
        await asyncio.gather(*[self._hidden.add(known.key, one.row.monoton, one.visible_at_ms) for one in again])
        results = await self._write(known, [_consume(one) for one in leases])
        await asyncio.gather(
            *[
                self._hidden.remove(known.key, entry)
                for one, result in zip(leases, results, strict=True)
                if result.applied
                for entry in view.entries.get(one.row.monoton, ())
            ]
        )
        return results

    async def _too_old(
        self, known: CassieqKnownQueue, rows: Iterable[CassieqMessageRow], now_ms: int
    ) -> list[CassieqMessageRow]:
        """Return the messages older than the retention period, which is read from Cassandra if any seems to be."""
        old = [row for row in rows if row.expired(known.q.retention_ms, now_ms)]
        if not old:
            return old
        await self._retentions.oldest_ms(known, now_ms)
        return [row for row in old if row.expired(known.q.retention_ms, now_ms)]

    async def _expire(
        self, known: CassieqKnownQueue, view: VisibleMessages, rows: Sequence[CassieqMessageRow], now_ms: int
    ) -> None:
        unrecorded = known.to_record(rows)
        await self._expired.record(known.q, [(row.id, row.tenant) for row in unrecorded], now_ms)
        await self._write(known, [acknowledge(row.monoton, row.version, row.tag) for row in rows])
        await asyncio.gather(
            *[self._hidden.remove(known.key, entry) for row in rows for entry in view.entries.get(row.monoton, ())]
        )

    async def expire_some(self, q: QueueRef, n: int, now_ms: int) -> int:
        """Remove up to `n` messages that are too old, without a receive. Returns how many."""
        known = await self._known_queues.get(q)
        done = 0
        while done < n and not known.dropped:
            view = await self._reader.look(known, now_ms)
            old = (await self._too_old(known, view.visible.values(), now_ms))[: n - done]
            if not old:
                break
            await self._expire(known, view, old, now_ms)
            done += len(old)
        return done

    async def _write(self, known: CassieqKnownQueue, writes: Sequence[RowWrite]) -> list[WriteResult]:
        """All buckets in parallel. Results are in the order of the writes."""
        by_bucket: dict[int, list[int]] = {}
        for at, write in enumerate(writes):
            by_bucket.setdefault(bucket_of(write.monoton, known.size), []).append(at)
        answers = await asyncio.gather(
            *[
                self._writes.apply(known.key, bucket, [writes[at] for at in places])
                for bucket, places in by_bucket.items()
            ]
        )
        results = dict(
            pair
            for places, some in zip(by_bucket.values(), answers, strict=True)
            for pair in zip(places, some, strict=True)
        )
        return [results[at] for at in range(len(writes))]

    async def _answer(
        self, known: CassieqKnownQueue, batch: Sequence[WaitingReceive], view: VisibleMessages, left: int
    ) -> None:
        monotons: dict[int, list[int]] = {}
        for request in batch:
            for one in request.taken:
                monotons.setdefault(bucket_of(one.row.monoton, known.size), []).append(one.row.monoton)
        bodies = await self._rows.bodies(known.key, monotons) if monotons else {}
        next_due_ms = None if view.next_due_ms == NEVER_MS else view.next_due_ms
        for request in batch:
            built = [
                (one.spent, _message(known, one, bodies[one.row.monoton]))
                for one in request.taken
                if one.row.monoton in bodies  # else it was purged and removed just now
            ]
            messages = tuple([message for spent, message in built if not spent])
            spent_ones = tuple([message for spent, message in built if spent])
            if not request.result.done():
                request.result.set_result(ReceiveResult(messages, spent_ones, next_due_ms))
        self._wake_others(known, next_due_ms, left, more=view.fresh_until_ms != NEVER_MS)

    def _wake_others(self, known: CassieqKnownQueue, next_due_ms: int | None, left: int, *, more: bool) -> None:
        queue_id = known.q.id
        if queue_id not in self._waiters:
            return
        if left or more:
            self._waiters.wake(queue_id, max(left, 1))
        if next_due_ms is not None and queue_id in self._waiters:
            self._waiters.wake_soonest(queue_id, next_due_ms)


def _may_join(batch: Sequence[WaitingReceive], request: WaitingReceive) -> bool:
    return request.q == batch[0].q and sum(one.want for one in batch) + request.want <= MESSAGES_MAX


def _consume(lease: CassieqLeaseRequest) -> RowWrite:
    return consume(lease.row, lease.visible_at_ms, lease.deliveries, lease.first_at_ms)


def _end(batch: Sequence[WaitingReceive], result: ReceiveResult) -> None:
    for request in batch:
        if not request.result.done():
            request.result.set_result(result)


def _message(known: CassieqKnownQueue, lease: CassieqLeaseRequest, body: bytes) -> Message:
    row = lease.row
    return Message(
        row.id,
        PopReceipt(known.generation, row.monoton, row.version + 1, row.tag).handle,
        body,
        sequence_of(known.generation, row.monoton),
        lease.deliveries,
        lease.first_at_ms,
        row.born_at_ms,
        row.tenant,
    )
