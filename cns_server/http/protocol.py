"""The HTTP protocol of an API process: AWS calls without ASGI, everything else through uvicorn to the FastAPI app.

A call that the front door claims is read, answered and written here. Head and body of the response are one write, where
uvicorn makes two system calls (ADR 0002 has the measurements).
"""

from __future__ import annotations

import asyncio
import math
import urllib.parse
from collections.abc import Coroutine, Iterable
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.server import ServerState

from cns_common.aws.front_door import FrontDoor
from cns_common.aws.http_request import HttpRequest
from cns_common.aws.protocol.errors import HttpAnswer, render_error_json
from cns_common.errors import OutcomeUnknown
from cns_common.ids import uuid_text
from cns_server.http.bounded_protocol import BoundedProtocol, HeadTooLarge
from cns_server.http.connection_table import ConnectionTable
from cns_server.http.coroutine_driver import CoroutineDriver
from cns_server.http.exchange import Exchange
from cns_server.http.trusted_proxies import TrustedProxies
from cns_server.refusals import REFUSALS, refusal

PAGE_BODY_BYTES_MAX = 256 * 1024
"""Limit of body and framing of a request that is no AWS call: no page reads more than 64 KiB."""
REST_PREFIX = b"/api/"
"""The path of requests that are no AWS calls and may be as large as these."""
FRAMING_BYTES_MAX = 64 * 1024
"""Limit of chunk headers and trailers of an AWS call, beyond the limit of its body."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class ApiProtocol(BoundedProtocol):
    """A connection to an API process. `serving` makes the class for one front door."""

    __slots__ = ("_body", "_call", "_is_rest", "_page", "_request", "_size")

    front: FrontDoor
    call_s: float

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], **options: Any) -> None:
        super().__init__(config, server_state, app_state, **options)
        self._request: HttpRequest | None = None  # an AWS call that is not read to its end
        self._body: bytes | bytearray = b""
        self._size = 0
        self._is_rest = False  # whether the request is one of the REST API
        self._page: Any = None  # the ASGI app of a request whose body is not read to its end
        self._call: tuple[Exchange, CoroutineDriver] | None = None  # the newest AWS call that was started

    @classmethod
    def serving(
        cls,
        front: FrontDoor,
        head_bytes_max: int,
        table: ConnectionTable,
        call_s: float = math.inf,
        *,
        proxies: TrustedProxies | None = None,
        asks_certificates: bool = False,
    ) -> type[ApiProtocol]:
        """A call that is not answered after `call_s`, beyond the wait of a long poll, is refused."""
        attributes = {"front": front, "head_bytes_max": head_bytes_max, "table": table, "call_s": call_s}
        callers = {"proxies": proxies, "asks_certificates": asks_certificates}
        return type(cls.__name__, (cls,), {**attributes, **callers})

    # -- reading ------------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self._in_message = True
        self._waiting_since_s = 0.0

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._head_bytes > self.head_bytes_max and _head_bytes(self.url, self.headers) > self.head_bytes_max:
            raise HeadTooLarge
        self._in_head = False
        self._message_bytes = self._framing_bytes = self._progress_bytes = 0
        self._waiting_since_s = 0.0
        if self.parser.should_upgrade():
            self._skipped_bytes = _length_of_skipped(self.headers)
        if self._peer is not None and self.proxies is not None:
            self.client, self.scheme = self.proxies.origin(self._peer, self.headers)
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
            extend=exchange.extend,
            client_subject=self._subject,
        )
        self.headers = []  # for trailers, which nothing reads
        self.cycle = exchange  # type: ignore[assignment]  # it has the attributes that uvicorn reads of a cycle
        self._request = request
        if b"expect" in request.fields:
            self.transport.write(_CONTINUE)
        if (before is not None and not before.response_complete) or self.flow.write_paused:
            self.flow.pause_reading()  # pipelined: it waits its turn
            self.pipeline.appendleft((exchange, request))

    def _begin_page(self) -> None:
        """Hand the request to uvicorn, from its beginning."""
        url, headers = self.url, self.headers
        self._is_rest = url.startswith(REST_PREFIX)
        super().on_message_begin()
        super().on_url(url)
        if self._subject:
            self.scope["extensions"] = {"tls": {"client_cert_name": self._subject}}
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
        if self._request is None:
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
        if self._skipped_bytes:
            return  # the body is still to come
        self._in_message = False
        self._in_head = True
        self._head_bytes = 0
        self._waiting_since_s = 0.0
        exchange: Any = self.cycle
        request, self._request = self._request, None
        size, self._size = self._size, 0
        if request is None:
            super().on_message_complete()
            if self._page is not None:
                self._start_page(exchange, self._page)
            elif exchange.response_complete:  # before the body arrived
                self._waiting_since_s = self.loop.time()
            return
        if size <= self.front.body_bytes_max:
            request.body = bytes(self._body)  # no copy, if it arrived in one piece
        self._body = b""
        if not self.pipeline or self.pipeline[0][1] is not request:
            self._start(exchange, request)

    def _body_left(self) -> int | None:
        length = next((value for name, value in self._headers_read() if name == b"content-length"), None)
        return None if length is None else int(length) - self._size

    def _headers_read(self) -> Iterable[tuple[bytes, bytes]]:
        """The headers of the request that is being read."""
        if self._in_head:
            return self.headers
        return self._request.headers if self._request is not None else self.cycle.scope["headers"]

    def _message_bytes_max(self) -> int:
        """Twice the limit of a call's body: the front door answers a body slightly above the limit with AWS's error."""
        is_page = self._request is None and not self._is_rest
        return PAGE_BODY_BYTES_MAX if is_page else 2 * self.front.body_bytes_max + FRAMING_BYTES_MAX

    def _held_body_bytes(self) -> int:
        return self._message_bytes if self._request is None else len(self._body)

    def _drop_body(self) -> None:
        self._body = b""

    # -- answering ----------------------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """uvicorn calls it with its cycle and app; the queue of requests, with an exchange and its request."""
        if not isinstance(cycle, Exchange):
            if cycle.more_body and len(cycle.body) <= HIGH_WATER_LIMIT:
                self._page = app  # starts when its body has arrived: a client that hangs up before costs little
            else:
                self._start_page(cycle, app)
        elif app is not self._request:  # else `on_message_complete` starts it
            self._answering = True
            self.loop.call_soon(self._start, cycle, app)  # not at once: pipelined calls would nest

    def _start_page(self, cycle: Any, app: Any) -> None:
        self._page = None
        self._answering = True
        super()._start_asgi_task(cycle, app)

    def _start(self, exchange: Exchange, request: HttpRequest) -> None:
        self._answering = True
        exchange.until_s = self.loop.time() + self.call_s
        self._call = exchange, CoroutineDriver(self._answer(exchange, self.front.answer(request)), self.loop)

    async def _answer(self, exchange: Exchange, answer: Coroutine[Any, Any, HttpAnswer]) -> None:
        answered = await answer
        exchange.response_complete = True
        if exchange.disconnected or self.transport.is_closing():
            return
        ends = not exchange.keep_alive or self.front.leaving
        self.transport.write(self._encoded(answered, ends=ends, bodiless=exchange.bodiless))
        if ends:
            self.transport.close()
        self.on_response_complete()

    def _refusal(self, status: int) -> bytes:
        """In the protocol of the request, as far as it has arrived. If nothing has, without a body: an SDK takes none
        for an error of its protocol, and stumbles over that of another."""
        error = REFUSALS[status]
        if self._in_message:
            answer = refusal(error, self.url.decode("latin-1"), self._headers_read(), self.front.cors)
        else:
            answer = render_error_json("sqs", error, uuid_text())._replace(body=b"")
        return self._encoded(answer, ends=True)

    def _encoded(self, answer: HttpAnswer, *, ends: bool, bodiless: bool = False) -> bytes:
        status, headers, body = answer
        if ends:
            headers.append((b"connection", b"close"))
        parts = [_STATUS_LINES[status]]
        for name, value in self.server_state.default_headers:
            parts += (name, b": ", value, b"\r\n")
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        parts += (b"content-length: %d\r\n\r\n" % len(body), b"" if bodiless else body)
        return b"".join(parts)

    def enforce_deadlines(self, now_s: float) -> None:
        super().enforce_deadlines(now_s)
        if self._call is not None and now_s >= self._call[0].until_s:
            _interrupt(*self._call)

    def shutdown(self) -> None:
        """The server stops: end the connection, and a long poll on it with an empty response."""
        super().shutdown()
        if isinstance(self.cycle, Exchange):
            self.cycle.set()
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self.transport.abort()  # an idle client does not read TLS's close_notify, and would delay the stop


def _interrupt(exchange: Exchange, call: CoroutineDriver) -> None:
    """Fail a call that takes too long, as if its store had; if it handles that instead of ending, cancel it."""
    is_first = exchange.until_s > -math.inf
    exchange.until_s = -math.inf
    call.interrupt(OutcomeUnknown("the call takes too long") if is_first else asyncio.CancelledError())


def _head_bytes(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Path and query. The parser has checked the characters; httptools' own function for this is slower."""
    if url[:1] == b"/" and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path, parsed.query or b""


def _length_of_skipped(headers: list[tuple[bytes, bytes]]) -> int:
    """The length of a body that the parser skips. Raises BodyWithoutLength."""
    fields = dict(headers)
    if b"transfer-encoding" in fields:
        raise LengthRequired  # answered 400
    return int(fields.get(b"content-length", 0))


class LengthRequired(Exception):
    """A request for another protocol has a body in chunks, which the parser skips."""
