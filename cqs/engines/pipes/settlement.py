"""Deletes and changes by receipt handles, in any process: they need no lease on the pipe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from cns_common.cassandra.session import Statement
from cqs.engines.contract import Change, Outcome, QueueRef
from cqs.engines.pipes import schema
from cqs.engines.pipes.conditional_writes import ConditionalWrites
from cqs.engines.pipes.names import PipeDelivery, PipeLocation, generation_of, parse_handle
from cqs.engines.pipes.rows import PipeRows

_Part = tuple[Statement, Sequence[object]]


class SettleResult(NamedTuple):
    location: PipeLocation | None
    outcome: Outcome


@dataclass(slots=True)
class _Deletes:
    """The fenced deletes of one pipe that wait for the one under way."""

    waiting: list[tuple[PipeDelivery, asyncio.Future[Outcome]]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class Settler:
    def __init__(self, rows: PipeRows, writes: ConditionalWrites) -> None:
        self._rows = rows
        self._writes = writes
        self._busy: dict[tuple[str, PipeLocation], asyncio.Future[None]] = {}
        self._deletes: dict[tuple[str, str], _Deletes] = {}

    # -- deletes ------------------------------------------------------------------------------------------------------

    async def delete(self, q: QueueRef, generation: int, handles: Sequence[bytes]) -> list[SettleResult]:
        """In the order given."""
        parsed = [parse_handle(handle) for handle in handles]
        current = [one for one in parsed if one is not None and generation_of(one.location.pipe) == generation]
        outcomes: dict[int, Outcome] = {}
        async with self._exclusively(q.id, {one.location for one in current}):
            rows = await self._rows.pending_of(q.id, {one.location for one in current})
            leases = {location: row[1] for location, row in rows.items()}
            fenced: list[tuple[int, PipeDelivery]] = []
            for index, one in enumerate(parsed):
                if one is None:
                    outcomes[index] = Outcome.MALFORMED
                    continue
                lease = leases.get(one.location)
                if lease is None:
                    outcomes[index] = Outcome.GONE
                elif q.older_handles or lease == one.lease:
                    outcomes[index] = Outcome.DONE
                    del leases[one.location]
                    if not q.older_handles:
                        fenced.append((index, one))
                else:
                    outcomes[index] = Outcome.STALE
            if fenced:
                found = await asyncio.gather(*[self._end(q.id, one) for _, one in fenced])
                outcomes |= {index: outcome for (index, _), outcome in zip(fenced, found, strict=True)}
            done = [one.location for index, one in enumerate(parsed) if one and outcomes[index] is Outcome.DONE]
            await self._rows.delete(q.id, done)
        return [SettleResult(one.location if one else None, outcomes[index]) for index, one in enumerate(parsed)]

    @asynccontextmanager
    async def _exclusively(self, queue_id: str, locations: Iterable[PipeLocation]) -> AsyncIterator[None]:
        """Wait for other deletes of these messages in this process: only one of them is DONE."""
        keys = [(queue_id, location) for location in locations]
        while others := [self._busy[key] for key in keys if key in self._busy]:
            await asyncio.wait(others)
        over = asyncio.get_running_loop().create_future()
        self._busy |= dict.fromkeys(keys, over)
        try:
            yield
        finally:
            for key in keys:
                del self._busy[key]
            over.set_result(None)

    async def _end(self, queue_id: str, delivery: PipeDelivery) -> Outcome:
        """End a message if this is still its newest delivery. Deletes of one pipe that come together share a write."""
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        key = (queue_id, delivery.location.pipe)
        deletes = self._deletes.setdefault(key, _Deletes())
        deletes.waiting.append((delivery, outcome))
        if deletes.task is None:
            deletes.task = asyncio.create_task(self._end_waiting(key, deletes))
        return await outcome

    async def _end_waiting(self, key: tuple[str, str], deletes: _Deletes) -> None:
        while deletes.waiting:
            some, deletes.waiting = deletes.waiting, []
            try:
                await self._end_some(*key, some)
            except BaseException as error:  # noqa: BLE001  # it is that of each waiting call
                for _, outcome in some:
                    if not outcome.done():
                        outcome.set_exception(error)
        del self._deletes[key]

    async def _end_some(
        self, queue_id: str, pipe: str, some: Sequence[tuple[PipeDelivery, asyncio.Future[Outcome]]]
    ) -> None:
        left = list(some)
        while left:
            parts: list[_Part] = [(schema.SETTLE, (queue_id, pipe, one.location.place, one.lease)) for one, _ in left]
            if await self._writes.run(queue_id, pipe, parts):
                for _, outcome in left:
                    _answer(outcome, Outcome.DONE)
                return
            rows = await self._rows.pending_of(queue_id, [one.location for one, _ in left])
            still = []
            for one, outcome in left:
                row = rows.get(one.location)
                if row is not None and row[1] == one.lease:
                    still.append((one, outcome))
                else:
                    _answer(outcome, Outcome.GONE if row is None else Outcome.STALE)
            left = still

    # -- changes ------------------------------------------------------------------------------------------------------

    async def change(self, q: QueueRef, generation: int, changes: Sequence[Change]) -> list[SettleResult]:
        """In the order given. Changes of one message are made in that order."""
        parsed = [parse_handle(change.handle) for change in changes]
        by_location: dict[PipeLocation | None, list[int]] = {}
        for index, one in enumerate(parsed):
            by_location.setdefault(one.location if one else None, []).append(index)
        outcomes: dict[int, Outcome] = {}

        async def change_each(indexes: Sequence[int]) -> None:
            for index in indexes:
                outcomes[index] = await self._change(q, generation, parsed[index], changes[index])

        await asyncio.gather(*[change_each(indexes) for indexes in by_location.values()])
        return [SettleResult(one.location if one else None, outcomes[index]) for index, one in enumerate(parsed)]

    async def _change(self, q: QueueRef, generation: int, delivery: PipeDelivery | None, change: Change) -> Outcome:
        if delivery is None:
            return Outcome.MALFORMED
        location, lease = delivery
        if generation_of(location.pipe) != generation:
            return Outcome.GONE
        any_lease = q.older_handles and change.body is None
        key = (q.id, *location)
        if change.visible_at_ms is None and change.body is None:
            parts: list[_Part] = []
        elif change.body is None:
            parts = (
                [(schema.HIDE_ANY, (change.visible_at_ms, *key))]
                if any_lease
                else [(schema.HIDE, (change.visible_at_ms, *key, lease))]
            )
        elif change.visible_at_ms is None:
            parts = [(schema.REPLACE_BODY, (change.body, *key, lease))]
        else:
            parts = [(schema.HIDE_AND_REPLACE_BODY, (change.visible_at_ms, change.body, *key, lease))]
        if parts and await self._writes.run(q.id, location.pipe, parts):
            return Outcome.DONE
        row = (await self._rows.pending_of(q.id, [location])).get(location)
        if row is None:
            return Outcome.GONE
        if not parts and (any_lease or row[1] == lease):
            return Outcome.DONE
        return Outcome.STALE


def _answer(outcome: asyncio.Future[Outcome], value: Outcome) -> None:
    if not outcome.done():  # else its caller does not wait any more
        outcome.set_result(value)
