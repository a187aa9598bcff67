"""Delivery pools: named threads, each with an event loop and many sends in flight.

There are two: `delivery` for first attempts and `redelivery` for all others, so that a storm of retries never takes a
first attempt's place. While a pool has sends, it checks every `POLL_INTERVAL_S` whether its threads answer. What waits
for a thread that does not answer is given to the others, and a thread that stays blocked is replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from operator import attrgetter

import structlog

from cns.endpoints.contract import Request, Sender
from cns.endpoints.outcome import Outcome
from cns_common.configuration.settings import POOL_THREADS_MAX
from cns_common.metrics.catalogue import (
    POOL_SENDS_IN_FLIGHT,
    POOL_SENDS_WAITING,
    POOL_THREADS,
    POOL_THREADS_BLOCKED,
    POOL_THREADS_DRAINING,
    POOL_THREADS_REPLACED,
)
from cns_common.metrics.model import Sample
from cns_workers.delivery.pool.fair_queue import MakeRequest, PoolSend
from cns_workers.delivery.pool.thread import IN_FLIGHT_MAX, PoolThread

POLL_INTERVAL_S = 0.1
MISSED_CHECKS_MAX = 10
"""Missed checks in a row after which a thread is replaced."""
WAITING_MAX = 2_000
"""Sends that wait for threads, above which no more jobs are received: in their queue, tenants take turns."""
RESTART_PAUSE_S = 1.0
"""The pause before a dead thread is replaced that had lived for less than this."""

log = structlog.get_logger(__name__)

_load = attrgetter("load")


class DeliveryPool:
    """Sends from the thread with the least load. Outcomes come back to the event loop that made the pool."""

    def __init__(self, name: str, threads: int, make_sender: Callable[[], Sender[Request]]) -> None:
        self.name = name
        self._make_sender = make_sender
        self._owner = asyncio.get_running_loop()
        self._numbers = count(1)
        self._threads: list[PoolThread] = []
        self._draining: set[PoolThread] = set()
        self._answering: list[PoolThread] = []
        self._timer: asyncio.TimerHandle | None = None
        self._replaced = {"blocked": 0, "died": 0}
        self._room = asyncio.Event()
        self.resize(threads)

    @property
    def size(self) -> int:
        return len(self._threads)

    @property
    def draining(self) -> int:
        """Threads that have left the pool and end their sends."""
        return len(self._draining)

    @property
    def blocked(self) -> int:
        """Threads that do not answer checks."""
        return sum([thread.missed_checks > 0 for thread in self._threads])

    @property
    def in_flight(self) -> int:
        return sum([thread.load - thread.queue.size for thread in (*self._threads, *self._draining)])

    @property
    def waiting(self) -> int:
        """Sends that no thread has room for."""
        return sum([thread.queue.size for thread in (*self._threads, *self._draining)])

    def samples(self) -> list[Sample]:
        name = self.name
        return [
            POOL_THREADS.sample(self.size, pool=name),
            POOL_THREADS_DRAINING.sample(self.draining, pool=name),
            POOL_THREADS_BLOCKED.sample(self.blocked, pool=name),
            POOL_SENDS_IN_FLIGHT.sample(self.in_flight, pool=name),
            POOL_SENDS_WAITING.sample(self.waiting, pool=name),
            *[POOL_THREADS_REPLACED.sample(n, pool=name, cause=cause) for cause, n in self._replaced.items()],
        ]

    def send(self, make_request: MakeRequest, group: str) -> asyncio.Future[Outcome]:
        """Groups take turns. Must be called on the event loop that made the pool."""
        future: asyncio.Future[Outcome] = self._owner.create_future()
        thread: PoolThread = min(self._answering, key=_load)
        thread.submit(PoolSend(make_request, future, group))
        if self._timer is None:
            self._timer = self._owner.call_later(POLL_INTERVAL_S, self._check)
        return future

    async def room(self) -> int:
        """Wait until a send may be asked for. Returns how many may."""
        while (waiting := self.waiting) >= WAITING_MAX:
            self._room.clear()
            await self._room.wait()
        return WAITING_MAX - waiting

    def resize(self, threads: int) -> None:
        """Add threads, or drain some: those end the sends that they have in flight. The others send what waits."""
        while len(self._threads) < threads:
            self._threads.append(self._start())
        drained = sorted(self._threads, key=_drain_order)[threads:]
        for thread in drained:
            self._threads.remove(thread)
        self._find_answering()
        for thread in drained:
            self._drain(thread)
        self._spread()

    async def close(self, grace_s: float) -> int:
        """Wait for sends in flight. Returns how many did not end in time."""
        if self._timer is not None:
            self._timer.cancel()
        self._spread()
        threads = [*[thread for thread in self._threads if not thread.ended.done()], *self._draining]
        for thread in threads:
            thread.drain()
        self._threads, self._answering = [], []
        if threads:
            await asyncio.wait([thread.ended for thread in threads], timeout=grace_s)
        return sum(thread.load for thread in threads)

    # -- threads that come and go -------------------------------------------------------------------------------------

    def _start(self) -> PoolThread:
        thread = PoolThread(f"{self.name}-{next(self._numbers)}", self._make_sender, self._room.set)
        thread.ended.add_done_callback(lambda ended: self._replace_ended(thread, ended.result()))
        return thread

    def _drain(self, thread: PoolThread) -> None:
        """Drain a thread that is no longer in the pool, and give what waits for it to the others."""
        if not thread.ended.done():
            self._draining.add(thread)
            thread.drain()
        for send in thread.withdraw(thread.queue.size):
            min(self._answering, key=_load).submit(send)

    def _replace_ended(self, thread: PoolThread, error: BaseException | None) -> None:
        self._draining.discard(thread)
        if error is not None:
            log.error("pool.thread_died", pool=self.name, thread=thread.name, exc_info=error)
        if thread not in self._threads:
            return
        thread.missed_checks = 1  # a dead thread answers nothing
        self._find_answering()
        self._spread()
        if self._owner.time() - thread.created_s < RESTART_PAUSE_S:
            self._owner.call_later(RESTART_PAUSE_S, self._replace, thread, "died")
        else:
            self._replace(thread, "died")

    def _replace(self, thread: PoolThread, cause: str) -> None:
        if thread not in self._threads:
            return
        self._replaced[cause] += 1
        self._threads[self._threads.index(thread)] = self._start()
        self._find_answering()
        self._drain(thread)

    # -- watching -----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        for thread in [each for each in self._threads if not each.ended.done()]:
            thread.check()
            if thread.missed_checks >= MISSED_CHECKS_MAX and self.draining < POOL_THREADS_MAX:
                log.warning("pool.thread_blocked", pool=self.name, thread=thread.name, sends=thread.load)
                self._replace(thread, "blocked")
        self._find_answering()
        self._spread()
        busy = any(thread.load for thread in self._threads)
        self._timer = self._owner.call_later(POLL_INTERVAL_S, self._check) if busy else None

    def _find_answering(self) -> None:
        """New sends go to the threads that answer, if there are any."""
        self._answering = [thread for thread in self._threads if not thread.missed_checks] or self._threads

    def _spread(self) -> None:
        """Give what waits for a thread that is full, or does not answer, to threads with room."""
        room = sum([max(IN_FLIGHT_MAX - thread.load, 0) for thread in self._threads if not thread.missed_checks])
        for thread in self._threads:
            if room and thread.queue.size and (thread.missed_checks or thread.is_full):
                sends = thread.withdraw(room)
                room -= len(sends)
                for send in sends:
                    min(self._answering, key=_load).submit(send)


def _drain_order(thread: PoolThread) -> tuple[bool, int]:
    """Sort threads that do not answer last, as they are drained first, then those with the most load."""
    return (thread.missed_checks > 0, thread.load)
