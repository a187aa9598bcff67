"""The core to which a worker's threads are pinned."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cns_common.process import cpu_affinity as module
from cns_common.process.cpu_affinity import POLL_INTERVAL_S, better_cores, busy_s, pinned_to_one_core

OURS_S = 0.5
CORES = os.sched_getaffinity(0)
BUSY_TICKS = 10_000


@pytest.fixture
def thread() -> Iterator[int]:
    """The number of one that was there before."""
    end = threading.Event()
    waiting = threading.Thread(target=end.wait)
    waiting.start()
    assert waiting.native_id is not None
    yield waiting.native_id
    end.set()
    waiting.join()


@pytest.mark.parametrize(
    ("done_s", "cores"),
    [
        ({0: 0.5, 1: 0.0}, set()),  # no other process runs
        ({0: 0.7, 1: 0.0}, set()),  # other processes do little
        ({0: 1.0, 1: 0.3}, {1}),
        ({0: 1.0, 1: 0.45}, set()),  # too little to gain
        ({0: 1.0, 1: 1.0}, set()),
        ({0: 1.0, 1: 0.3, 2: 0.1, 3: 0.6}, {1, 2}),
        ({0: 1.0}, set()),
        ({1: 0.3}, set()),  # other programs took the CPU
    ],
)
def test_cores_are_better_where_others_do_less(done_s: dict[int, float], cores: set[int]) -> None:
    assert better_cores(0, OURS_S, done_s) == cores


def test_how_long_cores_were_busy_is_read() -> None:
    assert set(busy_s()) >= os.sched_getaffinity(0)
    assert all(each > 0 for each in busy_s().values())


async def test_all_threads_are_on_one_core_until_it_is_over(thread: int) -> None:
    with pinned_to_one_core(wanted=True):
        (core,) = os.sched_getaffinity(0)
        assert os.sched_getaffinity(thread) == {core}
        assert await asyncio.to_thread(os.sched_getaffinity, 0) == {core}, "and who begins later"
    assert os.sched_getaffinity(0) == os.sched_getaffinity(thread) == CORES


async def test_who_does_not_want_to_stays_everywhere() -> None:
    with pinned_to_one_core(wanted=False):
        assert os.sched_getaffinity(0) == CORES


async def test_they_move_together(thread: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a machine of two cores, and records the last affinity of each thread."""
    placed: dict[int, set[int]] = {}
    ticks = {0: 0, 1: 0}
    monkeypatch.setattr(module, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(ticks))
    monkeypatch.setattr(os, "sched_setaffinity", placed.__setitem__)
    _write_stat(tmp_path / "stat", ticks)
    with pinned_to_one_core(wanted=True):
        (core,) = placed[thread]
        async with asyncio.timeout(60 * POLL_INTERVAL_S):
            while placed[thread] == {core}:
                ticks[core] += BUSY_TICKS
                _write_stat(tmp_path / "stat", ticks)
                await asyncio.sleep(POLL_INTERVAL_S / 10)
        assert placed[thread] == placed[threading.get_native_id()] == {1 - core}


async def test_a_refusal_leaves_them_where_the_system_puts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: int, cores: set[int]) -> None:
        raise PermissionError(f"{thread} may not be on {cores}")

    with monkeypatch.context() as patched:
        patched.setattr(os, "sched_setaffinity", refuse)
        with pinned_to_one_core(wanted=True):
            await asyncio.sleep(2 * POLL_INTERVAL_S)
            assert os.sched_getaffinity(0) == CORES


def _write_stat(path: Path, ticks: Mapping[int, int]) -> None:
    """A line of /proc/stat: user, nice, system, idle and more."""
    lines = [f"cpu{core} {user} 0 0 999 0 0 0 0 0 0" for core, user in ticks.items()]
    path.write_text("\n".join(["cpu  1 2 3 4 5 6 7 8 9 10", *lines, "intr 1 2 3", ""]))
