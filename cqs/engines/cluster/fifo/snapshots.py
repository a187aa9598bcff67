"""Snapshots of a queue's state, so that no process reads a log from its beginning; and removal of what they make
obsolete."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from cns_common.cassandra.session import Cassandra
from cns_common.errors import StoreUnavailable
from cns_common.ids import hex_id
from cqs.engines.cluster.fifo import schema
from cqs.engines.cluster.fifo.encoding import in_turns
from cqs.engines.cluster.fifo.log_time import LogTime
from cqs.engines.cluster.fifo.state import FifoState

READ_TRIES_MAX = 10


class SnapshotMark(NamedTuple):
    """A snapshot of the state before `slot`. No chunks stand for the empty state before slot 0."""

    slot: int
    snapshot: str
    chunks: int
    made_ms: int


class Snapshots:
    def __init__(self, cassandra: Cassandra, time: LogTime) -> None:
        self._cassandra = cassandra
        self._time = time

    async def newest_slot(self, queue_id: str) -> int:
        """The slot of the newest snapshot; 0 if there is none."""
        rows = await self._cassandra.run(schema.NEWEST_MARK, queue_id)
        return int(rows[0][0]) if rows else 0

    async def read(self, queue_id: str) -> tuple[FifoState, int, int]:
        """(state of the newest snapshot, slot to go on at, size of the snapshot)"""
        for _ in range(READ_TRIES_MAX):
            rows = await self._cassandra.run(schema.NEWEST_MARK, queue_id)
            if not rows:
                return FifoState(), 0, 0
            mark = SnapshotMark(*rows[0])
            if mark.slot == schema.DROPPED_SLOT:
                return FifoState.dropped_state(), mark.slot, 0
            keys = [(mark.snapshot, chunk) for chunk in range(mark.chunks)]
            chunks = await self._cassandra.run_each(schema.CHUNK, keys) if keys else []
            if all(chunks):
                snapshot = b"".join([chunk[0][0] for chunk in chunks])
                state = await in_turns(FifoState.from_snapshot_steps(snapshot)) if snapshot else FifoState()
                return state, mark.slot, len(snapshot)
            # a newer snapshot has made it obsolete meanwhile: read that one
        raise StoreUnavailable(f"the newest snapshot of {queue_id} is incomplete")

    async def write(self, queue_id: str, slot: int, snapshot: bytes) -> None:
        """Write the chunks before the mark."""
        name = hex_id()
        chunks = [snapshot[at : at + schema.CHUNK_BYTES] for at in range(0, len(snapshot), schema.CHUNK_BYTES)]
        for number, chunk in enumerate(chunks):
            await self._cassandra.run(schema.ADD_CHUNK, name, number, chunk)
        await self._mark(queue_id, SnapshotMark(slot, name, len(chunks), self._time.wall_ms()))

    async def drop(self, queue_id: str, last_slot: int) -> None:
        """Mark the queue as dropped, with the number of its segments for `clear`."""
        segments = last_slot // schema.SEGMENT_SLOTS + 1
        await self._mark(queue_id, SnapshotMark(schema.DROPPED_SLOT, "", segments, self._time.wall_ms()))

    async def _mark(self, queue_id: str, mark: SnapshotMark) -> None:
        """Add a mark; before the first one, a mark at the beginning of the log, where `clear` starts."""
        if not await self._cassandra.run(schema.NEWEST_MARK, queue_id):
            await self._cassandra.run(schema.ADD_MARK, queue_id, 0, "", 0, mark.made_ms)
        await self._cassandra.run(schema.ADD_MARK, queue_id, *mark)

    async def clear(self, queue_id: str, budget: int) -> int:
        """Remove marks whose successor is old enough that no process reads them any more, oldest first.

        Returns how many segments and marks were removed.
        """
        done = 0
        while done < budget:
            marks = [SnapshotMark(*row) for row in await self._cassandra.run(schema.OLDEST_MARKS, queue_id)]
            obsolete = [pair for pair in pairwise(marks) if self._is_old(pair[1])]
            for mark, after in obsolete:
                if done >= budget:
                    break
                done += await self._remove(queue_id, mark, after)
            if not obsolete:
                break
        return done

    def _is_old(self, mark: SnapshotMark) -> bool:
        is_dropped = mark.slot == schema.DROPPED_SLOT
        return is_dropped or self._time.wall_ms() - mark.made_ms >= schema.OBSOLETE_KEEP_MS

    async def _remove(self, queue_id: str, mark: SnapshotMark, after: SnapshotMark) -> int:
        """Remove the mark last: until then another process can repeat this."""
        first = mark.slot // schema.SEGMENT_SLOTS
        end = after.chunks if after.slot == schema.DROPPED_SLOT else after.slot // schema.SEGMENT_SLOTS
        for segment in range(first, end):
            await self._cassandra.run_conditional(schema.SEAL, queue_id, segment)
            await self._cassandra.run(schema.MARK_SEALED, queue_id, segment)
            await self._cassandra.run(schema.CLEAR_SEGMENT, queue_id, segment)
        for chunk in range(mark.chunks):
            await self._cassandra.run(schema.REMOVE_CHUNK, mark.snapshot, chunk)
        await self._cassandra.run(schema.REMOVE_MARK, queue_id, mark.slot, mark.snapshot)
        return 1 + max(end - first, 0)
