"""uvicorn's HTTP protocol with a short way for AWS calls, and with bounds on what a client can make it hold.

A call that the front door claims is read, answered and written here, without ASGI's messages between: head and body of
the answer are one write, where uvicorn makes two system calls (ADR 0002 has the measurements). Everything else takes
uvicorn's way to the FastAPI app.

Bounds of one connection, checked here: the size of head, body, chunk framing and trailers; the number of requests read
ahead of their turn; the answers that the client has not taken; the time for each. `ConnectionTable` has the bounds of
all connections together.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from cns_common.aws.front_door import FrontDoor
from cns_common.aws.http_request import HttpRequest
from cns_common.aws.protocol.errors import Answer
from cns_common.peer_address import peer_address
from cns_server.http.connection_table import ConnectionTable, network_of
from cns_server.http.coroutine_driver import Eager

HEAD_S = 10.0
"""From the first byte of a request, or from connecting, until its head has come."""
BODY_PROGRESS_S = 30.0
BODY_PROGRESS_BYTES_MIN = 16 * 1024
"""So much of a body, or its end, comes within BODY_PROGRESS_S."""
WRITE_S = 60.0
"""A client that takes no byte of a waiting answer for so long is cut off."""
PAGE_BODY_BYTES_MAX = 256 * 1024
"""Of a request that is no AWS call, with its framing: no page reads more than 64 KiB."""
FRAMING_BYTES_MAX = 64 * 1024
"""Of chunk headers and trailers beyond the bytes that a body may have."""
TRAILER_BYTES_MAX = 8 * 1024
"""Of bytes after the head without a byte of body among them: trailers, or one chunk header with its extensions."""
READ_BYTES_MAX = 64 * 1024
"""After more than this in one piece, a connection is not read before the piece is dealt with."""
SLICE_BYTES = 4 * 1024
"""Of a body in chunks, parsed at once."""
ANSWER_BYTES_MAX = 64 * 1024
"""While more than this waits for the client to take it, its connection is not read and its next request waits."""
WAITING_REQUEST_BYTES = 5_120
"""What a request takes that was parsed before its turn, its body left out."""

_END = b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_BAD_FRAMING = b"HTTP/1.1 400 Bad Request" + _END
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout" + _END
_BODY_TOO_LARGE = b"HTTP/1.1 413 Content Too Large" + _END
_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large" + _END
_OVERLOADED = b"HTTP/1.1 503 Service Unavailable" + _END
_HEAD_END = b"\r\n\r\n"
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

    def resume_reading(self) -> None:
        """Not while the client leaves answers unread: it would only add to them."""
        if not self.write_paused:
            super().resume_reading()


class ApiProtocol(HttpToolsProtocol):
    """`front`, `table` and `head_bytes_max` are the class's, set by `serving`."""

    # slots, because with uvicorn's attributes they are too many for instances to share the keys of their dictionaries
    __slots__ = (
        "_body",
        "_framing_bytes",
        "_head_bytes",
        "_holds",
        "_in_head",
        "_in_message",
        "_message_bytes",
        "_page",
        "_parsed",
        "_pipelines",
        "_progress_bytes",
        "_reading",
        "_reading_on",
        "_size",
        "_under_way",
        "_unparsed",
        "_waiting_since_s",
        "_write_since_s",
        "_written_left",
        "network",
    )

    front: FrontDoor
    table: ConnectionTable
    head_bytes_max: int
    pipeline: Pipeline  # type: ignore[assignment]  # it has what uvicorn uses of a deque

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], **options: Any) -> None:
        super().__init__(config, server_state, app_state, **options)
        self.pipeline = Pipeline()
        self.network = ""
        self._reading: HttpRequest | None = None  # of an AWS call, until all of it has come
        self._body: bytes | bytearray = b""
        self._size = 0
        self._in_message = False
        self._in_head = True
        self._head_bytes = 0
        self._message_bytes = 0  # that came after the head, framing included
        self._framing_bytes = 0  # of them, those since the last byte of body
        self._progress_bytes = 0  # `_message_bytes` when the time for progress began
        self._unparsed = b""  # came, but is left for later, without the first `_parsed` bytes
        self._parsed = 0
        self._pipelines = False  # it has sent more than one request at once
        self._page: Any = None  # the app that answers it, until its body has come
        self._reading_on = False  # the loop is about to call `_read_on`
        self._under_way = False  # a request is being answered
        self._holds = False  # the table counts bytes of this connection
        self._waiting_since_s = 0.0  # for the client's next byte, or for progress; 0: not waiting for it
        self._written_left = 0  # bytes not taken by the client at the last look
        self._write_since_s = 0.0

    @classmethod
    def serving(cls, front: FrontDoor, head_bytes_max: int, table: ConnectionTable) -> type[ApiProtocol]:
        return type(cls.__name__, (cls,), {"front": front, "head_bytes_max": head_bytes_max, "table": table})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=ANSWER_BYTES_MAX)
        self.flow = Flow(transport)
        if self.client is not None:
            self.client = (peer_address(self.client[0]), self.client[1])
            self.network = network_of(self.client[0])
        now_s = self._waiting_since_s = self.loop.time()
        if not self.table.admit(self, now_s):
            self._refuse(_OVERLOADED)

    def connection_lost(self, exc: Exception | None) -> None:
        self.table.forget(self)
        self._unparsed = b""
        super().connection_lost(exc)

    # -- reading ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if len(data) > READ_BYTES_MAX:
            self.flow.pause_reading()  # else libuv reads 32 times as much before the loop comes to the first of it
        self.loop.call_soon(self._received, data)

    def _received(self, data: bytes) -> None:
        if len(data) > SLICE_BYTES or self._pipelines or self._unparsed or self.pipeline or self.flow.write_paused:
            self._unparsed = self._unparsed[self._parsed :] + data if self._unparsed else data
            self._parsed = 0
            self._read_on()
        elif not self.transport.is_closing():  # else it is of a request that nobody answers
            answered = self.server_state.total_requests
            self._parse(data)
            self._pipelines = self.server_state.total_requests > answered + 1
            if self._in_message or self._holds or self.pipeline:
                self._account()

    def _read_on(self) -> None:
        """Parse the next request of what has come, or the next slice of chunks: then it is other connections' turn."""
        self._reading_on = False
        while self._may_parse():
            data, start = self._unparsed, self._parsed
            self._parsed = end = start + self._slice_bytes()
            if end >= len(data):
                self._unparsed, self._parsed = b"", 0
            self._parse(memoryview(data)[start:end])
            if self.transport.is_closing():
                return
            if not self._in_message or self._in_head or self._body_left() is None:
                break
        if self.transport.is_closing():
            return
        if self._unparsed or self.pipeline:
            self.flow.pause_reading()
            if self._may_parse():
                self._read_on_soon()
        else:
            self.flow.resume_reading()
        self._account()

    def _may_parse(self) -> bool:
        """Not ahead of the answers: a request is read when the one before is answered, and the client takes answers."""
        if not self._unparsed or self.pipeline or self.flow.write_paused:
            return False
        return (self._in_message or not self._under_way) and not self.transport.is_closing()

    def _slice_bytes(self) -> int:
        """To parse at once: to the end of the head, or of a body whose length it says."""
        if self._in_head:
            end = self._unparsed.find(_HEAD_END, self._parsed, self._parsed + self.head_bytes_max)
            return self.head_bytes_max if end < 0 else end + len(_HEAD_END) - self._parsed
        left = self._body_left()
        return SLICE_BYTES if left is None else max(1, left)

    def _body_left(self) -> int | None:
        """How much of the body is still to come; None: it does not say."""
        headers = self._reading.headers if self._reading is not None else self.cycle.scope["headers"]
        length = next((value for name, value in headers if name == b"content-length"), None)
        return None if length is None else int(length) - self._size

    def _read_on_soon(self) -> None:
        if not self._reading_on:
            self._reading_on = True
            self.table.take_turn(self._read_on, self.loop)

    def _parse(self, data: bytes | memoryview) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        else:
            self._message_bytes += len(data)
            self._framing_bytes += len(data)
        super().data_received(data)  # type: ignore[arg-type]  # the parser takes any buffer
        if not self._in_message:
            return
        if self._in_head:
            if self._head_bytes > self.head_bytes_max:
                self._refuse(_HEAD_TOO_LARGE)
        elif self._framing_bytes > TRAILER_BYTES_MAX:
            self._refuse(_BAD_FRAMING)
        elif self._message_bytes > self._message_bytes_max():
            self._refuse(_BODY_TOO_LARGE)

    def _message_bytes_max(self) -> int:
        """Twice what a call may have, so that a body which is a little too large is still answered as AWS does."""
        return PAGE_BODY_BYTES_MAX if self._reading is None else 2 * self.front.body_bytes_max + FRAMING_BYTES_MAX

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self._in_message = True
        self._waiting_since_s = 0.0

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._message_bytes = self._framing_bytes = self._progress_bytes = 0
        self._waiting_since_s = 0.0
        if self._head_bytes > self.head_bytes_max and _size(self.url, self.headers) > self.head_bytes_max:
            raise HeadTooLarge  # answered with 400
        raw_path, query = _split(self.url)
        path = raw_path.decode("ascii")
        if "%" in path:
            path = urllib.parse.unquote(path)
        if not self.front.claims(path):
            self._begin_page()
            return
        before: Any = self.cycle
        method = self.parser.get_method().decode("ascii")
        keep_alive = self.parser.should_keep_alive() and self.parser.get_http_version() != "1.0"
        exchange = Exchange(keep_alive, method == "HEAD")
        request = HttpRequest(
            method,
            path,
            raw_path,
            query,
            self.headers,
            self.scheme or "http",
            self.client[0] if self.client else "",
            exchange.when_gone,
        )
        self.headers = []  # for trailers, which nothing reads
        self.cycle = exchange  # type: ignore[assignment]  # what uvicorn wants of a cycle, an exchange has
        self._reading = request
        if b"expect" in request.fields:
            self.transport.write(_CONTINUE)
        if (before is not None and not before.response_complete) or self.flow.write_paused:
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
        if self.expect_100_continue:
            self.transport.write(_CONTINUE)
            self.cycle.waiting_for_100_continue = False
        self.headers = []  # for trailers, which nothing reads

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        self._size += len(body)
        if self._reading is None:
            super().on_body(body)
            if self._page is not None and len(self.cycle.body) > HIGH_WATER_LIMIT:
                self._start_page(self.cycle, self._page)
            return
        if self._size > self.front.body_bytes_max:
            self._body = b""
        elif self._size == len(body):
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body

    def on_message_complete(self) -> None:
        self._in_message = False
        self._in_head = True
        self._head_bytes = 0
        self._waiting_since_s = 0.0
        exchange: Any = self.cycle
        request, self._reading = self._reading, None
        size, self._size = self._size, 0
        if request is None:
            super().on_message_complete()
            if self._page is not None:
                self._start_page(exchange, self._page)
            elif exchange.response_complete:  # before the body had come
                self._waiting_since_s = self.loop.time()
            return
        if size <= self.front.body_bytes_max:
            request.body = bytes(self._body)  # which is itself, if it came in one piece
        self._body = b""
        if not self.pipeline or self.pipeline[0][1] is not request:
            self._start(exchange, request)

    def _refuse(self, answer: bytes) -> None:
        """End the connection, with this answer if nothing else has to be answered before."""
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle
        if not self.pipeline and (not self._under_way or not getattr(cycle, "response_started", True)):
            self.transport.write(answer)
        self.transport.close()
        self._let_go()

    # -- limits -------------------------------------------------------------------------------------------------------

    def _account(self) -> None:
        """After data that left something unfinished: tell the table what this connection holds, and since when."""
        held = len(self._unparsed) + WAITING_REQUEST_BYTES * len(self.pipeline)
        if self._in_message:
            now_s = self.loop.time()
            held += self._head_bytes + (self._message_bytes if self._reading is None else len(self._body))
            if not self._in_head and self._message_bytes - self._progress_bytes >= BODY_PROGRESS_BYTES_MIN:
                self._progress_bytes = self._message_bytes
                self._waiting_since_s = now_s
            elif not self._waiting_since_s:
                self._waiting_since_s = now_s
        if self.flow.write_paused:
            held += self.transport.get_write_buffer_size()
        self._holds = held > 0
        self.table.hold(self, held)

    def _let_go(self) -> None:
        self._unparsed, self._parsed = b"", 0
        self.pipeline.clear()
        self._body = b""
        self._holds = False
        self.table.hold(self, 0)

    def waiting_since_s(self) -> float | None:
        if not self._waiting_since_s or self._has_to_answer() or self.transport.is_closing():
            return None
        return self._waiting_since_s

    def _has_to_answer(self) -> bool:
        """Whether this side is the one that is waited for: the client may send the next request later, or cannot."""
        return self.flow.read_paused or (self._under_way and self._in_head)

    def enforce_deadlines(self, now_s: float) -> None:
        if self._waiting_since_s:
            if self._has_to_answer():
                self._waiting_since_s = now_s
            elif now_s - self._waiting_since_s >= self._patience_s() and not self.transport.is_closing():
                if self._in_message:
                    self._refuse(_TOO_SLOW)
                else:
                    self.transport.close()
        left = self.transport.get_write_buffer_size()
        if left and left >= self._written_left > 0:
            if now_s - self._write_since_s >= WRITE_S:
                self.transport.abort()
        else:
            self._write_since_s = now_s
        self._written_left = left

    def _patience_s(self) -> float:
        if self._in_message:
            return HEAD_S if self._in_head else BODY_PROGRESS_S
        return HEAD_S if self.cycle is None else self.timeout_keep_alive

    def make_room(self) -> None:
        if self._in_message:
            self._refuse(_OVERLOADED)
        else:
            self.transport.close()
        self._let_go()
        if self.transport.get_write_buffer_size() > len(_OVERLOADED):
            self.transport.abort()  # else it would hold until the client takes it

    def pause_writing(self) -> None:
        super().pause_writing()
        if not self.transport.is_closing():
            self.flow.pause_reading()
            self._account()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.transport.is_closing():
            return
        if self._holds:
            self._account()
        if not (self.pipeline or self._unparsed):
            self.flow.resume_reading()
        self._go_on()

    # -- answering ----------------------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """`app` is the request, if it is an AWS call."""
        if not isinstance(cycle, Exchange):
            if cycle.more_body and len(cycle.body) <= HIGH_WATER_LIMIT:
                self._page = app  # it starts when its body has come: a client that hangs up before costs little
            else:
                self._start_page(cycle, app)
        elif app is not self._reading:  # else it starts when it has come
            self._under_way = True
            self.loop.call_soon(self._start, cycle, app)  # not at once: one pipelined call would begin inside another

    def _start_page(self, cycle: Any, app: Any) -> None:
        self._page = None
        self._under_way = True
        super()._start_asgi_task(cycle, app)

    def _start(self, exchange: Exchange, request: HttpRequest) -> None:
        self._under_way = True
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
        self._under_way = False
        if not self.transport.is_closing():
            self._go_on()

    def _go_on(self) -> None:
        """Start the next request, or read it, unless one is being answered or the client leaves answers unread."""
        if self._under_way or self.flow.write_paused:
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            self._account()
            if self.pipeline:
                return
        elif not (self._in_message or self._unparsed):
            self._waiting_since_s = self.loop.time()
        if self._unparsed:
            self._read_on_soon()
        else:
            self.flow.resume_reading()

    def shutdown(self) -> None:
        """The server stops: a long poll ends empty, and the connection with it."""
        super().shutdown()
        if isinstance(self.cycle, Exchange):
            self.cycle.set()
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self.transport.abort()  # an idle client does not read TLS's goodbye, and would be waited for


def _size(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Path and query. The parser has checked the characters; its own function for this takes 16 ns for each."""
    if url[:1] == b"/" and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path, parsed.query or b""


class HeadTooLarge(Exception):
    """The URL and headers of a request are larger than allowed."""
