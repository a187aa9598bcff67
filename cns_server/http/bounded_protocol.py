"""uvicorn's HTTP protocol with bounds on what one client can make the server hold.

Bounds of one connection, checked here: the size of head, body, chunk framing and trailers; the number of requests read
ahead of their turn; the bytes of responses that the client has not taken; the time for each. `ConnectionTable` has the
bounds of all connections together.
"""

from __future__ import annotations

import asyncio
import select
from typing import Any, Protocol

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from cns_common.aws.http_request import REQUEST_BYTES
from cns_common.peer_address import peer_address
from cns_server.http.connection_table import ClientConnection, ConnectionTable, network_of
from cns_server.http.exchange import LeanFlowControl, RequestQueue
from cns_server.http.proxy_header import ProxyHeader
from cns_server.http.trusted_proxies import Peer, TrustedProxies
from cns_server.server_tls import client_subject

HEAD_S = 10.0
"""Time limit for a head, from its first byte or from the connect."""
BODY_PROGRESS_S = 30.0
BODY_PROGRESS_BYTES_MIN = 16 * 1024
"""At least this much of a body, or its end, must arrive within BODY_PROGRESS_S."""
WRITE_S = 60.0
"""A client that takes no byte of a waiting response for this long is disconnected."""
TRAILER_BYTES_MAX = 8 * 1024
"""Limit of consecutive bytes after the head that carry no body: trailers, or one chunk header with its extensions."""
READ_BYTES_MAX = 64 * 1024
"""A connection that delivered more than this in one read is paused until the data is parsed."""
SLICE_BYTES = 4 * 1024
"""A body in chunks is parsed in slices of this size."""
RESPONSE_BYTES_MAX = 64 * 1024
"""While more than this waits for the client to take it, its connection is not read and its next request waits."""
REFUSAL_BYTES_MAX = 1_024
"""No refusal is longer."""

_BAD_FRAMING, _TOO_SLOW, _BODY_TOO_LARGE, _HEAD_TOO_LARGE, _OVERLOADED = 400, 408, 413, 431, 503
_HEAD_END = b"\r\n\r\n"
_MALFORMED = "Invalid HTTP request received."


class Proxied(ClientConnection, Protocol):
    """A connection whose PROXY header, if any, was read."""

    @property
    def header(self) -> ProxyHeader | None: ...


