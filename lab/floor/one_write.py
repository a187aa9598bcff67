"""uvicorn's HTTP protocol with head and body of an answer in one write: one system call and one packet instead of two.

uvicorn writes them separately and uvloop sends each at once, which costs both ends of the connection more than the
floor's SQL.
"""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class JoiningTransport:
    """Holds an answer's head back until the next write, which in uvicorn is always the body, even an empty one."""

    __slots__ = ("_head", "_transport", "close", "get_extra_info", "is_closing", "pause_reading", "resume_reading")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self.close = transport.close
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.endswith(b"\r\n\r\n") and data.startswith(b"HTTP/1.1 2"):
            self._head = data
            return
        self._transport.write(data)


class OneWriteProtocol(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(cast(asyncio.Transport, JoiningTransport(transport)))
