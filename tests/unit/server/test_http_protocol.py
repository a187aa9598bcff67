"""Limits of a connection in bytes and time: `cns_server.http.protocol` on a stepped loop and transport."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from io import BytesIO
from socket import socket, socketpair
from typing import Any

import pytest
from botocore.parsers import create_parser
from uvicorn.config import Config
from uvicorn.server import ServerState

from cns_common.aws.cors import CorsPolicy
from cns_common.aws.http_request import HttpRequest
from cns_common.aws.protocol.errors import HttpAnswer
from cns_common.configuration.checks import read_networks
from cns_server.http import bounded_protocol, protocol
from cns_server.http.connection_table import SWEEP_S, ConnectionLimits, ConnectionTable
from cns_server.http.protocol import ApiProtocol
from cns_server.http.trusted_proxies import TrustedProxies

BODY_BYTES_MAX = 100_000
HEAD_BYTES_MAX = 16 * 1024
CALL = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = 4_000
NO_SHAPE: Any = None


def post(length: int) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length


class Loop:
    """The clock stands still, and callbacks run when the test steps the loop."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.soon: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def time(self) -> float:
        return self.now_s

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., None], *args: Any, context: object = None) -> None:
        self.soon.append((callback, args))

    def turn(self) -> None:
        for _ in range(len(self.soon)):
            callback, args = self.soon.popleft()
            callback(*args)

    def run(self) -> None:
        while self.soon:
            self.turn()


class Transport:
    """Its client reads nothing before `take`."""

    def __init__(self, address: str = "198.51.100.7", taking: bool = True) -> None:
        self._address = address
        self._taking = taking
        self._high_bytes = 0
        self.protocol: ApiProtocol
        self.written = b""
        self.waiting_bytes = 0
        self.closed = self.aborted = self.reading_paused = False
        self.socket: socket | None = None

    def get_extra_info(self, name: str) -> Any:
        if name == "socket":
            return self.socket
        return (self._address, 40_000) if name in ("peername", "sockname") else None

    def set_write_buffer_limits(self, high: int) -> None:
        self._high_bytes = high

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes) -> None:
        self.written += data
        if self._taking:
            return
        was_above = self.waiting_bytes > self._high_bytes
        self.waiting_bytes += len(data)
        if self.waiting_bytes > self._high_bytes and not was_above:
            self.protocol.pause_writing()

    def take(self, n: int) -> None:
        was_above = self.waiting_bytes > self._high_bytes
        self.waiting_bytes -= min(n, self.waiting_bytes)
        if was_above and self.waiting_bytes <= self._high_bytes // 4:
            self.protocol.resume_writing()

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False


class FakeSocket:
    """Read by `http.client`."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, mode: str) -> BytesIO:
        return BytesIO(self._received)


class Front:
    """Answers with `size` bytes, as the request's header says; for `/000000000000/later` when the test says so."""

    body_bytes_max = BODY_BYTES_MAX
    cors = CorsPolicy(["http://localhost:*"])
    leaving = False

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.requests: list[HttpRequest] = []
        self.later: asyncio.Future[None] | None = None

    def claims(self, path: str) -> bool:
        return True

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        self.requests.append(request)
        if request.path.endswith("later"):
            self.later = asyncio.Future(loop=self._loop)  # type: ignore[arg-type]  # it has what a future needs
            await self.later
        if request.body is None:
            return HttpAnswer(413, [], b"too large")
        return HttpAnswer(200, [], b"x" * int(request.fields.get(b"size", b"2")))


