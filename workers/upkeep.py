"""Clearing up, a few rows at a time, so that no step holds up a call for more than milliseconds."""

from __future__ import annotations

import asyncio

from cns.stores.contract import NotificationStore, SubscriptionStore
from common.clock import Clock
from cqs.engines.contract import Engine

ROWS_A_STEP = 500
BUSY_PAUSE_S = 0.02
IDLE_PAUSE_S = 5.0


class Upkeep:
    """One step clears a little everywhere; with nothing to clear it rests."""

    def __init__(
        self, engine: Engine, notifications: NotificationStore, subscriptions: SubscriptionStore, clock: Clock
    ) -> None:
        self._engine = engine
        self._notifications = notifications
        self._subscriptions = subscriptions
        self._clock = clock

    async def step(self) -> None:
        now_ms = self._clock.now_ms()
        done = (
            await self._engine.maintain(ROWS_A_STEP, now_ms),
            await self._notifications.sweep(now_ms, ROWS_A_STEP),
            await self._subscriptions.sweep(now_ms, ROWS_A_STEP),
        )
        await asyncio.sleep(BUSY_PAUSE_S if max(done) >= ROWS_A_STEP else IDLE_PAUSE_S)
