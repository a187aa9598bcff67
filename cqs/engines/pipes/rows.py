"""Reads of pipes and messages, and the writes that are not a push, a pop or a settlement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.clock import Clock
from cqs.engines.cassandra.expired import ExpiredList
from cqs.engines.cassandra.retention import RetentionPeriods
from cqs.engines.contract import QueueRef
from cqs.engines.pipes import schema
from cqs.engines.pipes.names import PipeLocation, generation_prefix
from cqs.engines.pipes.view import PendingRow, WaitingRow


class ListedPipe(NamedTuple):
    name: str
    state: str

    @property
    def is_finished(self) -> bool:
        """Whether no message is added to it any more."""
        return self.state in (schema.FINISHED, schema.EMPTY)


class Descriptor(NamedTuple):
    state: str | None
    pusher: str | None
    owner: str | None
    fence: int | None


class PipeMessageRow(NamedTuple):
    place: int
    id: str
    body: bytes
    tenant: str
    sequence: int


class PipeRows:
    def __init__(self, cassandra: Cassandra, clock: Clock) -> None:
        self.cassandra = cassandra
        self.expired = ExpiredList(cassandra, "pipes_expired")
        self.retentions = RetentionPeriods(cassandra)
        self._clock = clock

    # -- pipes --------------------------------------------------------------------------------------------------------

    async def pipes(self, queue_id: str, generation: int, after: str = "") -> AsyncIterator[list[ListedPipe]]:
        """The pipes of a generation, oldest first, page by page; those after a name if one is given."""
        after, end = after or generation_prefix(generation), generation_prefix(generation + 1)
        while True:
            rows = await self.cassandra.run(schema.LIST, queue_id, after, schema.PAGE_ROWS)
            page = [ListedPipe(name, state or schema.ACTIVE) for name, state in rows if name < end]
            yield page
            if len(page) < schema.PAGE_ROWS:
                break
            after = page[-1].name

    async def all_pipes(self, queue_id: str, generation: int) -> list[ListedPipe]:
        return [pipe async for page in self.pipes(queue_id, generation) for pipe in page]

    async def pipes_below(self, queue_id: str, generation: int, n: int) -> list[str]:
        """Up to `n` pipes of earlier generations."""
        rows = await self.cassandra.run(schema.LIST, queue_id, "", n)
        end = generation_prefix(generation)
        return [name for name, _ in rows if name < end]

    async def describe(self, queue_id: str, pipe: str) -> Descriptor | None:
        rows = await self.cassandra.run(schema.DESCRIBE, queue_id, pipe)
        return Descriptor(*rows[0]) if rows else None

    async def hint(self, queue_id: str, pipe: str, state: str) -> None:
        await self.cassandra.run(schema.HINT, schema.STATE_US[state], state, queue_id, pipe)

    async def clear(self, queue_id: str, pipe: str) -> None:
        """Remove a pipe with all that is in it. The directory comes last: until then others find the pipe."""
        ahead_us = self._delete_us()
        clears = [(statement, (ahead_us, queue_id, pipe)) for statement in schema.CLEAR]
        await self.cassandra.run_batch(clears, logged=False)
        await self.cassandra.run(schema.REMOVE_DESCRIPTOR, queue_id, pipe)
        await self.cassandra.run(schema.REMOVE, queue_id, pipe)

    # -- messages -----------------------------------------------------------------------------------------------------

    async def waiting(self, queue_id: str, pipe: str, low: int = 0) -> list[WaitingRow]:
        return await self._all(schema.LIST_WAITING, queue_id, pipe, low)

    async def pending(self, queue_id: str, pipe: str) -> list[PendingRow]:
        return await self._all(schema.LIST_PENDING, queue_id, pipe, 0)

    async def _all(self, statement: Statement, queue_id: str, pipe: str, low: int) -> list[Row]:
        rows: list[Row] = []
        while True:
            page = await self.cassandra.run(statement, queue_id, pipe, low)
            rows += page
            if len(page) < schema.PAGE_ROWS:
                return rows
            low = page[-1][0] + 1

    async def pending_of(self, queue_id: str, locations: Iterable[PipeLocation]) -> dict[PipeLocation, PendingRow]:
        """One read per pipe, in parallel. A message that was settled has none."""
        by_pipe = by_pipe_of(locations)
        pages = await self.cassandra.run_each(
            schema.READ_PENDING, [(queue_id, pipe, places) for pipe, places in by_pipe.items()]
        )
        return {
            PipeLocation(pipe, row[0]): (row[0], row[1], row[2], row[3], row[4], row[5])
            for pipe, rows in zip(by_pipe, pages, strict=True)
            for row in rows
            if row[1] not in (None, schema.SETTLED)
        }

    async def births(self, queue_id: str, pipe: str) -> dict[int, int]:
        """When the messages of a pipe were born, by place, whether they wait, are pending or neither."""
        return dict(await self._all(schema.LIST_MESSAGES, queue_id, pipe, 0))

    async def messages(self, queue_id: str, pipe: str, places: Sequence[int]) -> dict[int, PipeMessageRow]:
        rows = await self.cassandra.run(schema.READ_MESSAGES, queue_id, pipe, places)
        return {row[0]: PipeMessageRow(*row) for row in rows if row[1] is not None}

    async def new_bodies(self, queue_id: str, pipe: str, places: Sequence[int]) -> dict[int, bytes]:
        """The bodies that replace those sent."""
        rows = await self.cassandra.run(schema.READ_NEW_BODIES, queue_id, pipe, places) if places else []
        return {place: body for place, body in rows if body is not None}

    async def delete(self, queue_id: str, locations: Iterable[PipeLocation]) -> None:
        """Remove messages for good, one write per pipe: it supersedes every other write, whatever the clocks say."""
        ahead_us = self._delete_us()
        batches = [
            [(one, (ahead_us, queue_id, pipe, place)) for place in places for one in schema.DELETE]
            for pipe, places in by_pipe_of(locations).items()
        ]
        await asyncio.gather(*[self.cassandra.run_batch(batch, logged=False) for batch in batches])

    def _delete_us(self) -> int:
        return self._clock.wall_ms() * 1000 + schema.DELETE_AHEAD_US

    async def expire(self, q: QueueRef, locations: Iterable[PipeLocation], now_ms: int) -> None:
        """Remove messages for their age; those of an audited queue are recorded before."""
        by_pipe = by_pipe_of(locations)
        if q.audit:
            for pipe, places in by_pipe.items():
                rows = await self.messages(q.id, pipe, places)
                await self.expired.record(q, [(row.id, row.tenant) for row in rows.values()], now_ms)
        await self.delete(q.id, [PipeLocation(pipe, place) for pipe, places in by_pipe.items() for place in places])


def by_pipe_of(locations: Iterable[PipeLocation]) -> dict[str, list[int]]:
    by_pipe: dict[str, list[int]] = {}
    for pipe, place in locations:
        by_pipe.setdefault(pipe, []).append(place)
    return by_pipe
