"""The servers that are measured: the service, the floor, and how they are started on fresh data."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cns_common.process.supervisor import read_status
from lab.harness import commands
from lab.harness.processes import BIN, ROOT, credentials_in
from lab.harness.server import Server, python, running
from lab.harness.waiting import wait_until

FLOOR = python("lab.floor.server")
SERVICE = [str(BIN / "cns"), "up", "--port", "{port}", "--data", "{data}"]
NO_WORKER = [*SERVICE, "--no-worker"]
QUIET_S_MAX = 10.0
"""The longest time that a run waits for the machine to be idle."""


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A directory on the project's disk: the system's own may be in memory, where an fsync costs nothing."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=ROOT / "build") as directory:
        yield Path(directory)


@contextmanager
def service(
    data: Path,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = SERVICE,
    *,
    name: str = "service",
) -> Iterator[Server]:
    """Run the service in the block, from when all its processes do their work. It prints the keys of an account if it
    has a store of its own; in that of a cluster one is made first."""
    account = _new_account(data, environment) if environment else ""
    with running(name, command, data, environment) as server:
        wait_until(lambda: _all_work(data), lambda: "a process does not work")
        yield dataclasses.replace(server, credentials=credentials_in(account or (data / "output.txt").read_text()))


def _new_account(data: Path, environment: Mapping[str, str]) -> str:
    done = commands.run("account", "create", "--data", data / "store", environment={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def _all_work(data: Path) -> bool:
    processes = read_status(data / "store" / "processes.json")
    return bool(processes) and all(process.ready for process in processes)
