"""Receives that wait for messages in the process that has them."""

from __future__ import annotations

import asyncio

from cns_common.clock import Clock
from cqs.engines.contract import Engine, QueueRef, Received, Wakeups


class LocalWaits:
    """See `cqs.engines.contract.Waits`."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._waiting: set[Wakeups] = set()
        self._stopped = False

    async def receive(self, q: QueueRef, want: int, lease_ms: int, wait_s: float) -> Received:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        wakeups = self._engine.wakeups(q)  # before the first look: what comes while that is under way wakes, too
        self._waiting.add(wakeups)
        try:
            received = await self._take(q, want, lease_ms)
            while not (received.messages or self._stopped) and await wakeups.wait(max(deadline_s - loop.time(), 0)):
                received = await self._take(q, want, lease_ms)
        finally:
            self._waiting.discard(wakeups)
            wakeups.close()
        return received

    def stop(self) -> None:
        self._stopped = True
        for wakeups in list(self._waiting):
            wakeups.close()  # not a cancellation, which a caller's own could not be told from

    async def _take(self, q: QueueRef, want: int, lease_ms: int) -> Received:
        now_ms = self._clock.now_ms()
        return await self._engine.receive(q, want, now_ms + lease_ms, now_ms)
