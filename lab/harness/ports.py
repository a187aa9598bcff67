"""Ports for servers that tests start. Each process has a block of its own, so that no two take the same port."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

FIRST, BLOCKS, BLOCK = 20_000, 50, 200
"""Below the ports of outgoing connections, which could take the port before the server does."""
LOCKS = Path(tempfile.gettempdir()) / f"cns-test-ports-{os.getuid()}"


def _ports() -> Iterator[int]:
    """The ports of a block that no other process has, again and again. The lock on its file lasts as long as this
    process."""
    LOCKS.mkdir(exist_ok=True)
    for number in range(BLOCKS):
        lock = os.open(LOCKS / str(number), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            first = FIRST + number * BLOCK
            yield from cycle(range(first, first + BLOCK))
    raise RuntimeError(f"all {BLOCKS} blocks of ports are taken: see {LOCKS}")


_PORTS = _ports()
_ONE_AT_A_TIME = threading.Lock()


def free_port() -> int:
    """A port that is free now, on the loopback address."""
    while True:
        with _ONE_AT_A_TIME:
            port = next(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
