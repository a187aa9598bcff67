"""One thread of a delivery pool: an event loop with many sends in flight, and a queue of those that wait for it.

The owner, one event loop, makes the thread and submits sends. A send stays in the queue until the moment it starts, so
that sends that wait for a thread that is full, blocked, dead or draining can be given to another, and none is sent by
two. Few sends start in one turn of the thread's loop, so that answers are read, and late sends start, during a burst.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog
import uvloop

from cns.endpoints.contract import Request, Sender
from cns.endpoints.outcome import Cause, Failed, Outcome
from cns_workers.delivery.pool.fair_queue import FairQueue, PoolSend

IN_FLIGHT_MAX = 1_000
"""Sends in flight in one thread; more wait in its queue."""
STARTS_A_TURN = 16
"""Sends that start in one turn of the loop. Each takes 0.1 ms of a core, and up to 0.7 ms more if it makes a
signature."""
LOOKUPS_MAX = 1_000
"""Name lookups at a time, each in a thread of its own: more than sends that may hang, so that no name server delays
another."""
THREAD_ENDED = Failed(Cause.WORKER, "the thread that sent it has ended", 0)
"""The message may have arrived. It is tried again, as after a connection that broke."""

log = structlog.get_logger(__name__)


class PoolThread:
    """`load` is written by the owner only, `_started` by the thread only; each reads the other's."""

    def __init__(self, name: str, make_sender: Callable[[], Sender[Request]], on_ended: Callable[[], None]) -> None:
        """`on_ended` is called on the owner when sends have ended."""
        self.name = name
        self.load = 0
        """Sends that wait or are in flight."""
        self.queue = FairQueue()
        self.missed_checks = 0
        """Checks in a row in which it has neither answered nor started a send."""
        self._make_sender = make_sender
        self._on_ended = on_ended
        self._owner = asyncio.get_running_loop()
        self._loop = uvloop.new_event_loop()
        self._wake = asyncio.Event()
        self._wake_sent = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight: set[asyncio.Future[Outcome]] = set()
        self._results: list[tuple[asyncio.Future[Outcome], Outcome | BaseException]] = []
        self._results_lock = threading.Lock()
        self._draining = False
        self._started = 0
        self._started_at_check = 0
        self._checks_asked = 0
        self._checks_answered = 0
        self.created_s = self._owner.time()
        self.ended: asyncio.Future[BaseException | None] = self._owner.create_future()
        """Done with the error that ended the thread, or None after `drain`."""
        threading.Thread(target=self._main, name=name, daemon=True).start()

    # -- on the owner's loop ------------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        return self.load - self.queue.size >= IN_FLIGHT_MAX

    def submit(self, send: PoolSend) -> None:
        self.load += 1
        self.queue.put(send)
        if not self._wake_sent:  # the thread clears this before it looks into the queue, so no send is left there
            self._wake_sent = True
            self._call(self._wake.set)

    def withdraw(self, n: int) -> list[PoolSend]:
        """Take back up to `n` sends that have not started, for other threads."""
        sends: list[PoolSend] = []
        while len(sends) < n and (send := self.queue.take()) is not None:
            sends.append(send)
        self.load -= len(sends)
        return sends

    def check(self) -> None:
        """Ask whether its loop turns, and whether it answered the last check. A thread that starts one send after
        another, each with a signature to make, may have no time for answers."""
        answered = self._checks_answered == self._checks_asked
        if answered or self._started != self._started_at_check:
            self.missed_checks = 0
        else:
            self.missed_checks += 1
        self._started_at_check = self._started
        if answered and self.load:
            self._checks_asked += 1
            self._call(self._answer_check)

    def drain(self) -> None:
        """End the sends in the queue and in flight, and then the thread."""
        self._draining = True
        self._call(self._wake.set)

    def _call(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended; `ended` makes the pool take care of the queue
            self._loop.call_soon_threadsafe(function)

    def _hand_over_results(self) -> None:
        with self._results_lock:
            results, self._results = self._results, []
        self.load -= len(results)
        for future, result in results:
            if future.done():
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)
        self._on_ended()

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _main(self) -> None:
        error: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as failure:  # noqa: BLE001  # whatever ends the thread, its sends get an outcome
            error = failure
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.exception()  # it is `error` or follows from it; unread, it would be logged when the task is freed
        for future in list(self._in_flight):
            self._end(future, THREAD_ENDED)
        with contextlib.suppress(RuntimeError):  # the owner's loop has ended
            self._owner.call_soon_threadsafe(self.ended.set_result, error)

    async def _serve(self) -> None:
        self._loop.set_default_executor(ThreadPoolExecutor(LOOKUPS_MAX, f"{self.name}-lookup"))
        sender = self._make_sender()
        try:
            while not (self._draining and not self.queue.size):
                await self._wake.wait()
                self._wake.clear()
                self._wake_sent = False
                await self._start_some(sender)
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            await sender.close()

    async def _start_some(self, sender: Sender[Request]) -> None:
        while (n := min(self.queue.size, IN_FLIGHT_MAX - len(self._tasks), STARTS_A_TURN)) > 0:
            for _ in range(n):
                task = self._loop.create_task(self._send(sender))
                self._tasks.add(task)
                task.add_done_callback(self._discard)
            await asyncio.sleep(0)  # each of them takes a send from the queue

    async def _send(self, sender: Sender[Request]) -> None:
        send = self.queue.take()
        if send is None:  # it was withdrawn
            return
        self._started += 1
        self._in_flight.add(send.outcome)
        result: Outcome | BaseException = THREAD_ENDED
        try:
            request = send.make_request()
        except Exception as error:  # noqa: BLE001  # handed to the caller, who logs it
            result = error
        else:
            try:
                result = await sender.send(request)
            except Exception as error:  # a defect of ours: only this attempt of the job fails
                log.error("send.crashed", pool_thread=self.name, exc_info=error)
                result = Failed(Cause.WORKER, f"{type(error).__name__}: {error}", 0)
        finally:
            self._end(send.outcome, result)

    def _discard(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self.queue.size or self._draining:  # only now there is room; after the last task nothing else wakes the loop
            self._wake.set()

    def _end(self, future: asyncio.Future[Outcome], result: Outcome | BaseException) -> None:
        self._in_flight.discard(future)
        with self._results_lock:
            first = not self._results
            self._results.append((future, result))
        if first:
            with contextlib.suppress(RuntimeError):  # the owner's loop has ended
                self._owner.call_soon_threadsafe(self._hand_over_results)

    def _answer_check(self) -> None:
        self._checks_answered = self._checks_asked
