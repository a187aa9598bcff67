"""Delivery pools: named threads, each with an event loop and many sends in flight.

Two of them run, `delivery` for first attempts and `redelivery` for all others, so that a storm of retries never takes
a first attempt's place. A thread that one slow thing blocks leaves the others alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count

import uvloop

from cns.endpoints.outcome import Outcome
from cns.endpoints.senders import Request, Sender

IN_FLIGHT_MAX = 1_000
"""Sends one thread has under way; more wait in its inbox."""


Prepare = Callable[[], Request]
"""Makes the request in the pool's thread: signing belongs to the send, not to the loop that settles."""


class DeliveryPool:
    """Sends what it is given from the thread that has least to do; results come back to the loop that asked."""

    def __init__(self, name: str, threads: int, make_sender: Callable[[], Sender[Request]]) -> None:
        self.name = name
        self._make_sender = make_sender
        self._numbers = count(1)
        self._threads: list[_PoolThread] = []
        self.resize(threads)

    @property
    def size(self) -> int:
        return len(self._threads)

    @property
    def in_flight(self) -> int:
        return sum(thread.load - thread.waiting for thread in self._threads)

    @property
    def waiting(self) -> int:
        """Sends for which no thread has room."""
        return sum(thread.waiting for thread in self._threads)

    def resize(self, threads: int) -> None:
        """Add threads, or let the newest finish what they have and end."""
        while len(self._threads) < threads:
            self._threads.append(_PoolThread(f"{self.name}-{next(self._numbers)}", self._make_sender))
        while len(self._threads) > threads:
            self._threads.pop().finish()

    def send(self, prepare: Prepare) -> asyncio.Future[Outcome]:
        """Must be called on an event loop; the future is that loop's."""
        thread = min(self._threads, key=_load)
        return thread.send(prepare)

    async def close(self, grace_s: float) -> int:
        """Wait for what is under way; returns how many sends did not end in time."""
        threads, self._threads = self._threads, []
        for thread in threads:
            thread.finish()
        left = 0
        for thread in threads:
            await asyncio.to_thread(thread.join, grace_s)
            left += thread.load
        return left


class _PoolThread:
    def __init__(self, name: str, make_sender: Callable[[], Sender[Request]]) -> None:
        self._make_sender = make_sender
        self._inbox: deque[tuple[Prepare, asyncio.Future[Outcome]]] = deque()
        self._done: list[tuple[asyncio.Future[Outcome], Outcome | BaseException]] = []
        self._done_lock = threading.Lock()
        self._ready = threading.Event()
        self._wake_sent = False
        self._finish = False
        self.load = 0  # changed by the asking loop only
        self._loop: asyncio.AbstractEventLoop
        self._wake: asyncio.Event
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def send(self, prepare: Prepare) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.load += 1
        self._inbox.append((prepare, future))
        if not self._wake_sent:  # the thread clears this before it empties the inbox, so nothing is left lying
            self._wake_sent = True
            self._loop.call_soon_threadsafe(self._wake.set)
        return future

    @property
    def waiting(self) -> int:
        return len(self._inbox)

    def finish(self) -> None:
        self._finish = True
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake.set)

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        sender = self._make_sender()
        under_way: set[asyncio.Task[None]] = set()
        self._ready.set()
        while not (self._finish and not self._inbox):
            await self._wake.wait()
            self._wake.clear()
            self._wake_sent = False
            while self._inbox and len(under_way) < IN_FLIGHT_MAX:
                task = asyncio.create_task(self._attempt(sender, *self._inbox.popleft()))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
        if under_way:
            await asyncio.wait(under_way)
        await sender.close()

    async def _attempt(self, sender: Sender[Request], prepare: Prepare, future: asyncio.Future[Outcome]) -> None:
        try:
            result: Outcome | BaseException = await sender.send(prepare())
        except Exception as error:  # noqa: BLE001  # handed to the caller, who logs it
            result = error
        with self._done_lock:
            first = not self._done
            self._done.append((future, result))
        if first:
            with contextlib.suppress(RuntimeError):  # the asking loop has ended
                future.get_loop().call_soon_threadsafe(self._hand_over)
        if self._inbox:
            self._wake.set()

    def _hand_over(self) -> None:
        with self._done_lock:
            done, self._done = self._done, []
        self.load -= len(done)
        for future, result in done:
            if future.done():
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)


def _load(thread: _PoolThread) -> int:
    return thread.load


__all__: Sequence[str] = ("DeliveryPool", "Prepare")