class BoundedProtocol(HttpToolsProtocol):
    """Parses what arrives within bounds. A subclass sets `table` and `head_bytes_max` and starts the answers.

    A client that pipelines, or sends more than one slice, has a backlog: unparsed bytes that are parsed one request or
    one slice at a time, in turns with the backlogs of other connections.
    """

    # slots: with uvicorn's attributes there are too many for instances to share the keys of their dictionaries
    __slots__ = (
        "_answering",
        "_backlog",
        "_backlog_offset",
        "_backlog_scheduled",
        "_framing_bytes",
        "_head_bytes",
        "_holds_bytes",
        "_in_head",
        "_in_message",
        "_message_bytes",
        "_peer",
        "_pipelines",
        "_progress_bytes",
        "_skipped_bytes",
        "_subject",
        "_unwritten_bytes",
        "_unwritten_since_s",
        "_waiting_since_s",
        "network",
        "proxied",
    )

    table: ConnectionTable
    head_bytes_max: int
    proxies: TrustedProxies | None = None
    asks_certificates: bool = False
    pipeline: RequestQueue  # type: ignore[assignment]  # it has the methods that uvicorn uses of a deque

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], **options: Any) -> None:
        super().__init__(config, server_state, app_state, **options)
        self.pipeline = RequestQueue()
        self.network = ""
        self.proxied: Proxied | None = None
        self._subject = ""  # of the caller's certificate
        self._peer: Peer | None = None  # a trusted proxy, whose requests have clients of their own
        self._in_message = False
        self._in_head = True
        self._head_bytes = 0
        self._message_bytes = 0  # received after the head, framing included
        self._framing_bytes = 0  # the part of them received since the last byte of body
        self._progress_bytes = 0  # `_message_bytes` at the start of the current BODY_PROGRESS_S
        self._skipped_bytes = 0  # of a body that the parser skips, still to come
        self._backlog = b""  # received, not parsed from `_backlog_offset` on
        self._backlog_offset = 0
        self._backlog_scheduled = False  # the table will call `_parse_backlog`
        self._pipelines = False  # the client has sent more than one request at once
        self._answering = False  # a request is being answered
        self._holds_bytes = False  # the table counts bytes of this connection
        self._waiting_since_s = 0.0  # start of the wait for the client's next byte or progress; 0: no wait
        self._unwritten_bytes = 0  # bytes that the client had not taken at the last sweep
        self._unwritten_since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=RESPONSE_BYTES_MAX)
        self.flow = LeanFlowControl(transport)
        self._identify(transport)
        now_s = self._waiting_since_s = self.loop.time()
        if not self.table.admit(self, now_s):
            self._refuse(_OVERLOADED)

    def _identify(self, transport: asyncio.Transport) -> None:
        """Decide who the client is: of this connection, or, for a proxy's, of each request (`proxies`)."""
        if self.client is not None:
            self.client = (peer_address(self.client[0]), self.client[1])
        header = None if self.proxied is None else self.proxied.header
        if self.proxied is not None:
            self.network = self.proxied.network
            self.table.remove(self.proxied)  # from now on it counts as this connection
        elif self.client is not None and self.proxies is not None and self.proxies.include(self.client[0]):
            self._peer = Peer(self.client, self.scheme or "http")
        elif self.client is not None:
            self.network = network_of(self.client[0])
        if header is not None:
            self.client = header.client or self.client
            if header.secure is not None:
                self.scheme = "https" if header.secure else "http"
        proxys_own = self._peer is not None or (header is not None and header.secure is not None)
        if self.asks_certificates and not proxys_own:  # a proxy's own certificate is not its clients'
            self._subject = client_subject(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.table.remove(self)
        self._backlog = b""
        super().connection_lost(exc)

    # -- asked of a subclass, about the request it reads --------------------------------------------------------------

    def _body_left(self) -> int | None:
        """Bytes of body that are still to come by its Content-Length; None: chunked."""
        raise NotImplementedError

    def _message_bytes_max(self) -> int:
        """Limit of body and framing of the current request."""
        raise NotImplementedError

    def _held_body_bytes(self) -> int:
        """Bytes kept of the body of the current request."""
        raise NotImplementedError

    def _drop_body(self) -> None:
        raise NotImplementedError

    def _refusal(self, status: int) -> bytes:
        """The response that refuses it, and ends the connection."""
        raise NotImplementedError

    # -- reading ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if len(data) > READ_BYTES_MAX:
            self.flow.pause_reading()  # else libuv reads 32 times as much before the loop runs `_received`
        self.loop.call_soon(self._received, data)

    def _received(self, data: bytes) -> None:
        if len(data) > SLICE_BYTES or self._pipelines or self._backlog or self.pipeline or self.flow.write_paused:
            self._backlog = self._backlog[self._backlog_offset :] + data if self._backlog else data
            self._backlog_offset = 0
            self._parse_backlog()
        elif not self.transport.is_closing():
            answered = self.server_state.total_requests
            self._parse(data)
            self._pipelines = self.server_state.total_requests > answered + 1
            if self._in_message or self._holds_bytes or self.pipeline:
                self._account()

    def _parse_backlog(self) -> None:
        """Parse the next request, or the next slice of chunks; then other connections take their turn."""
        self._backlog_scheduled = False
        while self._may_parse():
            data, start = self._backlog, self._backlog_offset
            self._backlog_offset = end = start + self._next_slice_bytes()
            if end >= len(data):
                self._backlog, self._backlog_offset = b"", 0
            self._parse(memoryview(data)[start:end])
            if self.transport.is_closing():
                return
            if not self._in_message or self._in_head or self._body_left() is None:
                break
        if self.transport.is_closing():
            return
        if self._backlog or self.pipeline:
            self.flow.pause_reading()
            if self._may_parse():
                self._schedule_backlog()
        else:
            self.flow.resume_reading()
        self._account()

    def _may_parse(self) -> bool:
        """False while an earlier request is answered, or while the client leaves responses unread."""
        if not self._backlog or self.pipeline or self.flow.write_paused:
            return False
        return (self._in_message or not self._answering) and not self.transport.is_closing()

    def _next_slice_bytes(self) -> int:
        """Bytes to parse next: to the end of the head, or of a body with a Content-Length, or one slice of chunks."""
        if self._in_head:
            offset = self._backlog_offset
            end = self._backlog.find(_HEAD_END, offset, offset + self.head_bytes_max)
            return self.head_bytes_max if end < 0 else end + len(_HEAD_END) - offset
        left = self._body_left()
        return SLICE_BYTES if left is None else max(1, left)

    def _schedule_backlog(self) -> None:
        if not self._backlog_scheduled:
            self._backlog_scheduled = True
            self.table.schedule_backlog(self._parse_backlog, self.loop)

    def _parse(self, data: bytes | memoryview) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        else:
            self._message_bytes += len(data)
            self._framing_bytes += len(data)
        self._feed(data)
        if not self._in_message:
            return
        if self._in_head:
            if self._head_bytes > self.head_bytes_max:
                self._refuse(_HEAD_TOO_LARGE)
        elif self._framing_bytes > TRAILER_BYTES_MAX:
            self._refuse(_BAD_FRAMING)
        elif self._message_bytes > self._message_bytes_max():
            self._refuse(_BODY_TOO_LARGE)

    def _feed(self, data: bytes | memoryview) -> None:
        """Give data to the parser. It stops at a request for another protocol (`Upgrade`) and skips that one's body.

        HTTP lets a server ignore such a request: the body is read here, and the connection stays as it is. What the
        parser does not read would be parsed as the next request.
        """
        while data and not self.transport.is_closing():
            if self._skipped_bytes:
                body, data = data[: self._skipped_bytes], data[self._skipped_bytes :]
                self._skipped_bytes -= len(body)
                self.on_body(bytes(body))
                if not self._skipped_bytes:
                    self.on_message_complete()
                continue
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                self.logger.warning(_MALFORMED)
                if isinstance(error.__context__, HeadTooLarge):
                    self._refuse(_HEAD_TOO_LARGE)
                else:
                    self.send_400_response(_MALFORMED)
                return
            else:
                return

    def _refuse(self, status: int) -> None:
        """Close the connection, after a refusal unless an earlier request is still owed its own response."""
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle
        if not self.pipeline and (not self._answering or not getattr(cycle, "response_started", True)):
            self.transport.write(self._refusal(status))
        self.transport.close()
        self._release_bytes()

    # -- limits -------------------------------------------------------------------------------------------------------

    def _account(self) -> None:
        """After data that left something unfinished: tell the table how much this connection holds, and since when."""
        held = len(self._backlog) + REQUEST_BYTES * len(self.pipeline)
        if self._in_message:
            now_s = self.loop.time()
            held += self._head_bytes + self._held_body_bytes()
            if not self._in_head and self._message_bytes - self._progress_bytes >= BODY_PROGRESS_BYTES_MIN:
                self._progress_bytes = self._message_bytes
                self._waiting_since_s = now_s
            elif not self._waiting_since_s:
                self._waiting_since_s = now_s
        if self.flow.write_paused:
            held += self.transport.get_write_buffer_size()
        self._holds_bytes = held > 0
        self.table.set_held_bytes(self, held)

    def _release_bytes(self) -> None:
        self._backlog, self._backlog_offset = b"", 0
        self.pipeline.clear()
        self._drop_body()
        self._holds_bytes = False
        self.table.set_held_bytes(self, 0)

    def waiting_since_s(self) -> float | None:
        if not self._waiting_since_s or self._owes_response() or self.transport.is_closing():
            return None
        return self._waiting_since_s

    def _owes_response(self) -> bool:
        """Whether the client waits for the server: it may send its next request later, or cannot send at all."""
        return self.flow.read_paused or (self._answering and self._in_head)

    def enforce_deadlines(self, now_s: float) -> None:
        if self._waiting_since_s:
            if self._owes_response():
                self._waiting_since_s = now_s
            elif now_s - self._waiting_since_s >= self._time_limit_s() and not self.transport.is_closing():
                if self._in_message:
                    self._refuse(_TOO_SLOW)
                elif self.cycle is None or not self._has_unread_bytes():
                    self.transport.close()
        unwritten = self.transport.get_write_buffer_size()
        if unwritten and unwritten >= self._unwritten_bytes > 0:
            if now_s - self._unwritten_since_s >= WRITE_S:
                self.transport.abort()
        else:
            self._unwritten_since_s = now_s
        self._unwritten_bytes = unwritten

    def _has_unread_bytes(self) -> bool:
        """Whether the client's next request may have come: uvloop runs timers before it reads, and after a long turn
        of the loop they would end a connection that is in use again."""
        sock = self.transport.get_extra_info("socket")
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _time_limit_s(self) -> float:
        if self._in_message:
            return HEAD_S if self._in_head else BODY_PROGRESS_S
        return HEAD_S if self.cycle is None else self.timeout_keep_alive

    def evict(self) -> None:
        if self._in_message:
            self._refuse(_OVERLOADED)
        else:
            self.transport.close()
        self._release_bytes()
        if self.transport.get_write_buffer_size() > REFUSAL_BYTES_MAX:
            self.transport.abort()  # else it would hold the bytes until the client takes them

    def pause_writing(self) -> None:
        super().pause_writing()
        if not self.transport.is_closing():
            self.flow.pause_reading()
            self._account()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.transport.is_closing():
            return
        if self._holds_bytes:
            self._account()
        if not (self.pipeline or self._backlog):
            self.flow.resume_reading()
        self._continue_reading()

    # -- between requests ---------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._answering = False
        if not self.transport.is_closing():
            self._continue_reading()

    def _continue_reading(self) -> None:
        """Start the next request, or read it, unless one is being answered or the client leaves responses unread."""
        if self._answering or self.flow.write_paused:
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            self._account()
            if self.pipeline:
                return
        elif not (self._in_message or self._backlog):
            self._waiting_since_s = self.loop.time()
        if self._backlog:
            self._schedule_backlog()
        elif self.flow.read_paused:
            self.flow.resume_reading()


class HeadTooLarge(Exception):
    """The URL and headers of a request are larger than allowed."""
