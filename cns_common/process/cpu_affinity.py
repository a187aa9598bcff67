"""Keeps a process on one core at a time, on which other processes do little (ADR 0011).

Threads of one interpreter take turns. On several cores each turn moves the interpreter's lock, and the data read under
it, from one core's caches into another's: on one core a fan-out takes a third less CPU.
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
FOREIGN_LOAD_S_MAX = 0.25
"""CPU time per second that other processes may use on our core before we look for another core."""
GAIN_S_MIN = 0.1
"""Another core must be busy for less time, by this much per second."""

_THREADS = Path("/proc/self/task")
_STAT = Path("/proc/stat")
_IDLE_FIELDS = (3, 4)  # idle, and waiting for disks
_TIME_FIELDS = 8  # the fields after these are contained in them

log = structlog.get_logger(__name__)


@contextlib.contextmanager
def pinned_to_one_core(*, wanted: bool) -> Iterator[None]:
    """Keep all threads of the process on one core; needs a running loop. Does nothing on a machine with one core, or
    where the system refuses it."""
    if not wanted or not _STAT.exists() or len(os.sched_getaffinity(0)) == 1:
        yield
        return
    selector = _CoreSelector(os.sched_getaffinity(0))
    try:
        yield
    finally:
        selector.stop()


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
            _pin_threads(self._cores)

    def _move(self, core: int) -> None:
        """If the system refuses the move, the threads stay where the system puts them."""
        self._core, self._timer = core, None
        try:
            _pin_threads({core})
        except OSError as error:
            log.warning("process.cpu_pinning_failed", core=core, error=str(error))
        else:
            self._timer = self._loop.call_later(POLL_INTERVAL_S, self._check)

    def _check(self) -> None:
        now_s, own_s = busy_s(), time.process_time()
        used_s = {core: now_s[core] - self._busy_s.get(core, 0.0) for core in self._cores & now_s.keys()}
        better = better_cores(self._core, own_s - self._own_s, used_s)
        self._busy_s, self._own_s = now_s, own_s
        if better and _random_choice():
            self._move(_one_of(better))
        else:
            self._timer = self._loop.call_later(POLL_INTERVAL_S, self._check)


def better_cores(core: int, own_s: float, used_s: Mapping[int, float]) -> set[int]:
    """Cores worth moving to. `used_s` is each core's busy time, on `core` including our own `own_s`."""
    others_s = used_s.get(core, 0.0) - own_s
    if others_s < FOREIGN_LOAD_S_MAX:
        return set()
    return {each for each, busy in used_s.items() if each != core and busy + GAIN_S_MIN < others_s}


def _one_of(cores: set[int]) -> int:
    """A random core. Whether to move is random, too: else several workers with the same view would move together."""
    return random.choice(sorted(cores))  # noqa: S311  # needs no secrecy: it spreads workers


def _random_choice() -> bool:
    return random.random() < 0.5  # noqa: S311  # as above


def busy_s() -> dict[int, float]:
    """The busy time of each core since the machine started, in seconds."""
    ticks_a_second = os.sysconf("SC_CLK_TCK")
    busy: dict[int, float] = {}
    for line in _STAT.read_text().splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu") and name != "cpu":
            ticks = [int(each) for each in rest.split()[:_TIME_FIELDS]]
            idle = sum(ticks[field] for field in _IDLE_FIELDS)
            busy[int(name.removeprefix("cpu"))] = (sum(ticks) - idle) / ticks_a_second
    return busy


def _pin_threads(cores: set[int]) -> None:
    """New threads inherit the affinity of their creator. The second pass catches those that a thread created before the
    first pass reached it."""
    for _ in range(2):
        for thread in _THREADS.iterdir():
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.sched_setaffinity(int(thread.name), cores)
