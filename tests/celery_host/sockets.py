"""The TCP sockets of a process, as Linux shows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

LISTENING = "0A"


class TcpSockets(NamedTuple):
    listening: set[int]
    """Local ports."""
    connected: set[int]
    """Remote ports."""


def tcp_sockets(pid: int) -> TcpSockets:
    ours = {_target(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    listening, connected = set[int](), set[int]()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            local, remote, state, inode = words[1], words[2], words[3], words[9]
            if f"socket:[{inode}]" in ours:
                (listening if state == LISTENING else connected).add(_port(local if state == LISTENING else remote))
    return TcpSockets(listening, connected)


def _target(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:  # the peer closed it meanwhile
        return ""


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
