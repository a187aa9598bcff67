"""A process dies once, at the named kill point and at the ordered passage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cns_common.process.kill_points import STORE_COMMIT, STORE_COMMITTED, VARIABLE

PASSES = f"""
from cns_common.process.kill_points import kill_point
for number in range(5):
    print(number, flush=True)
    kill_point({STORE_COMMIT!r})
"""


def _run(order: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PASSES], env={**os.environ, VARIABLE: order}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize(("count", "output"), [(1, ["0"]), (3, ["0", "1", "2"])])
def test_it_dies_at_the_ordered_passage(tmp_path: Path, count: int, output: list[str]) -> None:
    latch = tmp_path / "killed"
    assert _run(f"{STORE_COMMIT}:{count}:{latch}") == (-signal.SIGKILL, output)
    assert latch.exists()


def test_it_dies_once(tmp_path: Path) -> None:
    order = f"{STORE_COMMIT}:2:{tmp_path / 'killed'}"
    assert _run(order)[0] == -signal.SIGKILL
    assert _run(order) == (0, list("01234"))


def test_a_successor_that_was_forked_from_the_same_process_lives(tmp_path: Path) -> None:
    code = f"""
import os
from cns_common.process.kill_points import kill_point
for _ in range(2):
    if not os.fork():
        kill_point({STORE_COMMIT!r})
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
    environment = {**os.environ, VARIABLE: f"{STORE_COMMIT}:1:{tmp_path / 'killed'}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(-signal.SIGKILL), "0"]


def test_it_passes_other_points(tmp_path: Path) -> None:
    assert _run(f"{STORE_COMMITTED}:1:{tmp_path / 'killed'}") == (0, list("01234"))


def test_unset_it_costs_a_call_that_does_nothing() -> None:
    code = "from cns_common.process import kill_points; print(kill_points.kill_point.__name__)"
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "_nothing"
