"""Removes expired records, a few rows at a time, so that no step delays a call for more than milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from cns_backend.stores.contract import LeaseStore, TaskLease
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cqs.engines.contract import Engine

TASK = "maintenance"
EVERYTHING = "everything"
"""The task has this one part."""
LEASE_MS = 15_000
"""The duration of the lease, which is renewed before each step: when it ends, another worker takes over."""
ROWS_PER_STEP = 500
STEPS_PER_RUN_MAX = 100
STEP_INTERVAL_S = 0.02
RUN_INTERVAL_S = 5.0


class SweptStore(Protocol):
    """A store whose records expire."""

    async def sweep(self, now_ms: int, budget: int) -> int: ...


class Maintenance:
    """Every worker has one; a lease lets one run at a time."""

    def __init__(
        self, engines: Sequence[Engine], stores: Sequence[SweptStore], leases: LeaseStore, clock: Clock
    ) -> None:
        self._engines = engines
        self._stores = stores
        self._leases = leases
        self._clock = clock

    async def step(self) -> None:
        """Run, then pause: maintenance needs no trigger."""
        await self.run()
        await asyncio.sleep(RUN_INTERVAL_S)

    async def run(self) -> int | None:
        """Remove rows until few are left. Returns how many were examined; None if another run has the lease."""
        lease = TaskLease(self._leases, TASK, EVERYTHING, hex_id(), LEASE_MS, self._clock)
        rows = 0
        for number in range(STEPS_PER_RUN_MAX):
            if not await lease.take():
                return rows if number else None
            done = await self._remove_some()
            rows += sum(done)
            if max(done) < ROWS_PER_STEP:
                break
            await asyncio.sleep(STEP_INTERVAL_S)
        await lease.give_back()
        return rows

    async def _remove_some(self) -> list[int]:
        now_ms = self._clock.now_ms()
        return [
            *[await engine.maintain(ROWS_PER_STEP, now_ms) for engine in self._engines],
            *[await store.sweep(now_ms, ROWS_PER_STEP) for store in self._stores],
        ]
