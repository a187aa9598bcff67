"""Receives that wait for messages in the process that has them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from common.clock import Clock
from common.errors import OutcomeUnknown, StoreUnavailable
from cqs.engines.contract import Change, Engine, QueueRef, Received, Settlement, Wakeups


class LocalWaits:
    """See `cqs.engines.contract.Waits`."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._waiting: set[Wakeups] = set()
        self._stopped = False
        self._forsaken = False
        self._handed: dict[str, tuple[QueueRef, Sequence[bytes]]] = {}  # by queue: what the last receive had

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
        self._handed[q.id] = (q, [message.handle for message in received.messages])
        if self._forsaken:
            await self._give_back()
        return received

    def stop(self) -> None:
        self._stopped = True
        for wakeups in list(self._waiting):
            wakeups.close()  # not a cancellation, which a caller's own could not be told from

    async def forsake(self) -> None:
        """The user has gone without a word. What it was handed last it may never have read: that is for others at once,
        not when the lease ends."""
        self._forsaken = True
        self.stop()
        await self._give_back()

    async def _give_back(self) -> None:
        handed, self._handed = self._handed, {}
        now_ms = self._clock.now_ms()
        changes = [(q, Change(handle, now_ms)) for q, handles in handed.values() for handle in handles]
        if changes:
            with suppress(StoreUnavailable, OutcomeUnknown):  # then the leases end it
                await self._engine.settle(Settlement(changes=tuple(changes)), now_ms)

    async def _take(self, q: QueueRef, want: int, lease_ms: int) -> Received:
        now_ms = self._clock.now_ms()
        return await self._engine.receive(q, want, now_ms + lease_ms, now_ms)
