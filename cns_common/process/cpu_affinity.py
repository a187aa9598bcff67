"""Keeps a process on one core at a time, one on which others do little (ADR 0011).

Threads of one interpreter take turns. On several cores each turn moves the interpreter's lock, and all that is looked
at under it, from one core's caches into another's: without that a fan-out takes a third less CPU.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import structlog

POLL_INTERVAL_S = 1.0
BEARABLE_S = 0.25
"""Of each second: what others may do on our core before we look for another."""
WORTH_S = 0.1
"""By so much less must be done on another core."""

_THREADS = Path("/proc/self/task")
_STAT = Path("/proc/stat")
_IDLE_FIELDS = (3, 4)  # idle, and waiting for disks
_TIME_FIELDS = 8  # what comes after them is counted among these, too

log = structlog.get_logger(__name__)


@contextlib.contextmanager
def pinned_to_one_core(*, wanted: bool) -> Iterator[None]:
    """On a running loop; of all threads of the process. Does nothing where there is only one core, or where the system
    does not let us."""
    if not wanted or not _STAT.exists() or len(os.sched_getaffinity(0)) == 1:
        yield
        return
    placing = _CoreSelector(os.sched_getaffinity(0))
    try:
        yield
    finally:
        placing.stop()


class _CoreSelector:
    def __init__(self, cores: set[int]) -> None:
        self._cores = cores
        self._loop = asyncio.get_running_loop()
        self._busy_s = busy_s()
        self._own_s = time.process_time()
        self._core = -1
        self._timer: asyncio.TimerHandle | None = None
        self._move(_one_of(cores))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with contextlib.suppress(OSError):
            _place(self._cores)

    def _move(self, core: int) -> None:
        """Where that is refused, or what we may use has changed, the threads are left where the system puts them."""
        self._core, self._timer = core, None
        try:
            _place({core})
        except OSError as error:
            log.warning("process.cpu_pinning_failed", core=core, error=str(error))
        else:
            self._timer = self._loop.call_later(POLL_INTERVAL_S, self._look)

    def _look(self) -> None:
        now_s, own_s = busy_s(), time.process_time()
        done_s = {core: now_s[core] - self._busy_s.get(core, 0.0) for core in self._cores & now_s.keys()}
        better = better_cores(self._core, own_s - self._own_s, done_s)
        self._busy_s, self._own_s = now_s, own_s
        if better and _coin():
            self._move(_one_of(better))
        else:
            self._timer = self._loop.call_later(POLL_INTERVAL_S, self._look)


def better_cores(core: int, own_s: float, done_s: Mapping[int, float]) -> set[int]:
    """`done_s`: how long each core was busy, ours with what we did ourselves."""
    others_s = done_s.get(core, 0.0) - own_s
    if others_s < BEARABLE_S:
        return set()
    return {each for each, busy in done_s.items() if each != core and busy + WORTH_S < others_s}


def _one_of(cores: set[int]) -> int:
    """By chance, and so is whether to move: several workers that found the same would else move together."""
    return random.choice(sorted(cores))  # noqa: S311  # spreads workers


def _coin() -> bool:
    return random.random() < 0.5  # noqa: S311  # the same


def busy_s() -> dict[int, float]:
    """How long each core of the machine has been busy, in seconds."""
    ticks_a_second = os.sysconf("SC_CLK_TCK")
    busy: dict[int, float] = {}
    for line in _STAT.read_text().splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu") and name != "cpu":
            ticks = [int(each) for each in rest.split()[:_TIME_FIELDS]]
            idle = sum(ticks[field] for field in _IDLE_FIELDS)
            busy[int(name.removeprefix("cpu"))] = (sum(ticks) - idle) / ticks_a_second
    return busy


def _place(cores: set[int]) -> None:
    """Threads that begin take their maker's place: twice, for those that one began which was not asked yet."""
    for _ in range(2):
        for thread in _THREADS.iterdir():
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.sched_setaffinity(int(thread.name), cores)
