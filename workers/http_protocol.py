"""uvicorn's HTTP protocol with a bound on request heads, and a short way for AWS calls.

A call that the front door claims is read, answered and written here, without ASGI's messages between: head and body of
the answer are one write, where uvicorn makes two system calls (ADR 0002 has the measurements). Everything else takes
uvicorn's way to the FastAPI app.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from common.aws.front import FrontDoor
from common.aws.protocol.errors import Answer
from common.aws.request import HttpRequest
from common.eager import Eager

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Exchange:
    """One AWS call under way. It stands where uvicorn keeps its own cycles, and has what uvicorn looks for there.

    It does not hold the request, so that what was read goes as soon as who answers needs it no more: a poll may wait.
    """

    __slots__ = ("_on_gone", "bodiless", "disconnected", "keep_alive", "response_complete")

    def __init__(self, keep_alive: bool, bodiless: bool) -> None:
        self.keep_alive = keep_alive
        self.bodiless = bodiless  # the answer is to be a head alone
        self.response_complete = False
        self.disconnected = False
        self._on_gone: Callable[[], None] | None = None

    @property
    def message_event(self) -> Exchange:
        """uvicorn sets its cycle's event when the connection is lost."""
        return self

    def set(self) -> None:
        if self._on_gone is not None:
            self._on_gone()

    def when_gone(self, callback: Callable[[], None]) -> None:
        self._on_gone = callback
        if self.disconnected:
            callback()


class Pipeline(list[tuple[Any, Any]]):
    """Requests that came before their turn, the last first. There seldom are any, and uvicorn's empty deque takes 760
    bytes of each connection."""

    __slots__ = ()

    def appendleft(self, ahead: tuple[Any, Any]) -> None:
        self.insert(0, ahead)


class Flow(FlowControl):
    """uvicorn's, without an event (and its deque) before a client reads too slowly."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.read_paused = False
        self.write_paused = False

    def pause_writing(self) -> None:
        self._is_writable_event = asyncio.Event()
        super().pause_writing()


class ApiProtocol(HttpToolsProtocol):
    """`front` and `head_bytes_max` are the class's, set by `serving`."""

    # slots, because with uvicorn's attributes they are too many for instances to share the keys of their dictionaries
    __slots__ = ("_head_bytes", "_idle_since_s", "_in_head", "_parts", "_reading", "_size")

    front: FrontDoor
    head_bytes_max: int
    pipeline: Pipeline  # type: ignore[assignment]  # it has what uvicorn uses of a deque

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], **options: Any) -> None:
        super().__init__(config, server_state, app_state, **options)
        self.pipeline = Pipeline()
        self._reading: HttpRequest | None = None  # of an AWS call, until all of it has come
        self._parts: list[bytes] = []
        self._size = 0
        self._in_head = True
        self._head_bytes = 0
        self._idle_since_s = 0.0  # 0 while a request is being read or answered

    @classmethod
    def serving(cls, front: FrontDoor, head_bytes_max: int) -> type[ApiProtocol]:
        return type(cls.__name__, (cls,), {"front": front, "head_bytes_max": head_bytes_max})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self.flow = Flow(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency:
            transport.write(_TOO_MANY)
            transport.close()

    # -- reading ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self.loop.call_soon(self._received, data)

    def _received(self, data: bytes) -> None:
        self._idle_since_s = 0.0
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > self.head_bytes_max and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._head_bytes > self.head_bytes_max and _size(self.url, self.headers) > self.head_bytes_max:
            raise HeadTooLarge  # answered with 400
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        if "%" in path:
            path = urllib.parse.unquote(path)
        if not self.front.claims(path):
            self._begin_page()
            return
        before: Any = self.cycle
        method = self.parser.get_method().decode("ascii")
        exchange = Exchange(self.parser.should_keep_alive(), method == "HEAD")
        request = HttpRequest(
            method,
            path,
            url.path,
            url.query or b"",
            self.headers,
            self.scheme or "http",
            self.client[0] if self.client else "",
            exchange.when_gone,
        )
        self.headers = []
        self.cycle = exchange  # type: ignore[assignment]  # what uvicorn wants of a cycle, an exchange has
        self._reading = request
        if b"expect" in request.fields:
            self.transport.write(_CONTINUE)
        if before is not None and not before.response_complete:
            self.flow.pause_reading()  # pipelined: it waits its turn
            self.pipeline.appendleft((exchange, request))

    def _begin_page(self) -> None:
        """Take uvicorn's way, from its beginning."""
        url, headers = self.url, self.headers
        super().on_message_begin()
        super().on_url(url)
        for name, value in headers:
            super().on_header(name, value)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._reading is None:
            super().on_body(body)
            return
        self._size += len(body)
        if self._size <= self.front.body_bytes_max:
            self._parts.append(body)
        else:
            self._parts.clear()

    def on_message_complete(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        exchange: Any = self.cycle
        request, self._reading = self._reading, None
        if request is None:
            super().on_message_complete()
            return
        if self._size <= self.front.body_bytes_max:
            request.body = b"".join(self._parts)  # which is the part itself, if it is the only one
        self._parts.clear()
        self._size = 0
        if not self.pipeline or self.pipeline[0][1] is not request:
            self._start(exchange, request)

    # -- answering ----------------------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """`app` is the request, if it is an AWS call."""
        if not isinstance(cycle, Exchange):
            super()._start_asgi_task(cycle, app)
        elif app is not self._reading:  # else it starts when it has come
            self.loop.call_soon(self._start, cycle, app)  # not at once: one pipelined call would begin inside another

    def _start(self, exchange: Exchange, request: HttpRequest) -> None:
        Eager(self._answer(exchange, self.front.answer(request)), self.loop)

    async def _answer(self, exchange: Exchange, answering: Coroutine[Any, Any, Answer]) -> None:
        status, headers, body = await answering
        exchange.response_complete = True
        if exchange.disconnected or self.transport.is_closing():
            return
        if not exchange.keep_alive:
            headers.append((b"connection", b"close"))
        parts = [_STATUS_LINES[status]]
        for name, value in self.server_state.default_headers:
            parts += (name, b": ", value, b"\r\n")
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        parts += (b"content-length: %d\r\n\r\n" % len(body), b"" if exchange.bodiless else body)
        self.transport.write(b"".join(parts))
        if not exchange.keep_alive:
            self.transport.close()
        self.on_response_complete()

    # -- between requests ---------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since_s = self.loop.time()
            if self.timeout_keep_alive_task is None:
                self._look_when_idle(self.timeout_keep_alive)

    def _look_when_idle(self, in_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(in_s, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """One timer a connection, not one a request: it looks again when the connection was used meanwhile."""
        self.timeout_keep_alive_task = None
        if self.transport.is_closing():
            return
        idle_s = self.loop.time() - self._idle_since_s if self._idle_since_s else 0.0
        if idle_s >= self.timeout_keep_alive:
            self.transport.close()
        else:
            self._look_when_idle(self.timeout_keep_alive - idle_s)

    def _unset_keepalive_if_required(self) -> None:
        """uvicorn cancels its timer here whenever data comes; ours stays, but for the end of the connection."""
        if self.transport.is_closing() and self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def shutdown(self) -> None:
        """The server stops: a long poll ends empty, and the connection with it."""
        super().shutdown()
        if isinstance(self.cycle, Exchange):
            self.cycle.set()
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self.transport.abort()  # an idle client does not read TLS's goodbye, and would be waited for


def _size(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


class HeadTooLarge(Exception):
    """The URL and headers of a request are larger than allowed."""
