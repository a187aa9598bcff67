"""Delivery pools: named threads, each with an event loop and many sends in flight.

Two of them run, `delivery` for first attempts and `redelivery` for all others, so that a storm of retries never takes
a first attempt's place. A thread that one slow thing blocks leaves the others alone: while a pool has sends, it looks
every `LOOK_S` whether its threads answer, gives what waits for one that does not to those that do, and lets another
take its place when it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
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
from workers.delivery.pool.fair_queue import Prepare, Send
from workers.delivery.pool.thread import IN_FLIGHT_MAX, PoolThread

LOOK_S = 0.1
LOOKS_BLOCKED = 10
"""A thread that is silent for so many has its place taken."""
WAITING_MAX = 2_000
"""Sends that wait for threads before more jobs are taken: those stay in their queue, where tenants take turns, too."""
RESTART_PAUSE_S = 1.0
"""Before the place of a thread is taken that died younger than that."""

log = structlog.get_logger(__name__)

_load = attrgetter("load")


class DeliveryPool:
    """Sends what it is given from the thread that has least to do; results come back to the loop that made it."""

    def __init__(self, name: str, threads: int, make_sender: Callable[[], Sender[Request]]) -> None:
        self.name = name
        self._make_sender = make_sender
        self._asking = asyncio.get_running_loop()
        self._numbers = count(1)
        self._threads: list[PoolThread] = []
        self._leaving: set[PoolThread] = set()
        self._choice: list[PoolThread] = []
        self._watch: asyncio.TimerHandle | None = None
        self._replaced = {"blocked": 0, "died": 0}
        self._room = asyncio.Event()
        self.resize(threads)

    @property
    def size(self) -> int:
        return len(self._threads)

    @property
    def leaving(self) -> int:
        """Threads that take nothing new and end what they have."""
        return len(self._leaving)

    @property
    def silent(self) -> int:
        """Threads that do not answer: something blocks them."""
        return sum(thread.silent > 0 for thread in self._threads)

    @property
    def in_flight(self) -> int:
        return sum(thread.load - thread.waiting for thread in (*self._threads, *self._leaving))

    @property
    def waiting(self) -> int:
        """Sends for which no thread has room."""
        return sum(thread.waiting for thread in (*self._threads, *self._leaving))

    def samples(self) -> list[Sample]:
        name = self.name
        return [
            POOL_THREADS.sample(self.size, pool=name),
            POOL_THREADS_DRAINING.sample(self.leaving, pool=name),
            POOL_THREADS_BLOCKED.sample(self.silent, pool=name),
            POOL_SENDS_IN_FLIGHT.sample(self.in_flight, pool=name),
            POOL_SENDS_WAITING.sample(self.waiting, pool=name),
            *[POOL_THREADS_REPLACED.sample(n, pool=name, cause=cause) for cause, n in self._replaced.items()],
        ]

    def send(self, prepare: Prepare, group: str) -> asyncio.Future[Outcome]:
        """Groups take turns to begin. Must be called on the loop that made the pool."""
        future: asyncio.Future[Outcome] = self._asking.create_future()
        thread: PoolThread = min(self._choice, key=_load)
        thread.take(Send(prepare, future, group))
        if self._watch is None:
            self._watch = self._asking.call_later(LOOK_S, self._look)
        return future

    async def room(self) -> int:
        """How many more sends may be asked for; waits until there is one."""
        while (waiting := self.waiting) >= WAITING_MAX:
            self._room.clear()
            await self._room.wait()
        return WAITING_MAX - waiting

    def resize(self, threads: int) -> None:
        """Add threads, or let some end what they have under way, and then themselves. What waits for those is sent by
        the others."""
        while len(self._threads) < threads:
            self._threads.append(self._start())
        leavers = sorted(self._threads, key=_most_to_do)[threads:]
        for thread in leavers:
            self._threads.remove(thread)
        self._choose()
        for thread in leavers:
            self._let_go(thread)
        self._spread()

    async def close(self, grace_s: float) -> int:
        """Wait for what is under way; returns how many sends did not end in time."""
        if self._watch is not None:
            self._watch.cancel()
        self._spread()
        threads = [*[thread for thread in self._threads if not thread.ended.done()], *self._leaving]
        for thread in threads:
            thread.leave()
        self._threads, self._choice = [], []
        if threads:
            await asyncio.wait([thread.ended for thread in threads], timeout=grace_s)
        return sum(thread.load for thread in threads)

    # -- threads that come and go -------------------------------------------------------------------------------------

    def _start(self) -> PoolThread:
        thread = PoolThread(f"{self.name}-{next(self._numbers)}", self._make_sender, self._room.set)
        thread.ended.add_done_callback(lambda ended: self._ended(thread, ended.result()))
        return thread

    def _let_go(self, thread: PoolThread) -> None:
        """It is no thread of the pool any more, but may have sends under way."""
        if not thread.ended.done():
            self._leaving.add(thread)
            thread.leave()
        for send in thread.give_up(thread.waiting):
            min(self._choice, key=_load).take(send)

    def _ended(self, thread: PoolThread, error: BaseException | None) -> None:
        self._leaving.discard(thread)
        if error is not None:
            log.error("pool.thread_died", pool=self.name, thread=thread.name, exc_info=error)
        if thread not in self._threads:
            return
        thread.silent = 1  # for ever: it answers nothing
        self._choose()
        self._spread()
        if self._asking.time() - thread.started_s < RESTART_PAUSE_S:
            self._asking.call_later(RESTART_PAUSE_S, self._replace, thread, "died")
        else:
            self._replace(thread, "died")

    def _replace(self, thread: PoolThread, cause: str) -> None:
        if thread not in self._threads:
            return
        self._replaced[cause] += 1
        self._threads[self._threads.index(thread)] = self._start()
        self._choose()
        self._let_go(thread)

    # -- watching -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        for thread in [each for each in self._threads if not each.ended.done()]:
            thread.look()
            if thread.silent >= LOOKS_BLOCKED and self.leaving < POOL_THREADS_MAX:
                log.warning("pool.thread_blocked", pool=self.name, thread=thread.name, sends=thread.load)
                self._replace(thread, "blocked")
        self._choose()
        self._spread()
        busy = any(thread.load for thread in self._threads)
        self._watch = self._asking.call_later(LOOK_S, self._look) if busy else None

    def _choose(self) -> None:
        """New sends go to threads that answer, if there are any."""
        self._choice = [thread for thread in self._threads if not thread.silent] or self._threads

    def _spread(self) -> None:
        """What waits for a thread that is full, or that does not answer, begins where there is room."""
        room = sum(max(IN_FLIGHT_MAX - thread.load, 0) for thread in self._threads if not thread.silent)
        for thread in self._threads:
            if room and thread.waiting and (thread.silent or thread.full):
                sends = thread.give_up(room)
                room -= len(sends)
                for send in sends:
                    min(self._choice, key=_load).take(send)


def _most_to_do(thread: PoolThread) -> tuple[bool, int]:
    """Last those that do not answer: they leave first, then those that have most under way, so that room stays."""
    return (thread.silent > 0, thread.load)


__all__: Sequence[str] = ("DeliveryPool", "Prepare")
