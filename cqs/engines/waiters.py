"""Waiting receives of this process: woken in turn, one per visible message, or when the next message is due."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict

from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.clock import Clock, Timer
from cns_common.metrics.catalogue import LONG_POLLS_WAITING
from cns_common.metrics.model import Sample
from cqs.engines.contract import Waiter

_INTERNAL_PREFIX = f"{INTERNAL_ACCOUNT}/"


class FutureWaiter(Waiter, ABC):
    """A waiter that costs one future: thousands wait in a process, so none has a task, an event or an
    `asyncio.timeout`."""

    __slots__ = ("_future", "closed", "woken")

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None
        self.woken = False
        self.closed = False

    async def wait(self, timeout_s: float | None = None) -> bool:
        if not self.woken and not self.closed:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            timer = loop.call_later(timeout_s, self._resolve) if timeout_s is not None else None
            try:
                await self._future
            finally:
                self._future = None
                if timer is not None:
                    timer.cancel()
        if self.closed or not self.woken:
            return False
        self.woken = False
        self._on_wake()
        return True

    def wake(self) -> None:
        self.woken = True
        self._resolve()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._on_close()
            self._resolve()

    def _resolve(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    @abstractmethod
    def _on_wake(self) -> None:
        """Called before `wait` returns True."""

    @abstractmethod
    def _on_close(self) -> None:
        """Called once, by `close`. If `woken` is set, a wake-up was not used."""


class LocalWaiter(FutureWaiter):
    """A waiter of a queue that an engine in this process stores."""

    __slots__ = ("_waiters", "queue")

    def __init__(self, waiters: WaiterRegistry, queue: str) -> None:
        super().__init__()
        self._waiters = waiters
        self.queue = queue
        waiters.add(self)

    def pass_on(self) -> None:
        self._waiters.wake(self.queue, 1)

    def _on_wake(self) -> None:
        self._waiters.add(self)  # before the next receive, which sets a timer for messages that are not due yet

    def _on_close(self) -> None:
        if self.woken:
            self.pass_on()
        else:
            self._waiters.remove(self)


class WaiterRegistry:
    """The waiters of each queue. Wakes as many as there are visible messages, and sets a timer for the next one due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: dict[str, OrderedDict[LocalWaiter, None]] = {}
        self._timers: dict[str, Timer] = {}

    def __contains__(self, queue: str) -> bool:
        return queue in self._queues

    def __len__(self) -> int:
        return sum(len(waiters) for waiters in self._queues.values())

    @property
    def internal(self) -> int:
        """The number of waiters on internal queues."""
        return sum(len(waiters) for queue, waiters in self._queues.items() if queue.startswith(_INTERNAL_PREFIX))

    @staticmethod
    def samples(*registries: WaiterRegistry) -> list[Sample]:
        """The long polls that wait in all of these registries, by caller."""
        waiting = sum(map(len, registries))
        internal = sum(registry.internal for registry in registries)
        return [
            LONG_POLLS_WAITING.sample(waiting - internal, caller="client"),
            LONG_POLLS_WAITING.sample(internal, caller="worker"),
        ]

    def queues(self) -> list[str]:
        return list(self._queues)

    def add(self, waiter: LocalWaiter) -> None:
        """Put `waiter` behind all other waiters of its queue."""
        self._queues.setdefault(waiter.queue, OrderedDict())[waiter] = None

    def remove(self, waiter: LocalWaiter) -> None:
        waiters = self._queues.get(waiter.queue)
        if waiters is None:
            return
        waiters.pop(waiter, None)
        if not waiters:
            self._remove_queue(waiter.queue)

    def wake(self, queue: str, n: int) -> None:
        waiters = self._queues.get(queue)
        while waiters and n > 0:
            waiter, _ = waiters.popitem(last=False)
            waiter.wake()
            n -= 1
        if not waiters:
            self._remove_queue(queue)

    def wake_all(self, queue: str) -> None:
        self.wake(queue, len(self._queues.get(queue, ())))

    def wake_all_queues(self) -> None:
        for queue in list(self._queues):
            self.wake_all(queue)

    def wake_at(self, queue: str, due_ms: int) -> None:
        """Wake one waiter at `due_ms`. Replaces the queue's earlier timer."""
        timer = self._timers.get(queue)
        if timer is not None:
            if timer.at_ms == due_ms:
                return
            timer.cancel()
        self._timers[queue] = self._clock.call_at(due_ms, lambda: self._due(queue))

    def wake_soonest(self, queue: str, due_ms: int) -> None:
        """Wake one waiter at `due_ms`, unless a timer wakes one earlier."""
        timer = self._timers.get(queue)
        if timer is None or timer.at_ms > due_ms:
            self.wake_at(queue, due_ms)

    def _due(self, queue: str) -> None:
        self._timers.pop(queue, None)
        self.wake(queue, 1)

    def _remove_queue(self, queue: str) -> None:
        self._queues.pop(queue, None)
        timer = self._timers.pop(queue, None)
        if timer is not None:
            timer.cancel()
