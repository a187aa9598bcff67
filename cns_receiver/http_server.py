"""An HTTP/1.1 server of protocol and parser only, because benches measure against it as well.

A handler answers a request at once with a `ReceiverAnswer`, later with a coroutine, or closes the connection with None.
Heads, bodies, connections and idle times have limits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from http import HTTPStatus
from typing import NamedTuple, cast

import httptools
import msgspec

HEAD_BYTES_MAX = 64 * 1024
"""The limit of a head, and of trailers and chunk extensions without a byte of body between them."""
TARGET_BYTES_MAX = 8 * 1024
BODY_BYTES_MAX = 2 * 1024 * 1024
"""The largest body: enough for a message of 256 KiB of which JSON escapes every byte."""
REQUESTS_WAITING_MAX = 256
"""Pipelined requests on one connection; their bodies have twice BODY_BYTES_MAX."""
IDLE_TIMEOUT_S = 60.0
"""A connection is closed after one to two times this without a byte, unless an answer is pending."""

_BODILESS = frozenset({204, 304})
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class IncomingRequest:
    """A complete request; header names are in lower case."""

    __slots__ = ("body", "headers", "keep_alive", "method", "target")

    def __init__(
        self, method: bytes, target: bytes, headers: dict[bytes, bytes], body: bytes, keep_alive: bool
    ) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.keep_alive = keep_alive


class ReceiverAnswer(NamedTuple):
    """An answer; `head` lacks only the empty line at its end."""

    status: int
    head: bytes
    body: bytes


Reply = ReceiverAnswer | Coroutine[None, None, ReceiverAnswer | None] | None
Handle = Callable[[IncomingRequest], Reply]


def answer(
    status: int, body: bytes = b"", content_type: str = "", headers: Iterable[tuple[str, str]] = ()
) -> ReceiverAnswer:
    lines = [f"HTTP/1.1 {status} {_reason(status)}"]
    if status in _BODILESS:
        body = b""
    else:
        lines.append(f"content-length: {len(body)}")
    if content_type:
        lines.append(f"content-type: {content_type}")
    lines += [f"{name}: {value}" for name, value in headers]
    return ReceiverAnswer(status, ("\r\n".join(lines) + "\r\n").encode("latin-1"), body)


def json_answer(content: object, status: int = 200, *, indent: int = 0) -> ReceiverAnswer:
    text = msgspec.json.encode(content)
    return answer(status, msgspec.json.format(text, indent=indent) if indent else text, "application/json")


class Connections:
    """All open connections."""

    def __init__(self, handle: Handle, connections_max: int) -> None:
        self.handle = handle
        self._max = connections_max
        self._open: set[ReceiverConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def connect(self) -> ReceiverConnection:
        """Make a connection: the protocol factory for asyncio's `create_server`."""
        if self._sweep is None:
            self._schedule_sweep()
        return ReceiverConnection(self)

    def admit(self, connection: ReceiverConnection) -> bool:
        if len(self._open) >= self._max:
            return False
        self._open.add(connection)
        return True

    def forget(self, connection: ReceiverConnection) -> None:
        self._open.discard(connection)

    def close(self) -> None:
        """Close every connection; pending answers are not sent."""
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._open):
            connection.close()

    def _schedule_sweep(self) -> None:
        self._sweep = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, self._close_idle)

    def _close_idle(self) -> None:
        for connection in list(self._open):
            connection.close_if_idle()
        self._schedule_sweep()


class ReceiverConnection(asyncio.Protocol):
    """One client's connection. Requests are answered one after another, in order."""

    __slots__ = (
        "_body",
        "_connections",
        "_head_bytes",
        "_headers",
        "_idle",
        "_in_head",
        "_long_target",
        "_oversize",
        "_parser",
        "_requests",
        "_target",
        "_task",
        "_transport",
    )

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._requests: deque[IncomingRequest] = deque()
        self._task: asyncio.Task[ReceiverAnswer | None] | None = None
        self._transport: asyncio.Transport
        self._idle = False
        self._oversize = False
        self._long_target = False
        self._head_bytes = 0
        self._reset()

    # -- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        if not self._connections.admit(self):
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._idle = False
        requests, body_bytes = len(self._requests), len(self._body)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            raise  # our own fault: asyncio logs it and closes
        except httptools.HttpParserUpgrade:
            pass  # answer the request, ignore the upgrade
        except httptools.HttpParserError:
            self._requests.clear()
            self._refuse(400)
            return
        if self._target and len(self._requests) == requests:  # a complete head resets it to 0, as a body's progress
            self._head_bytes = self._head_bytes + len(data) if len(self._body) == body_bytes else 0
        if self._oversize:
            self._refuse(413)
        elif self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(431)
        elif self._long_target:
            self._requests.clear()
            self._refuse(414)
        elif self._waits_too_long():
            self._transport.abort()
        else:
            self._serve()

    def pause_writing(self) -> None:
        self._transport.pause_reading()  # read nothing from a client that does not read its answers

    def resume_writing(self) -> None:
        self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.forget(self)
        self._requests.clear()
        if self._task is not None:
            self._task.cancel()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._transport.close()

    def close_if_idle(self) -> None:
        if self._idle and self._task is None:
            self._transport.close()
        self._idle = True

    # -- parser callbacks----------------------------------------------------------------------------------------------

    def on_url(self, part: bytes) -> None:
        self._target += part
        if len(self._target) > TARGET_BYTES_MAX:
            self._long_target = True  # may end in this read, and be reset

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers are dropped
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        if self._headers.get(b"expect", b"").lower() == b"100-continue":
            self._transport.write(_CONTINUE)

    def on_body(self, chunk: bytes) -> None:
        if len(self._body) + len(chunk) > BODY_BYTES_MAX:
            self._oversize = True
        else:
            self._body += chunk

    def on_message_complete(self) -> None:
        parser = self._parser
        keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        self._requests.append(
            IncomingRequest(parser.get_method(), self._target, self._headers, bytes(self._body), keep_alive)
        )
        self._reset()

    def _reset(self) -> None:
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._body = bytearray()
        self._in_head = True

    def _waits_too_long(self) -> bool:
        waiting = self._requests
        if len(waiting) > REQUESTS_WAITING_MAX:
            return True
        return len(waiting) > 1 and sum(len(each.body) for each in waiting) > 2 * BODY_BYTES_MAX

    # -- answers ------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while self._requests and self._task is None and not self._transport.is_closing():
            reply = self._connections.handle(self._requests[0])
            if reply is None or isinstance(reply, ReceiverAnswer):
                self._write(reply)
            else:
                self._task = asyncio.get_running_loop().create_task(reply)
                self._task.add_done_callback(self._replied)

    def _replied(self, task: asyncio.Task[ReceiverAnswer | None]) -> None:
        self._task = None
        if task.cancelled() or self._transport.is_closing():
            return
        reply = None
        try:
            reply = task.result()
        finally:  # an exception is our own fault: asyncio logs it
            self._write(reply)
        self._serve()

    def _write(self, reply: ReceiverAnswer | None) -> None:
        request = self._requests.popleft()
        if reply is None:
            self._transport.abort()
            return
        end = b"\r\n" if request.keep_alive else b"connection: close\r\n\r\n"
        self._transport.write(reply.head + end + (b"" if request.method == b"HEAD" else reply.body))
        if not request.keep_alive:
            self._transport.close()

    def _refuse(self, status: int) -> None:
        """Answer an invalid request, and close the connection."""
        if self._task is None:
            self._transport.write(answer(status).head + b"connection: close\r\n\r\n")
        self.close()


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unnamed"
