"""Starts `cns up` as a person would."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import commands
from tests.acceptance.service import BIN, Service
from tests.parts import need
from tests.ports import free_port
from tests.waiting import wait_until

START_S = 30.0
STOP_S = 45.0
RESERVE_BYTES = 1024 * 1024
"""Size of each service's disk: pytest keeps the directories of hundreds."""
ANNOUNCEMENT = "cns: SNS and SQS on "


@dataclass(frozen=True, kw_only=True)
class Up(Service):
    """A running `cns up`, which told its user what to export."""

    data: Path
    said_path: Path
    process: subprocess.Popen[bytes]

    def pids(self) -> dict[str, int]:
        """The processes that it watches, by name."""
        return {process["name"]: process["pid"] for process in self.health()["processes"]}

    def inside(self, path: Path) -> Path:
        """A file as the service sees it, which may have a disk of its own."""
        return Path(f"/proc/{self.process.pid}/root{path}")

    def said(self) -> str:
        return self.said_path.read_text()

    def cns(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return cns(*words, "--data", self.data, check=check)

    def delivery_logs(self, *words: str) -> str:
        return self.cns("logs", *words).stdout

    def copies(self, text: str) -> int:
        """In the log, and perhaps by now in the file."""
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
        """SIGTERM, and the exit code."""
        self.process.terminate()
        return self.process.wait(STOP_S)


def start(
    data: Path,
    *options: str,
    port: int | None = None,
    own_port: int = 0,
    url: str = "",
    ca_file: Path | None = None,
    first: Callable[[], None] | None = None,
    disk_mib: int = 0,
    environment: dict[str, str] | None = None,
) -> Up:
    """`cns up`, not waited for. `own_port` is one that it takes without being told; `first` is called in the new
    process before it begins; with `disk_mib` its data are on a disk of that size, which only it sees."""
    port = own_port or port or free_port()
    said_path = data.parent / f"{data.name}-{port}.said"
    with said_path.open("wb") as out:
        process = subprocess.Popen(
            [
                *(own_disk(data, disk_mib) if disk_mib else ()),
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
    """`cns up`, ready; stopped at the end if it still runs. See `start`."""
    service = start(data, *options, **more)
    try:
        service.wait_ready()
        yield service
    finally:
        service.stop()


def own_disk(directory: Path, size_mib: int) -> list[str]:
    """The beginning of a command that runs with a new file system there, in a name space of its own."""
    need("namespaces")
    directory.mkdir()
    mount = f'mount -t tmpfs -o size={size_mib}m none "$0" && exec "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(directory)]


def cns(*words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Another `cns` command, run to its end."""
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
    """As a person's shell has it, who lets Python keep what it has compiled."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"CNS_RESERVE_BYTES": str(RESERVE_BYTES), **kept}
