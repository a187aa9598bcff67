"""The resources that processes use: CPU, memory, written bytes and TCP sockets, as psutil reads them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import psutil

QUIET_POLL_S = 0.25
QUIET_SHARE = 0.2
"""The share of one core."""
GONE = (psutil.NoSuchProcess, psutil.AccessDenied)


class Sockets(NamedTuple):
    listening: set[int]
    """Local ports."""
    local: set[int]
    connected: set[int]
    """Remote ports."""


def tree(root: int) -> list[int]:
    """The ids of a process and all its descendants."""
    with suppress(*GONE):
        return [root, *[child.pid for child in psutil.Process(root).children(recursive=True)]]
    return []


def _reading(pid: int, read: Callable[[psutil.Process], float]) -> float:
    """Read a value of a process; 0 after its end."""
    with suppress(*GONE):
        return read(psutil.Process(pid))
    return 0


def cpu_s(pid: int) -> float:
    """CPU seconds of one process, its threads included."""
    return _reading(pid, lambda process: sum(process.cpu_times()[:2]))


def resident_bytes(pid: int) -> int:
    return int(_reading(pid, lambda process: process.memory_info().rss))


def pss_bytes(pid: int) -> int:
    """Resident memory; what several processes share counts once in their sum."""
    return int(_reading(pid, lambda process: process.memory_full_info().pss))


def written_bytes(pid: int) -> int:
    """Bytes of dirtied pages (`write_bytes`): a page changed twice before its writeback counts once."""
    return int(_reading(pid, lambda process: process.io_counters().write_bytes))


def sockets(pid: int) -> Sockets:
    """The ports of a process's TCP sockets."""
    found = psutil.Process(pid).net_connections("tcp")
    return Sockets(
        listening={one.laddr.port for one in found if one.status == psutil.CONN_LISTEN},
        local={one.laddr.port for one in found},
        connected={one.raddr.port for one in found if one.raddr},
    )


def listeners(port: int, host: str = "") -> list[int]:
    """The ids of the processes that listen on a port, at this address if one is given."""
    listening = [one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    at = [(one.laddr, one.pid or 0) for one in listening if one.laddr]
    return [pid for address, pid in at if address.port == port and host in ("", address.ip)]


def machine_cpu_s() -> float:
    """CPU seconds used by the whole machine, including time stolen by its host."""
    used = psutil.cpu_times()
    return float(used.user + used.nice + used.system + used.irq + used.softirq + used.steal)


def await_quiet(seconds_max: float, used_s: Callable[[], float] = machine_cpu_s) -> None:
    """Wait until the machine, or the processes measured by `used_s`, are idle, at most `seconds_max`; the figures show
    how busy the machine was."""
    until = time.monotonic() + seconds_max
    while time.monotonic() < until:
        before_s = used_s()
        time.sleep(QUIET_POLL_S)  # the span in which CPU time is measured
        if used_s() - before_s < QUIET_SHARE * QUIET_POLL_S:
            return
