"""One connection to an HTTP endpoint (HTTP/1.1, RFC 9112): a request, its answer, and again.

llhttp parses the answers, as leniently as it can: no other program parses them after it, so leniency misleads nobody.
The status decides the outcome: a body that never comes, never ends or breaks off costs the connection, and is no
failure.

An endpoint is hostile until proven otherwise. Every byte it sends counts, whatever the parser makes of it: status
lines, header fields, answers before the last one (1xx), chunk sizes and their extensions, body, trailers. Kept of them
are only the header fields that this service reads, the body up to a limit, and the start of the reason phrase.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple, cast

import httptools

from cns.endpoints.http_url import Origin
from cns.endpoints.outcome import RESPONSE_CHARS_MAX

BODY_BYTES_MAX = 64 * 1024
"""The most of a body that is read, so that the connection can be used again; a longer body costs the connection."""
BODY_TIMEOUT_S = 1.0
"""How long an answer's body is waited for once its status is known."""
HEAD_BYTES_MAX = 128 * 1024
"""Bytes up to the end of the head, interim answers such as 102 included: far above what servers and proxies send."""
RESPONSE_BYTES_MAX = HEAD_BYTES_MAX + 2 * BODY_BYTES_MAX
"""Bytes of one answer in all: the head, a body of the largest size and as much again for its framing and trailers. At
this size the connection is ended; it can be exceeded by what one read of the socket returns (256 KiB in asyncio)."""
HEADERS_KEPT = frozenset({b"retry-after", b"www-authenticate"})
"""The header fields that are kept, in lower case. No other field of an answer is read."""
HEADERS_KEPT_MAX = 32
"""The most fields that are kept of one answer; those after them are dropped."""
JOINED_BYTES_MAX = 64 * 1024
"""Up to this size of a body head and body are copied into one piece to write."""
_SWITCHING_PROTOCOLS = 101


class ConnectionClosed(ConnectionError):
    """The endpoint closed the connection before it said a status."""


class InvalidResponse(ValueError):
    """What came is no answer."""


class HttpResponse(NamedTuple):
    """`body` is the part that was received: all of it, where it is short and came at once. `headers` has only fields of
    FIELDS_READ. `dwell_ms` is the time from the attempt's start to the status."""

    status: int
    reason: str  # the reason phrase, of at most RESPONSE_CHARS_MAX characters
    headers: list[tuple[bytes, bytes]]
    body: bytes
    dwell_ms: int

    def fields(self, name: str) -> list[str]:
        """The values of all kept fields of that name. `name` is in lower case and one of FIELDS_READ."""
        sought = name.encode("ascii")
        return [value.decode("latin-1") for key, value in self.headers if key.lower() == sought]


class HttpConnection(asyncio.Protocol):
    __slots__ = (
        "_answered",
        "_body",
        "_body_awaited",
        "_dwell_ms",
        "_headers",
        "_limit",
        "_loop",
        "_parser",
        "_reason",
        "_received_bytes",
        "_started_s",
        "_status",
        "_transport",
        "idle_since_s",
        "origin",
        "usable",
    )

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.usable = False
        """Another request may be posted."""
        self.idle_since_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[HttpResponse] | None = None
        self._limit: asyncio.TimerHandle | None = None
        self._started_s = 0.0
        self._forget_answer()

    def post(self, head: bytes, body: bytes, *, started_s: float, deadline_s: float) -> asyncio.Future[HttpResponse]:
        """Its answer, or HungUp, NotHttp or TimeoutError; by the loop's clock not after `deadline_s`. The attempt began
        at `started_s` of the monotonic clock."""
        assert self.usable and self._transport is not None
        self.usable = False
        self._started_s = started_s
        self._received_bytes = 0
        self._answered = answered = self._loop.create_future()
        self._limit = self._loop.call_at(deadline_s, self._time_is_up)
        if len(body) <= JOINED_BYTES_MAX:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        return answered

    def close(self) -> None:
        """Of one that is idle."""
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
        if self._answered is None or self._parser is None:  # nobody asked
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._end()
        except httptools.HttpParserError as error:
            self._end(InvalidResponse(str(error)))
        self._received_bytes += len(data)
        if self._answered is not None:
            self._wait_on()

    def eof_received(self) -> None:
        self.usable = False

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        self._parser = self._transport = None  # the parser refers to us
        self._end(ConnectionClosed(str(error) if error else "the endpoint closed the connection"))

    # -- llhttp's callbacks -------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._answered is None:  # a second answer to one request
            self.abort()
        self._forget_answer()

    def on_status(self, reason: bytes) -> None:
        if len(self._reason) < RESPONSE_CHARS_MAX:
            self._reason += reason[:RESPONSE_CHARS_MAX]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of the head, and of the trailers, which are dropped: the status is known by then."""
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
        if self._status and self._answered is not None:  # else the answer is yet to come, as after 100 Continue
            assert self._parser is not None and self._transport is not None
            all_written = not self._transport.get_write_buffer_size()
            self.usable = all_written and self._status != _SWITCHING_PROTOCOLS and self._parser.should_keep_alive()
            self._end()

    # -- ending -------------------------------------------------------------------------------------------------------

    def _forget_answer(self) -> None:
        self._status = self._dwell_ms = 0
        self._body_awaited = False
        self._reason = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()

    def _wait_on(self) -> None:
        """Wait for the rest of the answer, within the limits of bytes and time."""
        if not self._status:
            if self._received_bytes > HEAD_BYTES_MAX:
                self._end(InvalidResponse("the headers of the answer have no end"))
        elif len(self._body) >= BODY_BYTES_MAX or self._received_bytes >= RESPONSE_BYTES_MAX:
            self._end()
        elif not self._body_awaited and self._limit is not None:
            self._body_awaited = True
            self._limit.cancel()
            self._limit = self._loop.call_later(BODY_TIMEOUT_S, self._time_is_up)

    def _time_is_up(self) -> None:
        self._end(TimeoutError())

    def _end(self, error: Exception | None = None) -> None:
        """With an answer, if its status is known."""
        answered, limit = self._answered, self._limit
        self._answered = self._limit = None
        if limit is not None:
            limit.cancel()
        if answered is None or answered.done():
            return
        if self._status:
            body = bytes(self._body[:BODY_BYTES_MAX])
            reason = self._reason[:RESPONSE_CHARS_MAX].decode("latin-1")
            answered.set_result(HttpResponse(self._status, reason, self._headers, body, self._dwell_ms))
        else:
            answered.set_exception(error or InvalidResponse("no status"))
        self._forget_answer()
