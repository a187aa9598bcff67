"""Who waits for a queue's messages in this process: woken in turn, one for each message, or when the next is due."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from common.clock import Clock, Timer


class Waiter:
    """One long poll on one queue. `notify` is called from the store host's loop when it should receive."""

    __slots__ = ("_host", "closed", "notify", "queue", "woken")

    def __init__(self, host: Waiters, queue: str, notify: Callable[[], None]) -> None:
        self._host = host
        self.queue = queue
        self.notify = notify
        self.woken = False
        self.closed = False

    def rearm(self) -> None:
        """Wait again, behind those who wait already."""
        if self.woken and not self.closed:
            self.woken = False
            self._host.join(self)

    def pass_on(self) -> None:
        self._host.wake(self.queue, 1)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self.woken:
            self.pass_on()  # it was to fetch a message and will not
        else:
            self._host.leave(self)


class Waiters:
    """Everybody who waits, by queue; wakes as many as there are messages, and sets a timer for the next that is due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: dict[str, OrderedDict[Waiter, None]] = {}
        self._timers: dict[str, Timer] = {}

    def __contains__(self, queue: str) -> bool:
        return queue in self._queues

    def __len__(self) -> int:
        return sum(len(waiters) for waiters in self._queues.values())

    def queues(self) -> list[str]:
        return list(self._queues)

    def join(self, waiter: Waiter) -> None:
        self._queues.setdefault(waiter.queue, OrderedDict())[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        waiters = self._queues.get(waiter.queue)
        if waiters is None:
            return
        waiters.pop(waiter, None)
        if not waiters:
            self._forget(waiter.queue)

    def wake(self, queue: str, n: int) -> None:
        waiters = self._queues.get(queue)
        while waiters and n > 0:
            waiter, _ = waiters.popitem(last=False)
            waiter.woken = True
            waiter.notify()
            n -= 1
        if not waiters:
            self._forget(queue)

    def wake_all(self, queue: str) -> None:
        self.wake(queue, len(self._queues.get(queue, ())))

    def wake_everybody(self) -> None:
        for queue in list(self._queues):
            self.wake_all(queue)

    def wake_at(self, queue: str, due_ms: int) -> None:
        """One waiter is called when `due_ms` has come, unless something is due sooner."""
        timer = self._timers.get(queue)
        if timer is not None:
            if timer.at_ms == due_ms:
                return
            timer.cancel()
        self._timers[queue] = self._clock.call_at(due_ms, lambda: self._due(queue))

    def _due(self, queue: str) -> None:
        self._timers.pop(queue, None)
        self.wake(queue, 1)

    def _forget(self, queue: str) -> None:
        self._queues.pop(queue, None)
        timer = self._timers.pop(queue, None)
        if timer is not None:
            timer.cancel()


class LocalWakeups:
    """A waiting receive in this process."""

    __slots__ = ("_event", "_waiter")

    def __init__(self, waiters: Waiters, queue: str) -> None:
        self._event = asyncio.Event()
        self._waiter = Waiter(waiters, queue, self._event.set)
        waiters.join(self._waiter)

    async def wait(self, timeout_s: float) -> bool:
        if not self._waiter.woken:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._event.wait()
            except TimeoutError:
                return False
        self._event.clear()
        self._waiter.rearm()  # before the receive that follows, so that a timer is set for what it does not find
        return True

    def pass_on(self) -> None:
        self._waiter.pass_on()

    def close(self) -> None:
        self._waiter.close()
