"""Starts and stops the servers under load, and reads their CPU and memory from /proc."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.harness.ports import free_port
from lab.harness.waiting import wait_until
from lab.load.signing import Credentials

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
QUIET_POLL_S = 0.25
METRICS_TOKEN = "the-token-of-the-bench"
QUIET_SHARE = 0.2  # of one core
ROOT = Path(__file__).parents[2]
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_WRITTEN = re.compile(r"^write_bytes: (\d+)", re.MULTILINE)
_EXPORT = re.compile(r"export (AWS_ACCESS_KEY_ID|AWS_SECRET_ACCESS_KEY)=['\"]?([^\s'\"]+)")


class StartError(Exception):
    """The server did not start; the text ends with its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    name: str
    port: int
    pid: int
    credentials: Credentials
    data: Path

    def processes(self) -> list[int]:
        """The ids of the server's process and all its descendants."""
        return tree(self.pid)

    def cpu_s(self) -> float:
        return sum(cpu_s(pid) for pid in self.processes())

    def written_bytes(self) -> int:
        """Bytes of dirtied pages (`write_bytes`): a page changed twice before its writeback counts once."""
        return sum(map(written_bytes, self.processes()))

    def resident_bytes(self) -> int:
        return sum(map(resident_bytes, self.processes()))


def tree(root: int) -> list[int]:
    """The ids of a process and all its descendants."""
    found, unseen = [], [root]
    while unseen:
        pid = unseen.pop()
        found.append(pid)
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            unseen += [int(child) for child in _read(task).split()]
    return found


def written_bytes(pid: int) -> int:
    """As `Server.written_bytes`, of one process."""
    count = _WRITTEN.search(_read(Path(f"/proc/{pid}/io")))
    return int(count[1]) if count else 0


def resident_bytes(pid: int) -> int:
    return int((_read(Path(f"/proc/{pid}/statm")).split() or "00")[1]) * PAGE_BYTES


def cpu_s(pid: int) -> float:
    """CPU seconds of one process, its threads included."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S if fields else 0.0


def machine_cpu_s() -> float:
    """CPU seconds used by the whole machine, including time stolen by its host."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = _read(Path("/proc/stat")).split()[1:9]
    return sum(map(int, (user, nice, system, irq, softirq, steal))) * TICK_S


def local_ports(pid: int) -> set[int]:
    """The local ports of a process's TCP sockets."""
    inodes = _inodes(pid)
    return {port for inode, (_, port, _) in _sockets().items() if inode in inodes}


def listener(host: str, port: int) -> int:
    """The id of the process that listens at an address."""
    wanted = {inode for inode, at in _sockets().items() if at == (host, port, True)}
    for entry in Path("/proc").glob("[0-9]*"):
        if wanted & _inodes(int(entry.name)):
            return int(entry.name)
    raise StartError(f"no process of this machine listens on {host}:{port}")


def await_quiet(seconds_max: float, used_s: Callable[[], float] = machine_cpu_s) -> None:
    """Wait until the machine, or the processes measured by `used_s`, are idle, at most `seconds_max`; the figures show
    how busy the machine was."""
    until = time.monotonic() + seconds_max
    while time.monotonic() < until:
        before_s = used_s()
        time.sleep(QUIET_POLL_S)  # the span in which CPU time is measured
        if used_s() - before_s < QUIET_SHARE * QUIET_POLL_S:
            return


@contextmanager
def running(
    name: str, command: list[str], data: Path, environment: Mapping[str, str] | None = None, *, listeners: int = 1
) -> Iterator[Server]:
    """Run a server within the block. `command` may contain {port} and {data}; waits for `listeners` listening
    processes."""
    port = free_port()
    data.mkdir(parents=True, exist_ok=True)
    words = [word.format(port=port, data=data.absolute() / "store") for word in command]
    said = data / "said.txt"
    with said.open("wb") as out:
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env={**os.environ, "CNS_METRICS_TOKEN": METRICS_TOKEN, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_ready(process, port, listeners, said)
        yield Server(name=name, port=port, pid=process.pid, credentials=_credentials(said), data=data)
    finally:
        _stop(process)


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, "--port", "{port}", "--data", "{data}", *arguments]


def _sockets() -> dict[str, tuple[str, int, bool]]:
    """Inode → (local address, local port, whether it listens) of all TCP sockets."""
    return read_sockets(_read(Path("/proc/net/tcp")))


def read_sockets(table: str) -> dict[str, tuple[str, int, bool]]:
    """Parse /proc/net/tcp: addresses are little-endian hex, state 0A is listening."""
    sockets = {}
    for line in table.splitlines()[1:]:
        fields = line.split()
        address, _, port = fields[1].partition(":")
        host = socket.inet_ntoa(bytes.fromhex(address)[::-1])
        sockets[fields[9]] = (host, int(port, 16), fields[3] == "0A")
    return sockets


def _inodes(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    links = []
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):  # closed meanwhile, or owned by another user
            links.append(str(descriptor.readlink()))
    return {link[8:-1] for link in links if link.startswith("socket:[")}


def _wait_ready(process: subprocess.Popen[bytes], port: int, listeners: int, said: Path) -> None:
    def is_over() -> bool:
        return process.poll() is not None or _listening(port) >= listeners

    wait_until(is_over, START_TIMEOUT_S, lambda: _read(said)[-4000:])
    if process.poll() is not None:
        raise StartError(f"{process.args!r} did not listen on {port}; it said:\n{_read(said)[-4000:]}")


def _listening(port: int) -> int:
    return sum(at == port and listens for _, at, listens in _sockets().values())


def _credentials(said: Path) -> Credentials:
    """The keys printed by the server; dummy keys for a server without authentication."""
    keys = dict(_EXPORT.findall(_read(said)))
    return Credentials(
        key_id=keys.get("AWS_ACCESS_KEY_ID", "AKIAFLOOR"), secret=keys.get("AWS_SECRET_ACCESS_KEY", "floor")
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""  # the process ended between two samples
