"""Reads and writes the index: rows (T, id) in slots of time, and the list of slots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any

from cns_common.bounded_cache import BoundedCache
from cns_common.cassandra.session import Cassandra, Consistency, Row, Statement
from cns_common.clock import Clock
from cns_common.cluster.stopwatch import Stopwatch
from cqs.engines.bdqs import schema
from cqs.engines.bdqs.consistency import QueueConsistency
from cqs.engines.bdqs.ids import IndexRow, Position, generation_prefix, lowest_position, slot_name, stamp_us, window_of
from cqs.engines.bdqs.messages import gather_few
from cqs.engines.bdqs.quorum_fallback import QuorumFallback
from cqs.engines.bdqs.write_time import check_write

BATCH_ROWS = 100
LISTED_MAX = 100_000
COUNTED_MAX = 100_000
COUNTS_AT_ONCE = 16

_Write = Callable[[IndexRow], tuple[Statement, tuple[object, ...]]]


class QueueIndex:
    def __init__(self, cassandra: Cassandra, shared: QuorumFallback, clock: Clock) -> None:
        self._cassandra = cassandra
        self._shared = shared
        self._clock = clock
        self._listed: BoundedCache[tuple[str, str], bool] = BoundedCache(LISTED_MAX)
        """Slots that this process added to the list of slots. A slot is not retired while a process may write to it."""
        self._written: BoundedCache[tuple[str, int, int], int] = BoundedCache(COUNTED_MAX)

    def choose_slot(self, queue_id: str, generation: int, due_ms: int, now_ms: int) -> str:
        """The slot for a position that is about to be written: one that is not retired, even for a time long past."""
        window_ms = window_of(max(due_ms, now_ms - schema.LATE_MS_MAX))
        written = self._written.get((queue_id, generation, window_ms)) or 0
        self._written.put((queue_id, generation, window_ms), written + 1)
        return slot_name(generation, window_ms, written // schema.PART_ROWS_MAX)

    async def add(self, queue_id: str, entries: Sequence[IndexRow], mode: QueueConsistency, began: Stopwatch) -> None:
        """Write positions of an operation that began at `began`. They are valid only if this returns."""
        sent, delivered = [schema.at(one, mode.level) for one in (schema.ADD_SENT, schema.ADD_DELIVERED)]
        writes: list[Coroutine[Any, Any, None]] = [
            self._list(queue_id, slot, mode.level)
            for slot in {one.slot for one in entries}
            if not self._listed.get((queue_id, slot))
        ]
        writes += self._batches(
            queue_id, entries, lambda one: (delivered if one.delivered else sent, _added(queue_id, one))
        )
        await gather_few(writes)
        check_write(began, self._clock)

    async def remove(self, queue_id: str, entries: Sequence[IndexRow], mode: QueueConsistency) -> None:
        """Remove positions for good: each was written once, and is never written again."""
        remove = schema.at(schema.REMOVE_POSITION, mode.level)
        await gather_few(
            self._batches(
                queue_id,
                entries,
                lambda one: (remove, (stamp_us(one.position.stamp) + 1, queue_id, one.slot, *one.position)),
            )
        )

    def _batches(self, queue_id: str, entries: Sequence[IndexRow], write: _Write) -> list[Coroutine[Any, Any, None]]:
        """One write per slot and `BATCH_ROWS` rows."""
        by_slot: dict[str, list[tuple[Statement, tuple[object, ...]]]] = {}
        for entry in entries:
            by_slot.setdefault(entry.slot, []).append(write(entry))
        return [
            self._run(writes[at : at + BATCH_ROWS])
            for writes in by_slot.values()
            for at in range(0, len(writes), BATCH_ROWS)
        ]

    async def _run(self, writes: Sequence[tuple[Statement, tuple[object, ...]]]) -> None:
        if len(writes) == 1:
            await self._cassandra.run(writes[0][0], *writes[0][1])
        else:
            await self._cassandra.run_batch(writes, logged=False)

    async def _list(self, queue_id: str, slot: str, level: Consistency) -> None:
        await self._shared.run(
            queue_id, level, lambda at: self._cassandra.run(schema.at(schema.LIST_SLOT, at), queue_id, slot)
        )
        self._listed.put((queue_id, slot), True)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def read(
        self, queue_id: str, slot: str, start: Position | None, limit: int, level: Consistency
    ) -> list[IndexRow]:
        """The first `limit` entries of a slot from `start` on, or from its start."""
        if start is None:
            rows = await self._cassandra.run(schema.at(schema.READ_SLOT, level), queue_id, slot, limit)
        else:
            rows = await self._cassandra.run(schema.at(schema.READ_SLOT_FROM, level), queue_id, slot, *start, limit)
        return [_entry(slot, row) for row in rows]

    async def read_visible(
        self, queue_id: str, slot: str, start: Position | None, now_ms: int, limit: int, level: Consistency
    ) -> list[IndexRow]:
        """Like `read`, without positions of hidden messages."""
        if start is None:
            visible = schema.at(schema.READ_VISIBLE, level)
            rows = await self._cassandra.run(visible, queue_id, slot, now_ms, limit)
        else:
            visible = schema.at(schema.READ_VISIBLE_FROM, level)
            rows = await self._cassandra.run(visible, queue_id, slot, *start, now_ms, limit)
        return [_entry(slot, row) for row in rows]

    async def read_after(self, queue_id: str, slot: str, after: Position, limit: int) -> list[IndexRow]:
        rows = await self._cassandra.run(schema.READ_SLOT_AFTER, queue_id, slot, *after, limit)
        return [_entry(slot, row) for row in rows]

    async def slots(self, queue_id: str, first: str, end: str, level: Consistency = Consistency.QUORUM) -> list[str]:
        """A sorted page of the listed slots from `first` to before `end`, for a queue whose messages have this
        level."""
        rows = await self._shared.run(
            queue_id, level, lambda at: self._cassandra.run(schema.at(schema.SLOTS, at), queue_id, first, end)
        )
        return [row[0] for row in rows]

    async def all_slots(self, queue_id: str, generation: int, first: str = "") -> AsyncIterator[str]:
        """All listed slots of a generation, sorted, or those from `first` on."""
        first, end = first or generation_prefix(generation), generation_prefix(generation + 1)
        while page := await self.slots(queue_id, first, end):
            for slot in page:
                yield slot
            if len(page) < schema.PAGE_ROWS:
                return
            first = f"{page[-1]}0"

    async def count_visible(self, queue_id: str, begins: Sequence[IndexRow], now_ms: int) -> int:
        """Count the visible positions of slots, in each slot from the given entry on."""
        total = 0
        for at in range(0, len(begins), COUNTS_AT_ONCE):
            values = [(queue_id, one.slot, *one.position, now_ms) for one in begins[at : at + COUNTS_AT_ONCE]]
            for ((n,),) in await self._cassandra.run_each(schema.COUNT_VISIBLE, values):
                total += n
        return total

    async def count_hidden(self, queue_id: str, slots: Sequence[str], now_ms: int) -> tuple[int, int]:
        """(in flight, delayed) positions."""
        hidden = delivered = 0
        for at in range(0, len(slots), COUNTS_AT_ONCE):
            values = [(queue_id, slot, now_ms) for slot in slots[at : at + COUNTS_AT_ONCE]]
            for ((n, m),) in await self._cassandra.run_each(schema.COUNT_HIDDEN, values):
                hidden += n
                delivered += m
        return delivered, hidden - delivered

    async def hidden(self, queue_id: str, slots: Sequence[str], now_ms: int, n: int) -> dict[Position, bool] | None:
        """The hidden positions, and whether their messages were delivered; None if there are more than `n`."""
        found: dict[Position, bool] = {}
        for slot in slots:
            after = lowest_position(now_ms + 1)
            while page := await self.read_after(queue_id, slot, after, schema.PAGE_ROWS):
                found |= {entry.position: entry.delivered for entry in page}
                after = page[-1].position
                if len(found) > n:
                    return None
                if len(page) < schema.PAGE_ROWS:
                    break
        return found

    # -- retiring -----------------------------------------------------------------------------------------------------

    async def retire(self, queue_id: str, slot: str) -> None:
        """Remove a slot that is empty and that no process writes to any more."""
        await self._cassandra.run(schema.UNLIST_SLOT, queue_id, slot)
        self._listed.forget((queue_id, slot))

    async def empty(self, queue_id: str, slot: str) -> None:
        """Remove all positions of a slot of an earlier generation."""
        until_us = self._clock.wall_ms() * 1_000 + schema.DELETE_AHEAD_US
        await self._cassandra.run(schema.EMPTY_SLOT, until_us, queue_id, slot)


def unique(entries: Iterable[IndexRow]) -> list[IndexRow]:
    return list(dict.fromkeys(entries))


def _entry(slot: str, row: Row) -> IndexRow:
    due_ms, seq, bucket, stamp, delivered, born_at_ms = row
    return IndexRow(slot, Position(due_ms, seq, bucket, stamp), bool(delivered), born_at_ms)


def _added(queue_id: str, entry: IndexRow) -> tuple[object, ...]:
    return queue_id, entry.slot, *entry.position, entry.born_at_ms, stamp_us(entry.position.stamp)
