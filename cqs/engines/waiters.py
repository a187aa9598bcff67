"""Who waits for a queue's messages in this process: woken in turn, one for each message, or when the next is due."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import OrderedDict

from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.clock import Clock, Timer

_INTERNAL = f"{INTERNAL_ACCOUNT}/"


class Sleeper:
    """One long poll, asleep until it is woken, its time is over, or it is closed: all it holds is one future.

    Ten thousand of them wait in a process, so there is no task, no event and no `asyncio.timeout` here.
    """

    __slots__ = ("_sleep", "closed", "woken")

    def __init__(self) -> None:
        self._sleep: asyncio.Future[None] | None = None
        self.woken = False
        self.closed = False

    async def wait(self, timeout_s: float | None = None) -> bool:
        if not self.woken and not self.closed:
            loop = asyncio.get_running_loop()
            self._sleep = loop.create_future()
            timer = loop.call_later(timeout_s, self._rouse) if timeout_s is not None else None
            try:
                await self._sleep
            finally:
                self._sleep = None
                if timer is not None:
                    timer.cancel()
        if self.closed or not self.woken:
            return False
        self.woken = False
        self._awake()
        return True

    def wake(self) -> None:
        self.woken = True
        self._rouse()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._leave()
            self._rouse()

    def _rouse(self) -> None:
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)

    @abstractmethod
    def _awake(self) -> None:
        """`wait` is about to return True."""

    @abstractmethod
    def _leave(self) -> None:
        """Closed; if it is `woken`, it was to fetch a message and will not."""


class LocalWakeups(Sleeper):
    """A waiting receive in this process."""

    __slots__ = ("_waiters", "queue")

    def __init__(self, waiters: Waiters, queue: str) -> None:
        super().__init__()
        self._waiters = waiters
        self.queue = queue
        waiters.join(self)

    def pass_on(self) -> None:
        self._waiters.wake(self.queue, 1)

    def _awake(self) -> None:
        self._waiters.join(self)  # before the receive that follows, so that a timer is set for what it does not find

    def _leave(self) -> None:
        if self.woken:
            self.pass_on()
        else:
            self._waiters.leave(self)


class Waiters:
    """Everybody who waits, by queue; wakes as many as there are messages, and sets a timer for the next that is due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: dict[str, OrderedDict[LocalWakeups, None]] = {}
        self._timers: dict[str, Timer] = {}

    def __contains__(self, queue: str) -> bool:
        return queue in self._queues

    def __len__(self) -> int:
        return sum(len(waiters) for waiters in self._queues.values())

    @property
    def internal(self) -> int:
        """How many of them wait for jobs, in CNS's own queues."""
        return sum(len(waiters) for queue, waiters in self._queues.items() if queue.startswith(_INTERNAL))

    def queues(self) -> list[str]:
        return list(self._queues)

    def join(self, waiter: LocalWakeups) -> None:
        """Wait behind those who wait already."""
        self._queues.setdefault(waiter.queue, OrderedDict())[waiter] = None

    def leave(self, waiter: LocalWakeups) -> None:
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
            waiter.wake()
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
