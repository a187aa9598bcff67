"""States written down, so that nobody has to read a log from its beginning; and the end of what they made needless."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cns_common.ids import hex_id
from cqs.engines.cluster.fifo import schema
from cqs.engines.cluster.fifo.state import State

LOOKS_MAX = 10


class Mark(NamedTuple):
    """The state before `slot`, in so many chunks; none stands for the empty state of slot 0."""

    slot: int
    image: str
    chunks: int
    made_ms: int


class Images:
    def __init__(self, cassandra: Cassandra, clock: Clock) -> None:
        self._cassandra = cassandra
        self._clock = clock

    async def newest_slot(self, queue: str) -> int:
        """Which slot the newest image is of; 0 when there is none."""
        rows = await self._cassandra.run(schema.NEWEST_MARK, queue)
        return int(rows[0][0]) if rows else 0

    async def read(self, queue: str) -> tuple[State, int, int]:
        """The newest state that was written down, the slot to go on at, and the size of what was read."""
        for _ in range(LOOKS_MAX):
            rows = await self._cassandra.run(schema.NEWEST_MARK, queue)
            if not rows:
                return State(), 0, 0
            mark = Mark(*rows[0])
            if mark.slot == schema.DROPPED_SLOT:
                return State.dropped_one(), mark.slot, 0
            keys = [(mark.image, chunk) for chunk in range(mark.chunks)]
            chunks = await self._cassandra.run_each(schema.CHUNK, keys) if keys else []
            if all(chunks):
                image = b"".join([chunk[0][0] for chunk in chunks])
                return (State.of(image) if image else State()), mark.slot, len(image)
            # a newer one has made it needless meanwhile: it is found by the next look
        raise StoreUnavailable(f"the newest image of {queue} is not whole")

    async def write(self, queue: str, slot: int, image: bytes) -> None:
        """Chunks first."""
        name = hex_id()
        chunks = [image[at : at + schema.CHUNK_BYTES] for at in range(0, len(image), schema.CHUNK_BYTES)]
        for number, chunk in enumerate(chunks):
            await self._cassandra.run(schema.ADD_CHUNK, name, number, chunk)
        await self._mark(queue, Mark(slot, name, len(chunks), self._clock.wall_ms()))

    async def drop(self, queue: str, last_slot: int) -> None:
        """There is nothing to read for ever. What there was is for `clear`, which is told how many segments."""
        segments = last_slot // schema.SEGMENT_SLOTS + 1
        await self._mark(queue, Mark(schema.DROPPED_SLOT, "", segments, self._clock.wall_ms()))

    async def _mark(self, queue: str, mark: Mark) -> None:
        """The first of a queue marks the log's beginning, too: from there on there is to clear."""
        if not await self._cassandra.run(schema.NEWEST_MARK, queue):
            await self._cassandra.run(schema.ADD_MARK, queue, 0, "", 0, mark.made_ms)
        await self._cassandra.run(schema.ADD_MARK, queue, *mark)

    async def clear(self, queue: str, budget: int) -> int:
        """Remove marks, oldest first, whose next has been there long enough for all who still read the one before.

        Returns how many segments and marks went.
        """
        done = 0
        while done < budget:
            marks = [Mark(*row) for row in await self._cassandra.run(schema.OLDEST_MARKS, queue)]
            needless = [pair for pair in pairwise(marks) if self._is_old(pair[1])]
            for mark, after in needless:
                if done >= budget:
                    break
                done += await self._remove(queue, mark, after)
            if not needless:
                break
        return done

    def _is_old(self, mark: Mark) -> bool:
        is_dropped = mark.slot == schema.DROPPED_SLOT
        return is_dropped or self._clock.wall_ms() - mark.made_ms >= schema.NEEDLESS_MS

    async def _remove(self, queue: str, mark: Mark, after: Mark) -> int:
        """The mark last: while it is there, somebody goes on."""
        first = mark.slot // schema.SEGMENT_SLOTS
        end = after.chunks if after.slot == schema.DROPPED_SLOT else after.slot // schema.SEGMENT_SLOTS
        for segment in range(first, end):
            await self._cassandra.applied(schema.SEAL, queue, segment)
            await self._cassandra.run(schema.MARK_SEALED, queue, segment)
            await self._cassandra.run(schema.CLEAR_SEGMENT, queue, segment)
        for chunk in range(mark.chunks):
            await self._cassandra.run(schema.REMOVE_CHUNK, mark.image, chunk)
        await self._cassandra.run(schema.REMOVE_MARK, queue, mark.slot, mark.image)
        return 1 + max(end - first, 0)
