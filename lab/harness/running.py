"""Runs the installed `cns up`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cns_common.process.supervisor import ChildStatus, read_status
from cns_pytest.processes import exports
from lab.harness import commands
from lab.harness.parts import need
from lab.harness.ports import free_port
from lab.harness.processes import ANNOUNCEMENT, BIN, HOST, Process, plain_environment
from lab.harness.service import Service


@dataclass(frozen=True, kw_only=True)
class Up(Service):
    """A running `cns up`. `environment` is what it told its user to export."""

    data: Path
    process: Process

    def supervised(self) -> list[ChildStatus]:
        """The state of the processes that it supervises, also while none of them answers."""
        return read_status(self.data / "processes.json")

    def pids(self) -> dict[str, int]:
        """The ids of the processes that it supervises, by name."""
        return {process["name"]: process["pid"] for process in self.health()["processes"]}

    def inside(self, path: Path) -> Path:
        """The path of a file as seen by the service, which may have a disk of its own."""
        return Path(f"/proc/{self.process.pid}/root{path}")

    def said(self) -> str:
        return self.process.new_output()

    def cns(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return cns(*words, "--data", self.data, check=check)

    def delivery_logs(self, *words: str) -> str:
        return self.cns("logs", *words).stdout

    def copies(self, text: str) -> int:
        """The number of times that the database files hold the text: in the log, and later in the database, too."""
        return max(path.read_bytes().count(text.encode()) for path in self.data.glob("store.db*"))

    # -- life ---------------------------------------------------------------------------------------------------------

    def wait_ready(self, page: str = "/ready") -> None:
        """Wait until it has printed its address and its keys, and this page answers with 200."""
        self.process.wait_until(lambda: ANNOUNCEMENT in self.said() and self.answers(page))
        self.environment.update(exports(self.said()))

    def stop(self) -> int:
        """Send SIGTERM. Returns the exit code."""
        return self.process.stop()


def start(
    data: Path,
    *options: str,
    port: int | None = None,
    own_port: int = 0,
    url: str = "",
    ca_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    runner: Sequence[str | Path] = (),
    first: Callable[[], None] | None = None,
) -> Up:
    """Start `cns up` without waiting until it is ready.

    `own_port` is the port that it takes without an option. `runner` are words before the command, such as `own_disk`.
    `first` is called in the new process before it begins.
    """
    port = own_port or port or free_port()
    words = [*runner, BIN / "cns", "up", *(() if own_port else ("--port", str(port))), "--data", data, *options]
    log = data.parent / f"{data.name}-{port}.said"
    process = Process(words, log, plain_environment(**(environment or {})), name="cns up", port=port, preexec_fn=first)
    process.start()
    return Up(url=url or f"http://{HOST}:{port}", data=data, ca_file=ca_file, process=process)


@contextmanager
def running(data: Path, *options: str, page: str = "/ready", **more: Any) -> Iterator[Up]:
    """Run `cns up` until the end of the block, from when it is ready. See `start` and `Up.wait_ready`."""
    service = start(data, *options, **more)
    try:
        service.wait_ready(page)
        yield service
    finally:
        service.stop()


def own_disk(directory: Path, size_mib: int) -> list[str]:
    """The words before a command that give it a file system of its own in this directory."""
    need("namespaces")
    directory.mkdir()
    mount = f'mount -t tmpfs -o size={size_mib}m none "$0" && exec "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(directory)]


def cns(*words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run another `cns` command to its end."""
    done = commands.run(*words)
    assert done.returncode == 0 or not check, done.stderr
    return done
