"""One connection to an HTTP endpoint (HTTP/1.1, RFC 9112): requests and responses in turn.

llhttp parses the responses as leniently as it can: no other program parses them, so no two can disagree. The status
decides the outcome: a body that is missing, endless or cut off costs the connection, and is no failure.

An endpoint is hostile until proven otherwise. Every byte it sends counts towards the limits: status lines, header
fields, interim responses (1xx), chunk sizes and their extensions, body, trailers. Only the header fields that this
service reads, the body up to a limit and the start of the reason phrase are kept.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple, cast

import httptools

from cns.endpoints.http_url import HttpOrigin
from cns.endpoints.outcome import RESPONSE_CHARS_MAX, Failed

BODY_BYTES_MAX = 64 * 1024
"""Bytes of a body that are read, so that the connection can be used again; a longer body costs the connection."""
BODY_TIMEOUT_S = 1.0
"""The longest wait for the body once the status is known."""
HEAD_BYTES_MAX = 128 * 1024
"""Bytes up to the end of the head, interim responses such as 102 included: far above what servers and proxies send."""
RESPONSE_BYTES_MAX = HEAD_BYTES_MAX + 2 * BODY_BYTES_MAX
"""Bytes of one response in all: the head, a body of the largest size and as much again for its framing and trailers.
Beyond it the connection is ended; one read of the socket (256 KiB in asyncio) can exceed it."""
HEADERS_KEPT = frozenset({b"retry-after", b"www-authenticate"})
"""The header fields that are kept, in lower case. No other field is read."""
HEADERS_KEPT_MAX = 32
"""Fields that are kept of one response; later ones are dropped."""
JOINED_BYTES_MAX = 64 * 1024
"""Bodies up to this size are copied behind the head and written with it."""
_SWITCHING_PROTOCOLS = 101


class ConnectionClosed(ConnectionError):
    """The endpoint closed the connection before a status arrived."""


class InvalidResponse(ValueError):
    """The bytes received are not an HTTP response."""


class HttpResponse(NamedTuple):
    """`body` is the part received: all of it when it is short and came at once. `headers` has only fields of
    HEADERS_KEPT. `dwell_ms` is the time from the start of the attempt to the status. `repeats`: see `Delivered`."""

    status: int
    reason: str  # the reason phrase, of at most RESPONSE_CHARS_MAX characters
    headers: list[tuple[bytes, bytes]]
    body: bytes
    dwell_ms: int
    repeats: Failed | None = None

    def fields(self, name: str) -> list[str]:
        """Values of the kept fields with this name, in lower case."""
        sought = name.encode("ascii")
        return [value.decode("latin-1") for key, value in self.headers if key.lower() == sought]


class HttpConnection(asyncio.Protocol):
    __slots__ = (
        "_body",
        "_body_timeout_set",
        "_dwell_ms",
        "_headers",
        "_loop",
        "_parser",
        "_pending",
        "_reason",
        "_received_bytes",
        "_started_s",
        "_status",
        "_timer",
        "_transport",
        "idle_since_s",
        "opened_s",
        "origin",
        "usable",
    )

    def __init__(self, origin: HttpOrigin) -> None:
        self.origin = origin
        self.usable = False
        """Whether another request may be posted."""
        self.idle_since_s = 0.0
        self.opened_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._transport: asyncio.Transport | None = None
        self._pending: asyncio.Future[HttpResponse] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._started_s = 0.0
        self._reset_response()

    def post(self, head: bytes, body: bytes, *, started_s: float, deadline_s: float) -> asyncio.Future[HttpResponse]:
        """Post a request. The future gets the response, or ConnectionClosed, InvalidResponse or TimeoutError.

        `deadline_s` is loop time. `started_s` is the monotonic time at which the attempt began.
        """
        assert self.usable and self._transport is not None
        self.usable = False
        self._started_s = started_s
        self._received_bytes = 0
        self._pending = pending = self._loop.create_future()
        self._timer = self._loop.call_at(deadline_s, self._timed_out)
        if len(body) <= JOINED_BYTES_MAX:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        return pending

    def close(self) -> None:
        """Close an idle connection."""
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio's callbacks ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.usable = True

    def data_received(self, data: bytes) -> None:
        if self._pending is None or self._parser is None:  # no request is open
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._end()
        except httptools.HttpParserError as error:
            self._end(InvalidResponse(str(error)))
        self._received_bytes += len(data)
        if self._pending is not None:
            self._check_limits()

    def eof_received(self) -> None:
        self.usable = False

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        self._parser = self._transport = None  # breaks the reference cycle with the parser
        self._end(ConnectionClosed(str(error) if error else "the endpoint closed the connection"))

    # -- llhttp's callbacks -------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._pending is None:  # a second response to one request
            self.abort()
        self._reset_response()

    def on_status(self, reason: bytes) -> None:
        if len(self._reason) < RESPONSE_CHARS_MAX:
            self._reason += reason[:RESPONSE_CHARS_MAX]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called for fields of the head, and for trailers, which are dropped: the status is known by then."""
        if not self._status and len(self._headers) < HEADERS_KEPT_MAX and name.lower() in HEADERS_KEPT:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status >= 200 or status == _SWITCHING_PROTOCOLS:
            self._status = status
            self._dwell_ms = int((time.monotonic() - self._started_s) * 1000)

    def on_body(self, piece: bytes) -> None:
        if len(self._body) < BODY_BYTES_MAX:
            self._body += piece

    def on_message_complete(self) -> None:
        if self._status and self._pending is not None:  # else the response is still to come, as after 100 Continue
            assert self._parser is not None and self._transport is not None
            all_written = not self._transport.get_write_buffer_size()
            self.usable = all_written and self._status != _SWITCHING_PROTOCOLS and self._parser.should_keep_alive()
            self._end()

    # -- ending -------------------------------------------------------------------------------------------------------

    def _reset_response(self) -> None:
        self._status = self._dwell_ms = 0
        self._body_timeout_set = False
        self._reason = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()

    def _check_limits(self) -> None:
        """Wait for the rest of the response, within the limits of bytes and time."""
        if not self._status:
            if self._received_bytes > HEAD_BYTES_MAX:
                self._end(InvalidResponse("the headers of the answer have no end"))
        elif len(self._body) >= BODY_BYTES_MAX or self._received_bytes >= RESPONSE_BYTES_MAX:
            self._end()
        elif not self._body_timeout_set and self._timer is not None:
            self._body_timeout_set = True
            self._timer.cancel()
            self._timer = self._loop.call_later(BODY_TIMEOUT_S, self._timed_out)

    def _timed_out(self) -> None:
        self._end(TimeoutError())

    def _end(self, error: Exception | None = None) -> None:
        """Resolve the open request: with a response if the status is known, else with the error."""
        pending, timer = self._pending, self._timer
        self._pending = self._timer = None
        if timer is not None:
            timer.cancel()
        if pending is None or pending.done():
            return
        if self._status:
            body = bytes(self._body[:BODY_BYTES_MAX])
            reason = self._reason[:RESPONSE_CHARS_MAX].decode("latin-1")
            pending.set_result(HttpResponse(self._status, reason, self._headers, body, self._dwell_ms))
        else:
            pending.set_exception(error or InvalidResponse("no status"))
        self._reset_response()
