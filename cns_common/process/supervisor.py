"""Supervises child processes: forks them, restarts them with backoff, reports crash loops, stops them in order.

It holds the listening sockets, so that callers of a process that died wait in their queue for its successor. Children
are forks: they share the memory of imported modules, and start without importing them again. So the supervisor has one
thread, no event loop and no connection.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

import msgspec

from cns_common.data_directory import EXIT_DATA_FULL
from cns_common.errors import UNREADABLE, StartError

STATUS_FILE = "processes.json"
"""A file in the data directory with the list of ChildStatus; `read_status` reads it."""
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 10.0
BACKOFF_READY_MAX_S = 1.0
"""The longest pause after a child that did its work: callers may wait for it."""
LOOP_CRASHES = 5
LOOP_WINDOW_S = 60.0
"""LOOP_CRASHES deaths within this time are a crash loop."""
UNSERVED_S_MAX = 5.0
"""Callers are refused when no process has served for this long and none is starting: balancers and clients then learn
it at once. After the next start they wait again. During a restart, processes that do not stop are killed instead."""
EXIT_CODES_FINAL = frozenset({2, *range(70, 80)} - {EXIT_DATA_FULL})
"""A child with one of these exit codes has reported a fault on stderr that only a person can mend, so it is not
restarted. A full disk may have room again."""
EXIT_CRASHED = 1
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
RESTART_SIGNAL = signal.SIGUSR2
"""Asks for a restart of everything by new code."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, RESTART_SIGNAL)


class ListeningSockets(Protocol):
    """The listening sockets, which children inherit."""

    def open(self) -> None:
        """Bind, and accept callers into the queue. Raises StartError."""

    def refuse(self) -> None:
        """Refuse callers until `open`, those in the queue, too."""

    def close(self) -> None:
        """Close the supervisor's sockets; children, and systemd, keep theirs."""


@dataclass(slots=True, kw_only=True)
class Child:
    """One supervised process. Children stop in the order of `stop_rank`.

    `prepare` imports in the supervisor what `work` needs. `work` is called in the child, with a function to call when
    the child does its work, and returns the exit code.
    """

    name: str
    work: Callable[[Callable[[], None]], int]
    prepare: Callable[[], None] = lambda: None
    stop_rank: int = 0
    serves: bool = False
    """Whether it accepts from the listening sockets."""
    restarts: int = 0
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=LOOP_CRASHES))
    pid: int = 0
    """0: it does not run."""
    due_s: float = 0.0
    """The time of its next start, if it does not run."""
    backoff_s: float = BACKOFF_FIRST_S
    is_ready: bool = False

    def in_crash_loop(self, now_s: float) -> bool:
        return len(self.deaths) == LOOP_CRASHES and now_s - self.deaths[0] < LOOP_WINDOW_S


class ChildStatus(msgspec.Struct, frozen=True):
    """The state of one child, for the health page."""

    name: str
    pid: int
    restarts: int
    crash_loop: bool
    ready: bool = False
    """It does its work."""


