"""Ports for servers that tests start."""

from __future__ import annotations

import socket
from secrets import randbelow

FIRST, COUNT = 20_000, 10_000
"""Below the ports of outgoing connections, which could take the port before the server does."""


def free_port() -> int:
    """A port that is free now, on the loopback address."""
    while True:
        port = FIRST + randbelow(COUNT)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
