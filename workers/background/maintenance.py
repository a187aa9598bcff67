"""Clearing up, a few rows at a time, so that no step holds up a call for more than milliseconds."""

from __future__ import annotations

import asyncio

from cns.stores.contract import ArchiveStore, NotificationStore, OutboxStore, SubscriptionStore
from cns.stores.mobile_contract import MobileEndpointStore
from cns_backend.stores.embedded.leases import LeaseStore
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cqs.engines.contract import Engine

TASK = "maintenance"
EVERYTHING = "everything"
"""The one range of an embedded store."""
LEASE_MS = 15_000
"""Taken anew before each step; a worker that dies leaves the work for so long."""
ROWS_A_STEP = 500
STEPS_A_RUN_MAX = 100
BUSY_PAUSE_S = 0.02
IDLE_PAUSE_S = 5.0


class Upkeep:
    """Every worker has one; the lease lets one at a time clear."""

    def __init__(
        self,
        engine: Engine,
        notifications: NotificationStore,
        subscriptions: SubscriptionStore,
        archives: ArchiveStore,
        outbox: OutboxStore,
        mobile_endpoints: MobileEndpointStore,
        leases: LeaseStore,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._notifications = notifications
        self._subscriptions = subscriptions
        self._archives = archives
        self._outbox = outbox
        self._mobile_endpoints = mobile_endpoints
        self._leases = leases
        self._clock = clock

    async def step(self) -> None:
        """A run and a rest: maintenance needs nobody to trigger it."""
        await self.run()
        await asyncio.sleep(IDLE_PAUSE_S)

    async def run(self) -> int | None:
        """Clear until little is left to clear; how many rows were looked at, or None when another run is at it."""
        holder = hex_id()
        rows = 0
        for number in range(STEPS_A_RUN_MAX):
            if not await self._leases.take(TASK, EVERYTHING, holder, LEASE_MS, self._clock.now_ms()):
                return rows if number else None
            done = await self._clear()
            rows += sum(done)
            if max(done) < ROWS_A_STEP:
                break
            await asyncio.sleep(BUSY_PAUSE_S)
        await self._leases.give_back(TASK, EVERYTHING, holder)
        return rows

    async def _clear(self) -> tuple[int, ...]:
        """A step: a little everywhere."""
        now_ms = self._clock.now_ms()
        return (
            await self._engine.maintain(ROWS_A_STEP, now_ms),
            await self._notifications.sweep(now_ms, ROWS_A_STEP),
            await self._subscriptions.sweep(now_ms, ROWS_A_STEP),
            await self._archives.sweep(now_ms, ROWS_A_STEP),
            await self._outbox.sweep(now_ms, ROWS_A_STEP),
            await self._mobile_endpoints.sweep(now_ms, ROWS_A_STEP),
        )
