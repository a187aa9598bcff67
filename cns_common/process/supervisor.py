"""Supervises child processes: starts them, restarts them with backoff, reports crash loops, stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from cns_common.data_directory import EXIT_DATA_FULL
from cns_common.errors import UNREADABLE

STATUS_FILE = "processes.json"
"""A file in the data directory with the list of ChildStatus; `read_status` reads it."""
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 10.0
LOOP_CRASHES = 5
LOOP_WINDOW_S = 60.0
"""LOOP_CRASHES deaths within this time are a crash loop."""
EXIT_CODES_FINAL = frozenset({2, *range(70, 80)} - {EXIT_DATA_FULL})
"""A child with one of these exit codes has reported a fault on stderr that only a person can mend, so it is not
restarted. A full disk may have room again."""
_PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class Child:
    """One supervised process. Children stop in the order of `stop_rank`."""

    name: str
    command: Sequence[str]
    stop_rank: int
    restarts: int = 0
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=LOOP_CRASHES))
    process: asyncio.subprocess.Process | None = None

    def in_crash_loop(self, now_s: float) -> bool:
        return len(self.deaths) == LOOP_CRASHES and now_s - self.deaths[0] < LOOP_WINDOW_S


class ChildStatus(msgspec.Struct, frozen=True):
    """The state of one child, for the health page."""

    name: str
    pid: int
    restarts: int
    crash_loop: bool


def read_status(path: Path) -> list[ChildStatus]:
    """The last states that a supervisor wrote; empty when none runs."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[ChildStatus])
    except (OSError, *UNREADABLE):
        return []


class Supervisor:
    """`run` returns the exit code of the whole. A child that has not ended `stop_s` after SIGTERM is killed."""

    def __init__(self, children: Sequence[Child], status_path: Path, stop_s: float) -> None:
        self._children = children
        self._status_path = status_path
        self._stop_s = stop_s
        self._stop = asyncio.Event()
        self._exit_code = 0

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        supervised = [asyncio.create_task(self._supervise(child), name=child.name) for child in self._children]
        await self._stop.wait()
        for rank in sorted({child.stop_rank for child in self._children}):
            await asyncio.gather(*(self._stop_child(child) for child in self._children if child.stop_rank == rank))
        for task in supervised:
            task.cancel()
        await asyncio.gather(*supervised, return_exceptions=True)
        with contextlib.suppress(OSError):
            self._status_path.unlink()
        return self._exit_code

    async def _supervise(self, child: Child) -> None:
        backoff_s = BACKOFF_FIRST_S
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            started_s = loop.time()
            child.process = await asyncio.create_subprocess_exec(
                *child.command, preexec_fn=partial(_die_with, os.getpid())
            )
            self._write_status()
            code = await child.process.wait()
            if self._stop.is_set():
                return
            if code in EXIT_CODES_FINAL:
                self._exit_code = code
                self._stop.set()
                return
            child.restarts += 1
            child.deaths.append(loop.time())
            if loop.time() - started_s > BACKOFF_MAX_S:
                backoff_s = BACKOFF_FIRST_S
            print(f"cns: {child.name} ended with {code}; starting it again in {backoff_s:.1f} s", file=sys.stderr)  # noqa: T201  # the supervisor imports no logger
            self._write_status()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), backoff_s)
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)

    async def _stop_child(self, child: Child) -> None:
        process = child.process
        if process is None or process.returncode is not None:
            return
        _send(signal.SIGTERM, process)
        try:
            await asyncio.wait_for(process.wait(), self._stop_s)
        except TimeoutError:
            print(f"cns: {child.name} did not stop within {self._stop_s:.0f} s and is killed", file=sys.stderr)  # noqa: T201  # as above
            _send(signal.SIGKILL, process)
            await process.wait()

    def _write_status(self) -> None:
        now_s = asyncio.get_running_loop().time()
        statuses = [
            ChildStatus(
                child.name, child.process.pid if child.process else 0, child.restarts, child.in_crash_loop(now_s)
            )
            for child in self._children
        ]
        scratch = self._status_path.with_suffix(".new")
        with contextlib.suppress(OSError):  # a full disk must not end the supervisor
            scratch.write_bytes(msgspec.json.encode(statuses))
            scratch.replace(self._status_path)


def _send(number: signal.Signals, process: asyncio.subprocess.Process) -> None:
    """The process's own methods are not used: they reap a child that has just ended, and asyncio then misses its exit
    code and logs an unknown child."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)


def _die_with(supervisor: int) -> None:
    """On Linux, end the child with its supervisor, however that ends: the next start finds the data unlocked."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != supervisor:  # it ended before prctl; in a container it is process 1
            os._exit(1)