async def _no_page(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("no page is asked for")


class ConnectionFixture:
    """Connections to one process."""

    def __init__(self, **limits: int) -> None:
        self.loop = Loop()
        self.front = Front(self.loop)
        self.table = ConnectionTable(ConnectionLimits(**limits))
        self._state = ServerState()
        self._config = Config(_no_page, ws="none", lifespan="off", log_config=None, timeout_keep_alive=75)
        self._config.load()
        proxies = TrustedProxies(read_networks("10.0.0.0/8"), "x-forwarded-for")
        self._class = ApiProtocol.serving(
            self.front,  # type: ignore[arg-type]
            HEAD_BYTES_MAX,
            self.table,
            proxies=proxies,
        )

    def connect(self, address: str = "198.51.100.7", *, taking: bool = True) -> Transport:
        protocol = self._class(self._config, self._state, {}, _loop=self.loop)
        transport = Transport(address, taking)
        transport.protocol = protocol
        protocol.connection_made(transport)  # type: ignore[arg-type]  # it has what is used of one
        return transport

    def send(self, transport: Transport, *pieces: bytes) -> None:
        """Each piece is read by itself, while the connection is read at all."""
        for piece in pieces:
            if transport.closed or transport.reading_paused:
                return
            transport.protocol.data_received(piece)
            self.loop.run()

    def pass_s(self, seconds: float) -> None:
        """Time, with its sweeps."""
        until_s = self.loop.now_s + seconds
        while self.loop.now_s < until_s:
            self.loop.now_s += SWEEP_S
            self.table.sweep(self.loop.now_s)


@pytest.fixture
def fixture() -> ConnectionFixture:
    return ConnectionFixture()


def status(transport: Transport) -> int:
    """The status of the first answer."""
    return int(transport.written.split()[1])


# -- size --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "piece", [b"a: " + b"x" * 59 + b"\r\n", b"x" * PIECE], ids=["many trailers", "one endless trailer"]
)
def test_trailers_are_limited(fixture: ConnectionFixture, piece: bytes) -> None:
    client = fixture.connect()
    fixture.send(client, CHUNKED + b"2\r\nxx\r\n0\r\n" + (b"a: " if len(piece) == PIECE else b""))
    sent = 0
    while not client.closed and sent < 10 * bounded_protocol.TRAILER_BYTES_MAX:
        fixture.send(client, piece)
        sent += len(piece)
    assert (client.closed, status(client)) == (True, 400)
    assert sent <= bounded_protocol.TRAILER_BYTES_MAX + PIECE
    assert fixture.front.requests == []


