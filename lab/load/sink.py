"""An HTTP endpoint for notifications: it answers 200 at once and notes the time from publish to arrival."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from time import perf_counter_ns
from typing import cast

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
STAMP = re.compile(rb"began=(\d+)")
"""In a message's body: when its publish began, in ns of the monotonic clock."""

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_TOKEN = re.compile(rb'"Token"\s*:\s*"([^"]+)"')


class Sink:
    """Listens on the loopback interface from `open` to `close`."""

    def __init__(self) -> None:
        self.token: asyncio.Future[str]
        self._arrived = asyncio.Event()
        self._server: asyncio.Server
        self._endpoints: set[_Endpoint] = set()
        self.reset()

    def reset(self) -> None:
        self.times_ns: list[int] = []
        self.last_ns = 0

    async def open(self) -> str:
        """Start listening. Returns the endpoint's URL."""
        loop = asyncio.get_running_loop()
        self.token = loop.create_future()
        self._server = await loop.create_server(lambda: _Endpoint(self._received, self._endpoints), "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    async def await_count(self, n: int, timeout_s: float) -> None:
        """Wait until `n` notifications have arrived."""
        async with asyncio.timeout(timeout_s):
            while len(self.times_ns) < n:
                self._arrived.clear()
                await self._arrived.wait()

    async def close(self) -> None:
        self._server.close()
        for endpoint in tuple(self._endpoints):
            endpoint.abort()
        while self._endpoints:
            await asyncio.sleep(0)

    def _received(self, request: bytes) -> None:
        stamp = STAMP.search(request)
        if stamp is not None:
            self.last_ns = perf_counter_ns()
            self.times_ns.append(self.last_ns - int(stamp[1]))
            self._arrived.set()
        elif (token := _TOKEN.search(request)) and not self.token.done():
            self.token.set_result(token[1].decode())


class _Endpoint(asyncio.Protocol):
    def __init__(self, received: Callable[[bytes], None], open_ones: set[_Endpoint]) -> None:
        self._received = received
        self._open_ones = open_ones
        self._buffer = b""
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none by inheritance
        self._open_ones.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_ones.discard(self)

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (head := self._buffer.find(b"\r\n\r\n")) > 0:
            length = _LENGTH.search(self._buffer, 0, head)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < end:
                return
            request, self._buffer = self._buffer[:end], self._buffer[end:]
            self._received(request)
            self._transport.write(ANSWER)
