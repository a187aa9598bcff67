"""Keep-alive HTTP/1.1 connections, each driven by a script: a generator that yields requests and gets answers.

There is no HTTP library: answers are split at the blank line and by Content-Length or chunks, which suffices for the
bench. A connection that the server ends after an answer, and says so, is made anew for the next request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator, Sequence
from time import perf_counter_ns
from typing import Any, cast

Script = Generator[tuple[list[int], bytes], bytes, None]
"""Yields (list that gets the request's time in ns, request), and is sent the answer's body."""

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"transfer-encoding: *chunked", re.IGNORECASE)
_CLOSED = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
CONNECT_TIMEOUT_S = 10.0


class LoadError(Exception):
    """The server did not answer 200, or closed the connection: then `status` is 0."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


class Budget:
    """The units and the time that the scripts of a run may still use."""

    def __init__(self, units: int, seconds: float) -> None:
        self.left = units
        self._until_ns = perf_counter_ns() + int(seconds * 1e9)

    @property
    def late(self) -> bool:
        return perf_counter_ns() > self._until_ns

    def take(self, units: int = 1) -> bool:
        if self.left < units or self.late:
            return False
        self.left -= units
        return True


class Lane(asyncio.Protocol):
    """One connection with one request in flight."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport
        self._script: Script | None = None
        self._done: asyncio.Future[None] | None = None
        self._times: list[int] = []
        self._began_ns = 0
        self._buffer = b""
        self._request = b""
        """The request that waits for a new connection."""
        self._renewal: asyncio.Future[Any] | None = None

    @property
    def closed(self) -> bool:
        """Whether this side or the other ended the connection."""
        return self._transport.is_closing()

    # -- use ----------------------------------------------------------------------------------------------------------

    def start(self, script: Script) -> asyncio.Future[None]:
        """Run a script; the future is done when it ends."""
        self._done = asyncio.get_running_loop().create_future()
        self._script = script
        self._advance(None, perf_counter_ns())
        return self._done

    async def ask(self, request: bytes) -> bytes:
        """One request outside any script."""
        answer = b""

        def script() -> Script:
            nonlocal answer
            answer = yield [], request

        await self.start(script())
        return answer

    def close(self) -> None:
        self._script = None
        self._transport.abort()
        if self._renewal is not None:
            self._renewal.cancel()

    # -- protocol -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none by inheritance
        if self._renewal is not None:
            self._renewal = None
            self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        head = data.find(b"\r\n\r\n")
        length = _LENGTH.search(data, 0, head) if head > 0 else None
        if head > 0 and length is None and not _CHUNKED.search(data, 0, head):
            self._fail(f"no Content-Length in {data[:head]!r}")
            return
        if length is None and head > 0 and data.endswith(b"\r\n0\r\n\r\n"):
            data = data[: head + 4] + _joined(data[head + 4 :])
        elif length is None or len(data) < head + 4 + int(length[1]):
            self._buffer = data
            return
        now_ns = perf_counter_ns()
        self._buffer = b""
        if not data.startswith(b"HTTP/1.1 200"):
            self._fail(data[:2000].decode("latin-1"), int(data[9:12]))
            return
        self._times.append(now_ns - self._began_ns)
        if _CLOSED.search(data, 0, head):
            self._renew()
        self._advance(data[head + 4 :], now_ns)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._script is not None and self._renewal is None:
            self._fail(f"the server hung up: {exc}")

    def _advance(self, answer: bytes | None, now_ns: int) -> None:
        assert self._script is not None
        assert self._done is not None
        try:
            self._times, request = next(self._script) if answer is None else self._script.send(answer)
        except StopIteration:
            self._script = None
            if not self._done.done():  # else its caller gave up meanwhile
                self._done.set_result(None)
        except LoadError as error:
            self._fail(str(error))
        else:
            self._began_ns = now_ns
            self._request = request
            if self._renewal is None:
                self._transport.write(request)

    def _renew(self) -> None:
        """Connect anew; the next request waits for it."""
        host, port = self._transport.get_extra_info("peername")
        self._transport.abort()
        self._request = b""
        connecting = asyncio.get_running_loop().create_connection(lambda: self, host, port)
        self._renewal = asyncio.ensure_future(connecting)
        self._renewal.add_done_callback(self._renewed)

    def _renewed(self, connecting: asyncio.Future[Any]) -> None:
        if not connecting.cancelled() and (error := connecting.exception()) is not None:
            self._fail(f"no new connection: {error}")

    def _fail(self, reason: str, status: int = 0) -> None:
        self._script = None
        self._transport.abort()
        if self._done is not None and not self._done.done():
            self._done.set_exception(LoadError(reason, status))


def _joined(chunks: bytes) -> bytes:
    """The body of an answer that came whole in chunks."""
    parts, at = [], 0
    while size := int(chunks[at : (start := chunks.index(b"\r\n", at) + 2)].partition(b";")[0], 16):
        parts.append(chunks[start : start + size])
        at = start + size + 2
    return b"".join(parts)


async def connect(port: int, n: int) -> list[Lane]:
    loop = asyncio.get_running_loop()
    lanes = []
    for _ in range(n):
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, lane = await loop.create_connection(Lane, "127.0.0.1", port)
        lanes.append(lane)
    return lanes


async def run(lanes: Sequence[Lane], scripts: Sequence[Script]) -> None:
    """Run one script on each connection to its end; the first exception is raised."""
    await asyncio.gather(*[lane.start(script) for lane, script in zip(lanes, scripts, strict=True)])
