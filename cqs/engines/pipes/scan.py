"""Counts and peeks: from the rows of all pipes, so they are exact in every process."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from cqs.engines.contract import Counts, PeekedMessage, PeekPage
from cqs.engines.pipes import schema
from cqs.engines.pipes.names import PipeLocation
from cqs.engines.pipes.rows import ListedPipe, PipeRows, by_pipe_of

PIPES_AT_ONCE = 16


class _Found(NamedTuple):
    """A message in the order of a peek."""

    due_ms: int
    location: PipeLocation
    born_at_ms: int
    deliveries: int
    first_at_ms: int


class PipeCounts(NamedTuple):
    waiting: int = 0
    visible: int = 0
    in_flight: int = 0
    delayed: int = 0
    never_popped: int = 0
    oldest_born_at_ms: int = 0


class PipeScan:
    def __init__(self, rows: PipeRows) -> None:
        self._rows = rows

    async def counts(self, queue_id: str, generation: int, now_ms: int) -> Counts:
        counted = [
            one
            async for page in self._rows.pipes(queue_id, generation)
            for one in await self._each(queue_id, page, now_ms)
        ]
        return Counts(
            sum(one.waiting + one.visible for one in counted),
            sum(one.in_flight for one in counted),
            sum(one.delayed for one in counted),
            min([one.oldest_born_at_ms for one in counted if one.oldest_born_at_ms], default=0),
        )

    async def _each(self, queue_id: str, pipes: list[ListedPipe], now_ms: int) -> list[PipeCounts]:
        counted: list[PipeCounts] = []
        for at in range(0, len(pipes), PIPES_AT_ONCE):
            some = pipes[at : at + PIPES_AT_ONCE]
            counted += await asyncio.gather(*[self.count(queue_id, pipe, now_ms) for pipe in some])
        return counted

    async def count(self, queue_id: str, pipe: ListedPipe, now_ms: int) -> PipeCounts:
        """Cassandra counts what waits; a pipe has at most as many rows as its size."""
        counting = self._rows.cassandra.run(schema.COUNT_WAITING, queue_id, pipe.name)
        ((waiting, first_born),), pending = await asyncio.gather(counting, self._rows.pending(queue_id, pipe.name))
        live = [row for row in pending if row[1] not in (None, schema.SETTLED)]
        hidden = [row for row in live if row[2] > now_ms]
        in_flight = sum(row[4] > 0 for row in hidden)
        births = [row[3] for row in live] + ([first_born] if first_born else [])
        never_popped = waiting + sum(row[1] == 0 for row in live)
        return PipeCounts(
            waiting,
            len(live) - len(hidden),
            in_flight,
            len(hidden) - in_flight,
            never_popped,
            min(births, default=0),
        )

    async def peek(self, queue_id: str, generation: int, cursor: str, n: int) -> PeekPage:
        """Soonest due first."""
        due_text, pipe, place_text = cursor.split(":") if cursor else ("-1", "", "-1")
        after = (int(due_text), PipeLocation(pipe, int(place_text)))
        found: dict[PipeLocation, _Found] = {}
        async for page in self._rows.pipes(queue_id, generation):
            for at in range(0, len(page), PIPES_AT_ONCE):
                for part in await asyncio.gather(
                    *[self._find(queue_id, one.name) for one in page[at : at + PIPES_AT_ONCE]]
                ):
                    found |= part
        chosen = sorted(one for one in found.values() if one[:2] > after)[:n]
        messages = await self._read(queue_id, chosen)
        last = chosen[-1] if len(chosen) == n else None
        return PeekPage(messages, f"{last.due_ms}:{last.location.pipe}:{last.location.place}" if last else "")

    async def _find(self, queue_id: str, pipe: str) -> dict[PipeLocation, _Found]:
        """Pending rows are read last: a message that is popped meanwhile is in both reads, not in none."""
        found: dict[PipeLocation, _Found] = {}
        for place, due_ms, born_at_ms, deliveries, first_at_ms in await self._rows.waiting(queue_id, pipe):
            location = PipeLocation(pipe, place)
            if due_ms is not None:
                found[location] = _Found(due_ms, location, born_at_ms, deliveries, first_at_ms)
        for place, lease, due_ms, born_at_ms, deliveries, first_at_ms in await self._rows.pending(queue_id, pipe):
            location = PipeLocation(pipe, place)
            if lease not in (None, schema.SETTLED):
                found[location] = _Found(due_ms, location, born_at_ms, deliveries, first_at_ms)
        return found

    async def _read(self, queue_id: str, chosen: list[_Found]) -> tuple[PeekedMessage, ...]:
        by_pipe = by_pipe_of([one.location for one in chosen])
        read = await asyncio.gather(
            *[
                asyncio.gather(self._rows.messages(queue_id, *one), self._rows.new_bodies(queue_id, *one))
                for one in by_pipe.items()
            ]
        )
        rows = {
            PipeLocation(pipe, place): row
            for pipe, (some, _) in zip(by_pipe, read, strict=True)
            for place, row in some.items()
        }
        bodies = {
            PipeLocation(pipe, place): body
            for pipe, (_, some) in zip(by_pipe, read, strict=True)
            for place, body in some.items()
        }
        return tuple(
            [
                PeekedMessage(
                    row.id,
                    bodies.get(one.location, row.body),
                    row.sequence,
                    one.deliveries,
                    one.first_at_ms,
                    one.born_at_ms,
                    one.due_ms,
                    row.tenant or "",
                )
                for one in chosen
                if (row := rows.get(one.location)) is not None
            ]
        )
