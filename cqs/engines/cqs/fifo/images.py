"""States written down, so that nobody has to read a log from its beginning; and the end of what they made needless."""

from __future__ import annotations

from typing import NamedTuple

from common.cassandra import Cassandra
from common.clock import Clock
from common.ids import hex_id
from cqs.engines.cqs.fifo import schema
from cqs.engines.cqs.fifo.state import State


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

    async def read(self, queue: str) -> tuple[State, int, int]:
        """The newest state that was written down, the slot to go on at, and the size of what was read."""
        while True:
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

    async def write(self, queue: str, slot: int, image: bytes) -> None:
        """Chunks first. The first image of a queue marks the log's beginning, too: from there on there is to clear."""
        name = hex_id()
        chunks = [image[at : at + schema.CHUNK_BYTES] for at in range(0, len(image), schema.CHUNK_BYTES)]
        for number, chunk in enumerate(chunks):
            await self._cassandra.run(schema.ADD_CHUNK, name, number, chunk)
        now_ms = self._clock.wall_ms()
        if not await self._cassandra.run(schema.NEWEST_MARK, queue):
            await self._cassandra.run(schema.ADD_MARK, queue, 0, "", 0, now_ms)
        await self._cassandra.run(schema.ADD_MARK, queue, slot, name, len(chunks), now_ms)

    async def clear(self, queue: str) -> int:
        """Remove what the newest mark has made needless long enough ago; returns how many marks went."""
        marks = [Mark(*row) for row in await self._cassandra.run(schema.MARKS, queue)]
        if (
            len(marks) < 2
            or marks[0].slot == schema.DROPPED_SLOT
            or self._clock.wall_ms() - marks[0].made_ms < schema.NEEDLESS_MS
        ):
            return 0
        for mark in reversed(marks[1:]):
            await self._remove(queue, mark, up_to_slot=marks[0].slot)
        return len(marks) - 1

    async def clear_all(self, queue: str, slot: int) -> None:
        """Of a queue that is gone: nobody can append to its log any more, and what it held is removed."""
        marks = [Mark(*row) for row in await self._cassandra.run(schema.MARKS, queue)] or [Mark(0, "", 0, 0)]
        await self._cassandra.run(schema.ADD_MARK, queue, schema.DROPPED_SLOT, "", 0, self._clock.wall_ms())
        for mark in reversed(marks):
            if mark.slot != schema.DROPPED_SLOT:
                await self._remove(queue, mark, up_to_slot=slot + schema.SEGMENT_SLOTS)

    async def _remove(self, queue: str, mark: Mark, *, up_to_slot: int) -> None:
        """The mark last: while it is there, somebody goes on."""
        for segment in range(mark.slot // schema.SEGMENT_SLOTS, up_to_slot // schema.SEGMENT_SLOTS):
            await self._cassandra.applied(schema.SEAL, queue, segment)
            await self._cassandra.run(schema.CLEAR_SEGMENT, queue, segment)
        for chunk in range(mark.chunks):
            await self._cassandra.run(schema.REMOVE_CHUNK, mark.image, chunk)
        await self._cassandra.run(schema.REMOVE_MARK, queue, mark.slot, mark.image)
