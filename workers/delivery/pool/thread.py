"""One thread of a delivery pool: an event loop with many sends under way, and an inbox of those that wait for it.

One loop, the asking one, makes it and gives it sends. A send is in the inbox until the very moment it begins, so that
what waits for a thread that is full, blocked, dead or leaving can be given to another, and is never sent by two. Few
begin in one turn of the thread's loop, so that answers are read, and who comes late begins, in the midst of a burst.
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
from workers.delivery.pool.fair_queue import Inbox, Send

IN_FLIGHT_MAX = 1_000
"""Sends one thread has under way; more wait in its inbox."""
BEGUN_A_TURN = 16
"""A send takes 0.1 ms of a core, and up to 0.7 ms more where it has a signature to make."""

LOOKUPS_MAX = 1_000
"""Of names, each in a thread while it lasts: more than sends that may hang, so that no name server holds up another."""

BROKEN_OFF = Failed(Cause.WORKER, "the thread that sent it has ended", 0)
"""It may have arrived: it is tried again, as after a connection that broke."""


log = structlog.get_logger(__name__)


class PoolThread:
    """`load` is of the asking loop only, `begun` of the thread only; each reads the other's. `ended_some` is called
    there when sends have ended."""

    def __init__(self, name: str, make_sender: Callable[[], Sender[Request]], ended_some: Callable[[], None]) -> None:
        self._make_sender = make_sender
        self._ended_some = ended_some
        self._asking = asyncio.get_running_loop()
        self._loop = uvloop.new_event_loop()
        self._wake = asyncio.Event()
        self._wake_sent = False
        self._inbox = Inbox()
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: set[asyncio.Future[Outcome]] = set()
        self._done: list[tuple[asyncio.Future[Outcome], Outcome | BaseException]] = []
        self._done_lock = threading.Lock()
        self._leaving = False
        self._begun = 0
        self._begun_seen = 0
        self._asked = 0
        self._answered = 0
        self.load = 0
        self.silent = 0
        """How many looks in a row it has neither answered nor begun a send."""
        self.started_s = self._asking.time()
        self.ended: asyncio.Future[BaseException | None] = self._asking.create_future()
        """By what it ended before it was told to leave."""
        self.name = name
        threading.Thread(target=self._main, name=name, daemon=True).start()

    # -- on the asking loop -------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        return len(self._inbox)

    @property
    def full(self) -> bool:
        return self.load - len(self._inbox) >= IN_FLIGHT_MAX

    def take(self, send: Send) -> None:
        self.load += 1
        self._inbox.put(send)
        if not self._wake_sent:  # the thread clears this before it looks into the inbox, so nothing is left lying
            self._wake_sent = True
            self._call(self._wake.set)

    def give_up(self, n: int) -> list[Send]:
        """Up to `n` sends that have not begun, for other threads."""
        given: list[Send] = []
        while len(given) < n and (send := self._inbox.take()) is not None:
            given.append(send)
        self.load -= len(given)
        return given

    def look(self) -> None:
        """Ask whether its loop turns, and see whether it answered when it was last asked. A thread that begins one send
        after another, each with a signature to make, may have no time for answers."""
        if self._answered == self._asked or self._begun != self._begun_seen:
            self.silent = 0
        else:
            self.silent += 1
        self._begun_seen = self._begun
        if self._answered == self._asked and self.load:
            self._asked += 1
            self._call(self._answer)

    def leave(self) -> None:
        """End what is in the inbox and under way, and then the thread."""
        self._leaving = True
        self._call(self._wake.set)

    def _call(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended; whoever hears of that takes care of the inbox
            self._loop.call_soon_threadsafe(function)

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
        self._ended_some()

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
                task.exception()  # it is `error`, or came of it; a task that nobody asks says so when it is freed
        for future in list(self._under_way):
            self._end(future, BROKEN_OFF)
        with contextlib.suppress(RuntimeError):  # the asking loop has ended
            self._asking.call_soon_threadsafe(self.ended.set_result, error)

    async def _serve(self) -> None:
        self._loop.set_default_executor(ThreadPoolExecutor(LOOKUPS_MAX, f"{self.name}-lookup"))
        sender = self._make_sender()
        try:
            while not (self._leaving and not self._inbox):
                await self._wake.wait()
                self._wake.clear()
                self._wake_sent = False
                await self._begin(sender)
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            await sender.close()

    async def _begin(self, sender: Sender[Request]) -> None:
        while (n := min(len(self._inbox), IN_FLIGHT_MAX - len(self._tasks), BEGUN_A_TURN)) > 0:
            for _ in range(n):
                task = self._loop.create_task(self._attempt(sender))
                self._tasks.add(task)
                task.add_done_callback(self._left)
            await asyncio.sleep(0)  # each of them takes a send from the inbox

    async def _attempt(self, sender: Sender[Request]) -> None:
        send = self._inbox.take()
        if send is None:  # it was given up
            return
        prepare, future, _ = send
        self._begun += 1
        self._under_way.add(future)
        result: Outcome | BaseException = BROKEN_OFF
        try:
            request = prepare()
        except Exception as error:  # noqa: BLE001  # handed to the caller, who logs it
            result = error
        else:
            result = await self._send(sender, request)
        finally:
            self._end(future, result)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._inbox or self._leaving:  # not before there is room: when the last of them ended, nobody else says so
            self._wake.set()

    async def _send(self, sender: Sender[Request], request: Request) -> Outcome:
        """A sender that fails by our own fault costs this attempt, and none of the others of its job."""
        try:
            return await sender.send(request)
        except Exception as error:  # a sender of ours that is broken: logged, and tried again as any failure
            log.error("send.crashed", pool_thread=self.name, exc_info=error)
            return Failed(Cause.WORKER, f"{type(error).__name__}: {error}", 0)

    def _end(self, future: asyncio.Future[Outcome], result: Outcome | BaseException) -> None:
        self._under_way.discard(future)
        with self._done_lock:
            first = not self._done
            self._done.append((future, result))
        if first:
            with contextlib.suppress(RuntimeError):  # the asking loop has ended
                self._asking.call_soon_threadsafe(self._hand_over)

    def _answer(self) -> None:
        self._answered = self._asked
