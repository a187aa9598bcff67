"""Ports for servers that tests start."""

from __future__ import annotations

import socket
from secrets import randbelow

FIRST, COUNT = 20_000, 10_000
"""Below those that the system gives to outgoing connections: one of them may be taken before the server has it."""


def free_port() -> int:
    """One that nobody has now, on the loopback address."""
    while True:
        port = FIRST + randbelow(COUNT)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
