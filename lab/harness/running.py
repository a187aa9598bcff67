"""Runs the installed `cns up`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.harness import commands
from lab.harness.parts import need
from lab.harness.ports import free_port
from lab.harness.service import BIN, METRICS_TOKEN, Service
from lab.harness.waiting import PATIENCE_S, wait_until

START_S = PATIENCE_S
RESERVE_BYTES = 1024 * 1024
"""Size of each service's disk: pytest keeps the directories of hundreds."""
ANNOUNCEMENT = "cns: SNS and SQS on "


@dataclass(frozen=True, kw_only=True)
class Up(Service):
    """A running `cns up`. `environment` is what it told its user to export."""

    data: Path
    said_path: Path
    process: subprocess.Popen[bytes]

    def pids(self) -> dict[str, int]:
        """The ids of the processes that it supervises, by name."""
        return {process["name"]: process["pid"] for process in self.health()["processes"]}

    def inside(self, path: Path) -> Path:
        """The path of a file as seen by the service, which may have a disk of its own."""
        return Path(f"/proc/{self.process.pid}/root{path}")

    def said(self) -> str:
        return self.said_path.read_text()

    def cns(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return cns(*words, "--data", self.data, check=check)

    def delivery_logs(self, *words: str) -> str:
        return self.cns("logs", *words).stdout

    def copies(self, text: str) -> int:
        """The number of times that the database files hold the text: in the log, and later in the database, too."""
        return max(path.read_bytes().count(text.encode()) for path in self.data.glob("store.db*"))

    # -- life ---------------------------------------------------------------------------------------------------------

    def wait_ready(self) -> None:
        wait_until(
            lambda: self.process.poll() is not None or (ANNOUNCEMENT in self.said() and self.is_ready()),
            START_S,
            self.said,
        )
        assert self.process.poll() is None, self.said()
        self.environment.update(exports_in(self.said()))

    def stop(self) -> int:
        """Send SIGTERM. Returns the exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE_S)


def start(
    data: Path,
    *options: str,
    port: int | None = None,
    own_port: int = 0,
    url: str = "",
    ca_file: Path | None = None,
    first: Callable[[], None] | None = None,
    environment: dict[str, str] | None = None,
    runner: Sequence[str | Path] = (),
) -> Up:
    """Start `cns up` without waiting until it is ready.

    `own_port` is the port that it takes without an option. `first` is called in the new process before it begins.
    `runner` are words before the command, such as `own_disk`.
    """
    port = own_port or port or free_port()
    said_path = data.parent / f"{data.name}-{port}.said"
    with said_path.open("wb") as out:
        process = subprocess.Popen(
            [
                *runner,
                BIN / "cns",
                "up",
                *(() if own_port else ("--port", str(port))),
                "--data",
                data,
                *options,
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=plain_environment() | (environment or {}),
            preexec_fn=first,
        )
    return Up(url=url or f"http://127.0.0.1:{port}", data=data, ca_file=ca_file, said_path=said_path, process=process)


@contextmanager
def running(data: Path, *options: str, **more: Any) -> Iterator[Up]:
    """Run `cns up` until the end of the block, from when it is ready. See `start`."""
    service = start(data, *options, **more)
    try:
        service.wait_ready()
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


def exports_in(text: str) -> dict[str, str]:
    """The variables that `export` lines set."""
    lines = [line.removeprefix("export ") for line in text.splitlines() if line.startswith("export ")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def keys_in(text: str) -> dict[str, str]:
    """The options of `Service.client` for the account whose exports these are."""
    exports = exports_in(text)
    return {"key": exports["AWS_ACCESS_KEY_ID"], "secret": exports["AWS_SECRET_ACCESS_KEY"]}


def plain_environment() -> dict[str, str]:
    """The environment of a shell in which Python keeps compiled modules."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"CNS_RESERVE_BYTES": str(RESERVE_BYTES), "CNS_METRICS_TOKEN": METRICS_TOKEN, **kept}