def test_trailers_in_one_piece_are_limited(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    fixture.send(client, CHUNKED + b"0\r\n" + (b"a: " + b"x" * 59 + b"\r\n") * 2_000)
    assert (client.closed, status(client)) == (True, 400)


JSON_CALL = b"X-Amz-Target: AmazonSQS.SendMessage\r\n"
ENDLESS = b"Content-Length: 1000000000\r\n\r\n" + b"x" * (2 * BODY_BYTES_MAX + protocol.FRAMING_BYTES_MAX + 2 * PIECE)


@pytest.mark.spec("protocol.refusal-shape")
@pytest.mark.parametrize("target", [b"", JSON_CALL])
@pytest.mark.parametrize(
    ("rest", "status_told", "code"),
    [
        (b"X: " + b"x" * HEAD_BYTES_MAX + b"\r\n\r\n", 431, "RequestHeaderFieldsTooLarge"),
        (b"X: " + b"x" * HEAD_BYTES_MAX, 431, "RequestHeaderFieldsTooLarge"),
        (b"Transfer-Encoding: chunked\r\n\r\n2;" + b"x" * 5 * PIECE, 400, "InvalidHttpRequest"),
        (ENDLESS, 413, "RequestEntityTooLarge"),
    ],
    ids=["large head", "endless head", "framing", "body"],
)
def test_refusals_are_in_the_callers_protocol(
    fixture: ConnectionFixture, target: bytes, rest: bytes, status_told: int, code: str
) -> None:
    client = fixture.connect()
    sent = b"POST / HTTP/1.1\r\nHost: x\r\nOrigin: http://localhost:3000\r\n" + target + rest
    fixture.send(client, *[sent[at : at + PIECE] for at in range(0, len(sent), PIECE)])
    answer = HTTPResponse(FakeSocket(client.written))  # type: ignore[arg-type]  # it has what reading a response needs
    answer.begin()
    response = {"status_code": answer.status, "headers": {**answer.headers}, "body": answer.read()}
    assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert len(client.written) <= bounded_protocol.REFUSAL_BYTES_MAX
    told = create_parser("json" if target else "query").parse(response, NO_SHAPE)
    assert (answer.status, client.closed, told["Error"]["Code"]) == (status_told, True, code)
    assert told["Error"]["Message"].endswith(".")


def test_a_rest_request_is_refused_as_a_problem(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    fixture.send(client, b"POST /api/v1/queues HTTP/1.1\r\nHost: x\r\nX: " + b"x" * HEAD_BYTES_MAX)
    assert json.loads(client.written.partition(b"\r\n\r\n")[2])["code"] == "RequestHeaderFieldsTooLarge"


def test_trailers_are_no_headers(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    fixture.send(client, CHUNKED + b"2\r\nxx\r\n0\r\nsize: 9\r\nx: y\r\n\r\n", CALL)
    first, second = fixture.front.requests
    assert (first.body, b"size" in first.fields) == (b"xx", False)
    assert dict(second.headers) == {b"host": b"x"}


def test_an_endless_body_is_refused(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    pieces = (2 * BODY_BYTES_MAX + protocol.FRAMING_BYTES_MAX) // PIECE
    fixture.send(client, post(10**9), *[b"x" * PIECE] * pieces)
    assert not client.closed
    fixture.send(client, b"x" * PIECE)
    assert (client.closed, status(client)) == (True, 413)


def test_a_body_that_is_a_little_too_large_is_answered_and_the_connection_goes_on(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    fixture.send(client, post(BODY_BYTES_MAX + 1), b"x" * (BODY_BYTES_MAX + 1), CALL)
    assert [request.body for request in fixture.front.requests] == [None, b""]
    assert (status(client), client.closed) == (413, False)


@pytest.mark.parametrize("size", [1, 7, PIECE, BODY_BYTES_MAX])
def test_a_body_is_whole_however_it_comes(fixture: ConnectionFixture, size: int) -> None:
    client = fixture.connect()
    body = bytes(at % 251 for at in range(BODY_BYTES_MAX if size > 7 else 1_000))
    fixture.send(client, post(len(body)), *[body[at : at + size] for at in range(0, len(body), size)])
    assert [request.body for request in fixture.front.requests] == [body]
    assert fixture.table.held_bytes == 0


def test_chunks_of_two_bytes_are_held_in_one_buffer(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    fixture.send(client, CHUNKED, *[b"2\r\nxx\r\n" * 500] * 40)
    assert fixture.table.held_bytes < 2 * 500 * 40 + HEAD_BYTES_MAX
    fixture.send(client, b"0\r\n\r\n")
    assert [request.body for request in fixture.front.requests] == [b"xx" * 500 * 40]


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n\r\n"
"""The headers that Java's own client, and `curl --http2`, add to their first request."""


@pytest.mark.parametrize("size", [1, 7, 100, PIECE])
def test_a_wish_for_another_protocol_is_ignored(fixture: ConnectionFixture, size: int) -> None:
    """The body is this request's, and never the next request."""
    client = fixture.connect()
    body = b"POST /000000000000/inner HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    sent = (post(len(body))[:-2] + UPGRADE + body + post(0)[:-2] + UPGRADE + CALL) * 2
    fixture.send(client, *[sent[at : at + size] for at in range(0, len(sent), size)])
    assert [request.body for request in fixture.front.requests] == [body, b"", b""] * 2
    assert client.written.count(b"HTTP/1.1 200") == 6
    assert not client.closed


def test_a_wish_for_another_protocol_with_chunks_is_refused(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    fixture.send(client, CHUNKED[:-2] + UPGRADE, CALL)
    assert (fixture.front.requests, status(client), client.closed) == ([], 400, True)


# -- the answers' side -------------------------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order_whatever_the_pieces(fixture: ConnectionFixture) -> None:
    calls = b"".join(b"GET / HTTP/1.1\r\nHost: x\r\nsize: %d\r\n\r\n" % number for number in range(100, 400))
    for size in (10, 333, 4_096, len(calls)):
        client = fixture.connect()
        fixture.send(client, *[calls[at : at + size] for at in range(0, len(calls), size)])
        lengths = [int(part.split(b"\r\n")[0]) for part in client.written.split(b"content-length: ")[1:]]
        assert lengths == list(range(100, 400))


def test_a_client_that_does_not_read_is_not_read(fixture: ConnectionFixture) -> None:
    client = fixture.connect(taking=False)
    fixture.send(client, *[CALL.replace(b"Host", b"size: 1000\r\nHost") * 100] * 100)
    assert client.reading_paused
    assert client.waiting_bytes <= bounded_protocol.RESPONSE_BYTES_MAX + 2_000
    answered = len(fixture.front.requests)
    client.take(60_000)
    fixture.loop.run()
    assert not client.closed
    assert len(fixture.front.requests) > answered


def test_one_large_answer_is_legal(fixture: ConnectionFixture) -> None:
    client = fixture.connect(taking=False)
    fixture.send(client, CALL.replace(b"Host", b"size: 262144\r\nHost"))
    assert (client.waiting_bytes > 262_144, client.reading_paused, client.closed) == (True, True, False)
    client.take(300_000)
    fixture.send(client, CALL)
    assert len(fixture.front.requests) == 2


def test_a_client_that_takes_nothing_is_cut_off(fixture: ConnectionFixture) -> None:
    client, slow = fixture.connect(taking=False), fixture.connect(taking=False)
    for each in (client, slow):
        fixture.send(each, CALL.replace(b"Host", b"size: 262144\r\nHost"))
    for _ in range(int(bounded_protocol.WRITE_S)):
        fixture.pass_s(1)
        assert not client.aborted
        slow.take(1)
    fixture.pass_s(2)
    assert (client.aborted, slow.aborted) == (True, False)


def test_a_connection_that_is_closing_is_cut_off_too(fixture: ConnectionFixture) -> None:
    client = fixture.connect(taking=False)
    fixture.send(client, CALL.replace(b"Host", b"Connection: close\r\nsize: 9000\r\nHost"))
    assert client.closed
    fixture.pass_s(bounded_protocol.WRITE_S + 2)
    assert client.aborted


def test_no_request_is_read_ahead_of_one_that_waits(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    fixture.send(client, CALL.replace(b"/ ", b"/000000000000/later ") + CALL * 5_000)
    assert len(fixture.front.requests) == 1
    assert client.reading_paused
    assert fixture.table.held_bytes < 2 * 5_000 * len(CALL)
    assert fixture.front.later is not None
    fixture.front.later.set_result(None)
    fixture.loop.run()
    assert len(fixture.front.requests) == 5_001
    assert fixture.table.held_bytes == 0


def test_a_backlog_takes_one_request_a_turn(fixture: ConnectionFixture) -> None:
    clients = [fixture.connect() for _ in range(100)]
    for client in clients:
        client.protocol.data_received(CALL * 200)
    fixture.loop.turn()
    done = len(fixture.front.requests)
    fixture.loop.turn()
    assert len(fixture.front.requests) - done <= 8, "a normal call waits behind these only"
    fixture.loop.run()
    assert len(fixture.front.requests) == 20_000


def test_a_large_head_behind_another_request_ends_only_its_own_connection(fixture: ConnectionFixture) -> None:
    bad, other = fixture.connect(), fixture.connect()
    large = b"GET / HTTP/1.1\r\nx: " + b"x" * HEAD_BYTES_MAX + b"\r\n\r\n"
    bad.protocol.data_received(large)
    other.protocol.data_received(CALL * 300)
    fixture.loop.run()
    assert bad.closed
    assert len(fixture.front.requests) == 300


# -- who the client is -------------------------------------------------------------------------------------------------


def forwarded(address: bytes, scheme: bytes = b"https") -> bytes:
    return CALL.replace(b"Host", b"X-Forwarded-For: " + address + b"\r\nX-Forwarded-Proto: " + scheme + b"\r\nHost")


def clients(fixture: ConnectionFixture) -> list[tuple[str, str]]:
    return [(request.source_ip, request.scheme) for request in fixture.front.requests]


@pytest.mark.parametrize("size", [1, 50, PIECE])
def test_each_request_on_a_proxys_connection_has_its_own_client(fixture: ConnectionFixture, size: int) -> None:
    balancer = fixture.connect("::ffff:10.0.0.9")
    sent = forwarded(b"203.0.113.7") + CALL + forwarded(b"unknown", b"http") + forwarded(b"2001:db8::7")
    fixture.send(balancer, *[sent[at : at + size] for at in range(0, len(sent), size)])
    assert clients(fixture) == [
        ("203.0.113.7", "https"),
        ("10.0.0.9", "http"),
        ("10.0.0.9", "http"),
        ("2001:db8::7", "https"),
    ]


def test_what_others_say_of_themselves_is_ignored(fixture: ConnectionFixture) -> None:
    fixture.send(fixture.connect("198.51.100.7"), forwarded(b"10.0.0.9"), forwarded(b"203.0.113.7, 10.0.0.9"))
    assert clients(fixture) == [("198.51.100.7", "http")] * 2


def test_the_limit_of_an_address_does_not_count_a_proxy() -> None:
    fixture = ConnectionFixture(connections_per_address_max=1, connections_max=3)
    proxied = [fixture.connect("10.0.0.9") for _ in range(3)]
    assert not any(connection.closed for connection in proxied)
    fixture.pass_s(1)
    fixture.connect("10.0.0.9")
    assert [connection.closed for connection in proxied].count(True) == 1, "the limit of all connections does"


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"P", b"POST / HTTP/1.1\r\nHost: x\r\n"])
def test_the_head_has_ten_seconds(fixture: ConnectionFixture, sent: bytes) -> None:
    client = fixture.connect()
    fixture.send(client, *([sent] if sent else []))
    fixture.pass_s(bounded_protocol.HEAD_S - 1)
    assert not client.closed
    fixture.pass_s(2)
    assert client.closed
    assert client.written[:12] == (b"HTTP/1.1 408" if sent.strip() else b"")


def test_bytes_of_a_head_give_it_no_more_time(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    fixture.send(client, b"POST / HTTP/1.1\r\n")
    for _ in range(12):
        fixture.pass_s(1)
        fixture.send(client, b"x")
    assert client.closed


@pytest.mark.parametrize(("each_bytes", "ends"), [(0, True), (1, True), (500, True), (800, False)])
def test_a_body_must_go_on(fixture: ConnectionFixture, each_bytes: int, ends: bool) -> None:
    client = fixture.connect()
    fixture.send(client, post(BODY_BYTES_MAX))
    for _ in range(100):
        fixture.pass_s(1)
        fixture.send(client, *([b"x" * each_bytes] if each_bytes else []))
    assert client.closed is ends


@contextmanager
def unread(transport: Transport, data: bytes) -> Iterator[socket]:
    """A socket with bytes that the loop has not read."""
    here, there = socketpair()
    with here, there:
        transport.socket = here
        there.sendall(data)
        yield here


def test_a_kept_connection_has_its_idle_time(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    fixture.send(client, CALL)
    fixture.pass_s(74)
    assert not client.closed
    fixture.send(client, b"\r\n")  # a blank line begins no request
    with unread(client, b""):
        fixture.pass_s(2)
        assert client.closed


def test_a_request_that_came_before_the_sweep_is_read(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    fixture.send(client, CALL)
    with unread(client, CALL) as sock:
        fixture.pass_s(75)
        assert not client.closed
        fixture.send(client, sock.recv(len(CALL)))
        assert len(fixture.front.requests) == 2
        fixture.pass_s(76)
        assert client.closed


def test_a_connection_without_a_request_is_closed_whatever_it_has_sent(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    with unread(client, b"\x16"):
        fixture.pass_s(10)
        assert client.closed


def test_a_poll_is_not_idle(fixture: ConnectionFixture) -> None:
    client = fixture.connect()
    fixture.send(client, CALL.replace(b"/ ", b"/000000000000/later ") + b"GET / HT")
    fixture.pass_s(200)
    assert not client.closed
    assert fixture.front.later is not None
    fixture.front.later.set_result(None)
    fixture.loop.run()
    fixture.send(client, b"TP/1.1\r\n\r\n")
    assert len(fixture.front.requests) == 2


# -- number and sum ----------------------------------------------------------------------------------------------------


def test_at_the_limit_the_longest_idle_goes(fixture: ConnectionFixture) -> None:
    fixture = ConnectionFixture(connections_max=3)
    polling = fixture.connect("192.0.2.1")
    fixture.send(polling, CALL.replace(b"/ ", b"/000000000000/later "))
    old, young = fixture.connect("192.0.2.2"), fixture.connect("192.0.2.3")
    fixture.loop.now_s += 1
    fixture.send(young, CALL)
    fixture.loop.now_s += 1
    newcomer = fixture.connect("192.0.2.4")
    fixture.send(newcomer, CALL)
    assert [each.closed for each in (polling, old, young, newcomer)] == [False, True, False, False]
    assert status(newcomer) == 200


def test_only_where_none_is_idle_a_newcomer_is_refused() -> None:
    fixture = ConnectionFixture(connections_max=1)
    polling = fixture.connect()
    fixture.send(polling, CALL.replace(b"/ ", b"/000000000000/later "))
    newcomer = fixture.connect()
    assert (polling.closed, newcomer.closed, status(newcomer)) == (False, True, 503)
    head, _, body = newcomer.written.partition(b"\r\n\r\n")
    assert (b"x-amzn-query-error: ServiceUnavailable;Receiver" in head, body) == (True, b"")


def test_an_address_takes_only_its_own_share() -> None:
    fixture = ConnectionFixture(connections_per_address_max=2)
    other = fixture.connect("192.0.2.1")
    fixture.loop.now_s += 1
    many = []
    for last in (1, 2, 3):
        fixture.loop.now_s += 1
        many.append(fixture.connect(f"2001:db8::{last}"))
    assert (other.closed, [each.closed for each in many]) == (False, [True, False, False])


def test_the_sum_of_unfinished_bodies_is_limited() -> None:
    fixture = ConnectionFixture(buffered_bytes_max=300_000)
    clients = [fixture.connect() for _ in range(5)]
    for client in clients:
        fixture.send(client, post(BODY_BYTES_MAX), *[b"x" * PIECE] * 20)
        assert fixture.table.held_bytes <= 300_000
    assert [client.closed for client in clients] == [True, True, False, False, False]
    assert status(clients[0]) == 503
    fixture.send(clients[-1], b"x" * (BODY_BYTES_MAX - 20 * PIECE))
    assert status(clients[-1]) == 200, "the one that came last is served"


def test_heads_answers_and_backlogs_count_in_the_sum() -> None:
    fixture = ConnectionFixture(buffered_bytes_max=10**9)
    fixture.send(fixture.connect(), b"GET / HTTP/1.1\r\na: " + b"x" * 10_000)
    head = fixture.table.held_bytes
    assert head > 10_000
    unread = fixture.connect(taking=False)
    fixture.send(unread, CALL.replace(b"Host", b"size: 100000\r\nHost"))
    assert fixture.table.held_bytes > head + 100_000
    unread.protocol.connection_lost(None)
    assert fixture.table.held_bytes == head


def test_an_ipv4_client_of_an_ipv6_socket_is_an_ipv4_client(fixture: ConnectionFixture) -> None:
    fixture.send(fixture.connect("::ffff:192.0.2.9"), CALL)
    assert fixture.front.requests[0].source_ip == "192.0.2.9"
