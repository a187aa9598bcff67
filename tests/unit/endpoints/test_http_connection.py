"""The memory that an HTTP endpoint can make a worker use: each form of endless answer is cut off at a limit."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from cns.endpoints import http_connection
from cns.endpoints.http_connection import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    HEADERS_KEPT_MAX,
    RESPONSE_BYTES_MAX,
    HttpConnection,
    HttpResponse,
    InvalidResponse,
)
from cns.endpoints.http_url import HttpOrigin
from cns.endpoints.outcome import RESPONSE_CHARS_MAX
from tests.endpoint_bytes import Transport, kept_bytes

PIECE_BYTES = 16 * 1024
KEPT_BYTES_MAX = 160 * 1024
"""Body and reason at their largest, and room for the objects around them."""
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = CHUNKED + b"0\r\n"
NO_STATUS = 0

ENDLESS: dict[str, tuple[bytes, bytes, int]] = {
    # name: the beginning of the answer, the part that repeats, the status of the delivery
    "many trailers": (LAST_CHUNK, b"a:b\r\n", 200),
    "trailers of a name that is read": (LAST_CHUNK, b"Retry-After: 1\r\n", 200),
    "one trailer": (LAST_CHUNK + b"a: ", b"x" * 4_096, 200),
    "a folded trailer": (LAST_CHUNK + b"a: b\r\n", b" x\r\n", 200),
    "one chunk extension": (CHUNKED + b"1;a=", b"x" * 4_096, 200),
    "chunk extensions": (CHUNKED, b"1;%s\r\nx\r\n" % (b"e" * 4_000), 200),
    "chunks of a byte": (CHUNKED, b"1\r\nx\r\n", 200),
    "a body": (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 4_096, 200),
    "interim answers": (b"", b"HTTP/1.1 102 Processing\r\nWWW-Authenticate: x\r\n\r\n", NO_STATUS),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"a:b\r\n", NO_STATUS),
    "headers of a name that is read": (b"HTTP/1.1 200 OK\r\n", b"WWW-Authenticate:\r\n", NO_STATUS),
    "a folded header": (b"HTTP/1.1 200 OK\r\na: b\r\n", b" x\r\n", NO_STATUS),
    "a status line": (b"HTTP/1.1 200 ", b"x" * 4_096, NO_STATUS),
}


def opened() -> tuple[HttpConnection, Transport]:
    connection, transport = HttpConnection(HttpOrigin(False, "endpoint", 80)), Transport()
    connection.connection_made(transport)
    return connection, transport


def asked(connection: HttpConnection) -> asyncio.Future[HttpResponse]:
    loop = asyncio.get_running_loop()
    return connection.post(b"POST / HTTP/1.1\r\n\r\n", b"", started_s=0.0, deadline_s=loop.time() + 3_600)


def pieces(first: bytes, again: bytes) -> Iterator[bytes]:
    """An answer without end, as reads of the socket return it."""
    yield first
    while True:
        yield again * max(PIECE_BYTES // len(again), 1)


@pytest.mark.parametrize("name", ENDLESS)
async def test_an_answer_without_end_is_cut_off(name: str) -> None:
    first, again, status = ENDLESS[name]
    connection, _ = opened()
    answer = asked(connection)
    received = most_kept = 0
    limit = RESPONSE_BYTES_MAX if status else HEAD_BYTES_MAX
    for piece in pieces(first, again):
        connection.data_received(piece)
        received += len(piece)
        most_kept = max(most_kept, kept_bytes(connection))
        if answer.done():
            break
        assert received <= limit, "bytes that the endpoint sends are not counted"
    assert most_kept <= KEPT_BYTES_MAX
    assert not connection.usable, "what the endpoint still sends would be taken for the next answer"
    if status:
        assert answer.result().status == status
        assert kept_bytes(answer.result()) <= KEPT_BYTES_MAX
    else:
        assert isinstance(answer.exception(), InvalidResponse)


async def test_pieces_of_one_byte_count_as_one_of_their_size() -> None:
    connection, _ = opened()
    answer = asked(connection)
    sent = itertools.chain(LAST_CHUNK, itertools.cycle(b"a:b\r\n"))
    for received, byte in enumerate(sent):
        connection.data_received(bytes((byte,)))
        if answer.done():
            break
        assert received <= RESPONSE_BYTES_MAX
    assert answer.result().status == 200


async def test_one_read_keeps_no_more_than_many() -> None:
    """asyncio reads up to 256 KiB at once: all of it is parsed before its size can end the answer."""
    connection, _ = opened()
    answer = asked(connection)
    fields = b"WWW-Authenticate: x\r\n" * 12_000
    connection.data_received(b"HTTP/1.1 200 " + b"r" * 9_000 + b"\r\n" + fields + b"\r\n" + b"x" * 90_000)
    given = answer.result()
    assert len(given.reason) == RESPONSE_CHARS_MAX
    assert len(given.headers) == HEADERS_KEPT_MAX
    assert len(given.body) == BODY_BYTES_MAX
    assert kept_bytes(connection, given) <= KEPT_BYTES_MAX


async def test_a_body_that_does_not_come_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is its status, and the dwell time ends with that."""
    monkeypatch.setattr(http_connection, "BODY_TIMEOUT_S", 0)
    monotonic_s = iter([3.0, 99.0])
    monkeypatch.setattr(http_connection, "time", SimpleNamespace(monotonic=lambda: next(monotonic_s)))
    connection, _ = opened()
    answer = asked(connection)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    assert not answer.done()
    given = await answer
    assert (given.status, given.dwell_ms) == (200, 3_000)
    assert not connection.usable


async def test_fields_that_are_read_are_those_of_the_last_head() -> None:
    connection, _ = opened()
    answer = asked(connection)
    connection.data_received(b"HTTP/1.1 103 Early\r\nRetry-After: 1\r\n\r\n")
    connection.data_received(b"HTTP/1.1 503 Busy\r\nX: y\r\nRETRY-After: 2\r\nTransfer-Encoding: chunked\r\n\r\n")
    connection.data_received(b"0\r\nRetry-After: 3\r\n\r\n")
    assert answer.result().headers == [(b"RETRY-After", b"2")]
    assert connection.usable


async def test_what_nobody_asked_for_ends_the_connection() -> None:
    connection, transport = opened()
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
    assert (connection.usable, transport.aborted) == (False, True)
