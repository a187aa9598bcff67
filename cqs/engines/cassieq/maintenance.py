"""Clean-up in bounded steps: expired messages and repair; `GarbageCollector`: what purges and drops left."""

from __future__ import annotations

import asyncio

from cns_common.cassandra.session import Cassandra
from cqs.engines.cassandra.garbage import Garbage, GarbageList
from cqs.engines.cassandra.known_queues import MaintenanceTurns
from cqs.engines.cassieq import schema
from cqs.engines.cassieq.hidden import BEGIN, CassieqHiddenMessages
from cqs.engines.cassieq.ids import bucket_of, queue_key
from cqs.engines.cassieq.invisibility import Invisibility
from cqs.engines.cassieq.known_queues import CassieqKnownQueue, CassieqKnownQueues
from cqs.engines.cassieq.monotons import Monotons
from cqs.engines.cassieq.pointers import Pointer, QueuePointers
from cqs.engines.cassieq.receiving import CassieqReceiver
from cqs.engines.cassieq.repair import Repairer
from cqs.engines.cassieq.rows import CassieqRows

QUEUES_AT_ONCE = 100
"""Queues of this process per step. Each costs a few statements even if there is nothing to do."""
BEHIND = (Pointer.REPAIR, Pointer.INVISIBILITY)
"""Buckets before both pointers were removed or have only hidden messages."""


class CassieqMaintenance:
    """Maintains the queues that this process uses."""

    def __init__(
        self,
        known_queues: CassieqKnownQueues,
        receiver: CassieqReceiver,
        invisibility: Invisibility,
        repairer: Repairer,
    ) -> None:
        self._known_queues = known_queues
        self._turns = MaintenanceTurns(known_queues, QUEUES_AT_ONCE)
        self._receiver = receiver
        self._invisibility = invisibility
        self._repairer = repairer

    async def run(self, budget: int, now_ms: int) -> int:
        return await self._turns.step(lambda known, left: self._maintain(known, left, now_ms), budget)

    async def _maintain(self, known: CassieqKnownQueue, budget: int, now_ms: int) -> int:
        done = await self._receiver.expire_some(known.q, budget, now_ms)
        current = await self._known_queues.get(known.q)
        if current.dropped or not current.placed:
            return done
        await self._invisibility.advance(current, now_ms)
        return done + (await self._repairer.repair(current, budget - done, now_ms) if done < budget else 0)


class GarbageCollector:
    """Removes the rows of purged generations and of dropped queues."""

    def __init__(
        self,
        cassandra: Cassandra,
        rows: CassieqRows,
        pointers: QueuePointers,
        monotons: Monotons,
        hidden: CassieqHiddenMessages,
        garbage: GarbageList,
    ) -> None:
        self._cassandra = cassandra
        self._rows = rows
        self._pointers = pointers
        self._monotons = monotons
        self._hidden = hidden
        self._garbage = garbage

    async def collect(self, budget: int) -> int:
        """Remove up to `budget` buckets."""
        return await self._garbage.clear(self._clear, budget)

    async def _clear(self, garbage: Garbage, budget: int) -> int:
        key = queue_key(garbage.queue_id, garbage.below - 1)
        done = await self._remove(key, budget)
        if done < budget:
            await self._forget(key)
        return done

    async def _remove(self, key: str, budget: int) -> int:
        """Returns how many buckets were removed. The next call goes on where this one ended."""
        next_monoton, size = await self._monotons.extent(key)
        entries = await self._hidden.page(key, BEGIN, budget)
        for entry in entries:
            await self._rows.remove_bucket(key, bucket_of(entry.monoton, size))
            await self._hidden.remove(key, entry)
        removed, *others = [await self._pointers.read(key, pointer) for pointer in (Pointer.REMOVED, *BEHIND)]
        first = max(removed, min(others))
        end = bucket_of(next_monoton - 1, size) + 1
        numbers = range(first, min(end, first + budget - len(entries)))
        await asyncio.gather(*[self._rows.remove_bucket(key, number) for number in numbers])
        if numbers:
            await self._pointers.advance(key, Pointer.REMOVED, removed, numbers[-1] + 1)
        return len(entries) + len(numbers)

    async def _forget(self, key: str) -> None:
        await self._hidden.clear(key)
        for pointer in Pointer:
            await self._cassandra.run_conditional(schema.REMOVE_POINTER, key, pointer)
        await self._cassandra.run_conditional(schema.REMOVE_MONOTON, key)
