"""The long poll: receive until a message comes, waiting for a wake-up between receives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cns_common.clock import Clock
from cqs.engines.contract import Engine, LongPolls, QueueRef, ReceiveResult, Waiter


async def poll(waiter: Waiter, receive: Callable[[], Awaitable[ReceiveResult]]) -> ReceiveResult:
    """Call `receive` until it returns messages or the queue is dropped, or `waiter` is closed; then close `waiter`.

    The first receive comes before the first wait: messages sent before the waiter was registered wake no waiter."""
    received = ReceiveResult()
    try:
        while not waiter.closed:
            received = await receive()
            if received.messages or received.dropped:
                break
            await waiter.wait()
        return received
    finally:
        waiter.close()


class LocalLongPolls(LongPolls):
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._waiters: set[Waiter] = set()
        self._stopped = False

    async def receive(self, q: QueueRef, want: int, lease_ms: int, wait_s: float) -> ReceiveResult:
        async def receive() -> ReceiveResult:
            now_ms = self._clock.now_ms()
            return await self._engine.receive(q, want, now_ms + lease_ms, now_ms)

        if self._stopped:
            return await receive()
        waiter = self._engine.waiter(q)
        self._waiters.add(waiter)
        deadline = asyncio.get_running_loop().call_later(wait_s, waiter.close)
        try:
            return await poll(waiter, receive)
        finally:
            deadline.cancel()
            self._waiters.discard(waiter)

    def stop(self) -> None:
        self._stopped = True
        for waiter in list(self._waiters):
            waiter.close()  # not cancelled: the caller could not tell that from its own cancellation