def read_status(path: Path) -> list[ChildStatus]:
    """The last states that a supervisor wrote; empty when none runs."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[ChildStatus])
    except (OSError, *UNREADABLE):
        return []


class Supervisor:
    """`run` returns the exit code of the whole. A child that has not ended `stop_s` after SIGTERM is killed."""

    def __init__(
        self,
        children: Sequence[Child],
        status_path: Path,
        stop_s: float,
        listeners: ListeningSockets,
        ends_with: int | None = None,
    ) -> None:
        """`ends_with` is a file descriptor at whose end the supervisor stops; what is read before is dropped."""
        self._children = children
        self._inputs = [] if ends_with is None else [ends_with]
        self._status_path = status_path
        self._stop_s = stop_s
        self._listeners = listeners
        self._told_to_stop: Sequence[Child] = ()
        self._serving = [child for child in children if child.serves]
        self._served_s = time.monotonic()
        """The time of the last death of a process that served."""
        self._wake_up: int
        self._ready: tuple[int, int]
        self._stopping = False
        self._is_replacing = False
        self._exit_code = 0
        self.restart_wanted = False
        """`run` returned for RESTART_SIGNAL: the children run, and the caller executes the program anew."""

    def run(self, predecessors: Mapping[str, int]) -> int:
        """Run until SIGTERM, SIGINT or a child's final exit code. The main thread calls it. When it returns for a
        restart, signals stay blocked: the next run gets them, in another program too.

        `predecessors` are the process ids of running children of the program that this one replaces, by name. They are
        stopped when the modules of their successors are imported.
        """
        self.restart_wanted = False
        with self._signals():
            if predecessors:
                self._replace(predecessors)
            self._reap()
            while not self._stopping and not self.restart_wanted:
                self._wait(self._step(time.monotonic()))
                self._reap()
            if not self._stopping:
                return 0
            if not self._exit_code:
                self._listeners.close()  # children that serve do so until they have stopped
            self._stop_all()
            if self._exit_code:
                self._listeners.refuse()  # a person must act
            self.restart_wanted = False
        with contextlib.suppress(OSError):
            self._status_path.unlink()
        return self._exit_code

    def pids(self) -> dict[str, int]:
        """The process ids of the children that run, by name."""
        return {child.name: child.pid for child in self._children if child.pid}

    def _step(self, now_s: float) -> float | None:
        """Start the children that are due. Returns the seconds until there is something to do; None: until a signal."""
        for child in self._children:
            if not self._stopping and not child.pid and child.due_s <= now_s:
                self._start(child, now_s)
        times_s = [child.due_s for child in self._children if not child.pid]
        if not any(child.pid for child in self._serving):
            closes_s = self._served_s + UNSERVED_S_MAX
            if closes_s <= now_s:
                self._listeners.refuse()
            else:
                times_s.append(closes_s)
        return max(min(times_s) - now_s, 0.0) if times_s else None

    # -- children -----------------------------------------------------------------------------------------------------

    def _replace(self, predecessors: Mapping[str, int]) -> None:
        ours = {child.name: child for child in self._children}
        gone = [Child(name=name, work=_no_work) for name in predecessors.keys() - ours.keys()]
        for child in self._children:
            child.prepare()
        self._children, children = [*self._children, *gone], self._children
        for child in self._children:
            child.pid = predecessors.get(child.name, 0)
        self._is_replacing = True
        self._stop_all()
        self._is_replacing = False
        self._children = children

    def _stop_all(self) -> None:
        for rank in sorted({child.stop_rank for child in self._children}):
            self._stop([child for child in self._children if child.stop_rank == rank])

    def _start(self, child: Child, now_s: float) -> None:
        try:
            child.prepare()
            if child.serves:
                self._listeners.open()
        except StartError as error:
            _tell(str(error))
            self._ended(child, EXIT_CRASHED)  # it was right when this program began, and may be again
            return
        child.is_ready = False
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        supervisor = os.getpid()
        try:
            child.pid = os.fork()
            if not child.pid:
                self._run(child, supervisor)
        except OSError as error:
            _tell(f"cannot start {child.name}: {error.strerror}")
            self._ended(child, EXIT_CRASHED)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        self._write_status()

    def _run(self, child: Child, supervisor: int) -> NoReturn:
        """Be the child. It never returns into the frames of the supervisor."""
        code = EXIT_CRASHED
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            _die_with(supervisor, f"cns-{child.name}")
            code = child.work(lambda: self._tell_ready(child))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else EXIT_CRASHED
        except BaseException:  # noqa: BLE001  # as the interpreter at the end of a process: a bug, or Ctrl-C
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                logging.shutdown()
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        """Note which children have ended."""
        for child in self._children:
            if child.pid and (code := _exit_code(child.pid, os.WNOHANG)) is not None:
                child.pid = 0
                if child.serves and child.is_ready:
                    self._served_s = time.monotonic()
                did_work, child.is_ready = child.is_ready, False
                if not self._stopping and child not in self._told_to_stop:
                    self._ended(child, code, did_work=did_work)

    def _ended(self, child: Child, code: int, *, did_work: bool = False) -> None:
        if code in EXIT_CODES_FINAL:
            self._exit_code = code
            self._stopping = True
            return
        now_s = time.monotonic()
        child.restarts += 1
        child.deaths.append(now_s)
        if did_work:
            in_loop = child.in_crash_loop(now_s)
            child.backoff_s = min(child.backoff_s, BACKOFF_READY_MAX_S) if in_loop else BACKOFF_FIRST_S
        _tell(f"{child.name} ended with {code}; starting it again in {child.backoff_s:.1f} s")
        child.due_s = now_s + child.backoff_s
        child.backoff_s = min(child.backoff_s * 2, BACKOFF_MAX_S)
        self._write_status()

    def _stop(self, children: Sequence[Child]) -> None:
        """End these children, the last ones by force."""
        self._told_to_stop = children
        _send(signal.SIGTERM, children)
        began_s = time.monotonic()
        self._reap()
        while any(child.pid for child in children) and (left_s := self._give_up_s(began_s) - time.monotonic()) > 0:
            self._wait(left_s)
            self._reap()
        for child in children:
            if child.pid:
                _tell(f"{child.name} did not stop within {time.monotonic() - began_s:.0f} s and is killed")
                _send(signal.SIGKILL, [child])
                _exit_code(child.pid, 0)
                child.pid = 0
        self._told_to_stop = ()

    def _give_up_s(self, began_s: float) -> float:
        """Return the time at which children that do not stop are killed: earlier when callers wait for new ones."""
        if self._is_replacing and not any(child.pid for child in self._serving):
            return min(began_s + self._stop_s, max(began_s, self._served_s) + UNSERVED_S_MAX)
        return began_s + self._stop_s

    def _write_status(self) -> None:
        now_s = time.monotonic()
        statuses = [
            ChildStatus(child.name, child.pid, child.restarts, child.in_crash_loop(now_s), child.is_ready)
            for child in self._children
        ]
        scratch = self._status_path.with_suffix(".new")
        with contextlib.suppress(OSError):  # a full disk must not end the supervisor
            scratch.write_bytes(msgspec.json.encode(statuses))
            scratch.replace(self._status_path)

    # -- signals ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Have signals end `_wait`."""
        self._wake_up, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ready = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        try:
            yield
        finally:
            if self.restart_wanted:
                signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
                signal.signal(RESTART_SIGNAL, signal.SIG_IGN)  # one restart for all that ask meanwhile
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                if not (self.restart_wanted and number == RESTART_SIGNAL):
                    signal.signal(number, handler)
            for descriptor in (self._wake_up, write_end, *self._ready):
                os.close(descriptor)

    def _on_signal(self, number: int, _frame: object) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self._stopping = True
        elif number == RESTART_SIGNAL and not self._stopping:
            self.restart_wanted = True

    def _wait(self, seconds: float | None) -> None:
        """Wait for a signal, a word of a child or the end of the input, or so long."""
        for readable in select.select([self._wake_up, self._ready[0], *self._inputs], [], [], seconds)[0]:
            words = os.read(readable, 4_096)
            if not words:
                self._inputs, self._stopping = [], True
            elif readable == self._ready[0]:
                for number in words:
                    self._children[number].is_ready = True
                self._write_status()

    def _tell_ready(self, child: Child) -> None:
        """Called in the child."""
        os.write(self._ready[1], bytes([self._children.index(child)]))


def _no_work(_ready: Callable[[], None]) -> int:
    return 0


def _exit_code(pid: int, options: int) -> int | None:
    """The exit code of a child, negative for a signal; None while it runs."""
    ended, status = os.waitpid(pid, options)
    return os.waitstatus_to_exitcode(status) if ended else None


def _send(number: signal.Signals, children: Sequence[Child]) -> None:
    for child in children:
        if child.pid:
            os.kill(child.pid, number)  # it is not reaped yet, so the number is still its own


def _tell(text: str) -> None:
    """Tell the person who started it: the supervisor has no logger."""
    print(f"cns: {text}", file=sys.stderr, flush=True)  # noqa: T201  # for a person


def _die_with(supervisor: int, name: str) -> None:
    """On Linux, end the child with its supervisor, however that ends: the next start finds the data unlocked."""
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_NAME, name.encode()[:15])
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != supervisor:  # it ended before prctl; in a container it is process 1
            os._exit(1)
