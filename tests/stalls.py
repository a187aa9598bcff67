"""A pytest plugin that stops processes of the tests, as a busy machine does: it finds tests that depend on speed.

    PYTEST_ADDOPTS="-p tests.stalls" make test

Each test process gets a companion. Again and again it stops a quarter of the processes below and including the test
process with SIGSTOP, for 1 to 2 s, and lets all run for about as long. Servers that the stages share go on.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

RUN_S = (0.5, 2.0)
STOPPED_S = (1.0, 2.0)
SHARE = 4
"""One of so many processes is stopped at a time."""


def pytest_configure(config: pytest.Config) -> None:
    is_controller = bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")
    if not is_controller:
        companion = subprocess.Popen([sys.executable, "-m", "tests.stalls", str(os.getpid())], start_new_session=True)
        config.add_cleanup(lambda: end(companion))


def end(companion: subprocess.Popen[bytes]) -> None:
    companion.terminate()
    companion.wait()


def stall(root: int) -> None:
    """Stop and continue processes until the process `root` has ended."""
    while running := processes_below(root):
        time.sleep(random.uniform(*RUN_S))  # the span between two standstills
        chosen = random.sample(running, max(1, len(running) // SHARE))
        try:
            send(chosen, signal.SIGSTOP)
            time.sleep(random.uniform(*STOPPED_S))  # the span of the standstill
        finally:
            send(chosen, signal.SIGCONT)


def send(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def processes_below(root: int) -> list[int]:
    """The process and those below it, but for this one and those that are stopped already or have ended."""
    children = defaultdict[int, list[int]](list)
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (directory / "stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "TZX":
                children[int(parent)].append(int(directory.name))
    if not Path(f"/proc/{root}").exists():
        return []
    found = [root]
    for process in found:
        found += [child for child in children[process] if child != os.getpid()]
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # `finally` lets all run
    stall(int(sys.argv[1]))
