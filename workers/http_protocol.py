"""uvicorn's HTTP protocol with a bound on request heads, and a short way for AWS calls.

A call that the front door claims is read, answered and written here, without ASGI's messages between: head and body of
the answer are one write, where uvicorn makes two system calls (ADR 0002 has the measurements). Everything else takes
uvicorn's way to the FastAPI app.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from common.aws.front import FrontDoor
from common.aws.request import HttpRequest

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Exchange:
    """One AWS call under way. It stands where uvicorn keeps its own cycles, and has what uvicorn looks for there."""

    __slots__ = (
        "_gone",
        "body",
        "complete",
        "disconnected",
        "keep_alive",
        "parts",
        "request",
        "response_complete",
        "size",
    )

    def __init__(self, request: HttpRequest, keep_alive: bool) -> None:
        self.request = request
        self.parts: list[bytes] = []
        self.size = 0
        self.complete = False  # all of the request has been read
        self.keep_alive = keep_alive
        self.response_complete = False
        self.disconnected = False
        self._gone: asyncio.Future[None] | None = None

    @property
    def message_event(self) -> Exchange:
        """uvicorn sets its cycle's event when the connection is lost."""
        return self

    def set(self) -> None:
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    async def gone(self) -> None:
        """Returns once the caller has hung up."""
        if not self.disconnected:
            self._gone = asyncio.get_running_loop().create_future()
            await self._gone


class ApiProtocol(HttpToolsProtocol):
    """`front` and `head_bytes_max` are the class's, set by `serving`."""

    front: FrontDoor
    head_bytes_max: int

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], **options: Any) -> None:
        super().__init__(config, server_state, app_state, **options)
        self._in_head = True
        self._head_bytes = 0

    @classmethod
    def serving(cls, front: FrontDoor, head_bytes_max: int) -> type[ApiProtocol]:
        return type(cls.__name__, (cls,), {"front": front, "head_bytes_max": head_bytes_max})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency:
            transport.write(_TOO_MANY)
            transport.close()

    # -- reading ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > self.head_bytes_max and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._in_head = False
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        if "%" in path:
            path = urllib.parse.unquote(path)
        if not self.front.claims(path):
            super().on_headers_complete()
            return
        before = self.cycle
        exchange = Exchange(
            HttpRequest(
                method=self.parser.get_method().decode("ascii"),
                path=path,
                raw_path=url.path,
                query=url.query or b"",
                headers=self.headers,
                scheme=self.scheme or "http",
                source_ip=self.client[0] if self.client else "",
                body=None,
                hang_up=_never,
            ),
            self.parser.should_keep_alive(),
        )
        exchange.request.hang_up = exchange.gone
        self.cycle = exchange  # type: ignore[assignment]  # what uvicorn wants of a cycle, an exchange has
        if self.expect_100_continue:
            self.transport.write(_CONTINUE)
        if before is not None and not before.response_complete:
            self.flow.pause_reading()  # pipelined: it waits its turn
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        exchange = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_body(body)
            return
        exchange.size += len(body)
        if exchange.size <= self.front.body_bytes_max:
            exchange.parts.append(body)
        else:
            exchange.parts.clear()

    def on_message_complete(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        exchange = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_message_complete()
            return
        exchange.complete = True
        if exchange.size <= self.front.body_bytes_max:
            parts = exchange.parts
            exchange.request.body = parts[0] if len(parts) == 1 else b"".join(parts)
        if not self.pipeline or self.pipeline[0][0] is not exchange:
            self._start(exchange)

    # -- answering ----------------------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if not isinstance(cycle, Exchange):
            super()._start_asgi_task(cycle, app)
        elif cycle.complete:
            self._start(cycle)

    def _start(self, exchange: Exchange) -> None:
        task = self.loop.create_task(self._answer(exchange))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _answer(self, exchange: Exchange) -> None:
        status, headers, body = await self.front.answer(exchange.request)
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
        parts += (b"content-length: %d\r\n\r\n" % len(body), b"" if exchange.request.method == "HEAD" else body)
        self.transport.write(b"".join(parts))
        if not exchange.keep_alive:
            self.transport.close()
        self.on_response_complete()


async def _never() -> None:
    """Replaced as soon as the exchange exists."""
