"""The fault receiver's HTTP server: answers in order, and limits."""

from __future__ import annotations

import asyncio
import io
import ssl
import tracemalloc
from pathlib import Path

import aiohttp
import pytest

from cns.delivery.signing import new_identity
from cns_receiver import http_server as receiver_http
from cns_receiver.http_server import Connections, answer
from cns_receiver.receiver import ReceiverOptions
from tests.integration.receiver.receiver_support import Client, send_bytes, start_receiver

POST = b"POST /endpoint/a HTTP/1.1\r\nhost: x\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("parts", "received"),
    [
        ([POST + b"content-length: 2\r\n\r\nhi" + LAST], 1),
        ([POST + b"content-length: 2\r\n\r\nhi" + POST + b"\r\n" + LAST], 2),
        ([POST[:7], POST[7:30], POST[30:] + b"conte", b"nt-length: 2\r\n\r\nh", b"i" + LAST[:5], LAST[5:]], 1),
        ([POST + b"transfer-encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n" + LAST], 1),
        ([POST + b"content-length: 2\r\nexpect: 100-continue\r\n\r\n", b"hi" + LAST], 1),
    ],
)
async def test_requests_in_any_pieces(parts: list[bytes], received: int) -> None:
    async with start_receiver(ReceiverOptions(verify="off")) as client:
        answered = await send_bytes(client.port, *parts)
        shown = await client.show("a")
    assert answered.count(OK) == received == shown["received"]
    assert answered.endswith(b'\r\nconnection: close\r\n\r\n{"status":"green","ready":true}')
    assert shown["messages"][0]["body"] == "hi"
    assert (b"100 Continue" in answered) is (b"expect" in b"".join(parts))


async def test_a_slow_answer_is_not_overtaken() -> None:
    slow = b"POST /endpoint/a?delay_ms=20&body=slow HTTP/1.1\r\nhost: x\r\n\r\n"
    quick = b"POST /endpoint/a?body=quick HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    async with start_receiver() as client:
        answered = await send_bytes(client.port, slow + slow + quick)
    assert [line for line in answered.replace(b"HTTP", b"\r\nHTTP").split(b"\r\n") if line in (b"slow", b"quick")] == [
        b"slow",
        b"slow",
        b"quick",
    ]


@pytest.mark.parametrize(
    ("request_bytes", "status_line"),
    [
        (b"nonsense\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
        (POST + b"content-length: x\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
        ((POST + b"x: ").ljust(receiver_http.HEAD_BYTES_MAX + 1, b"x"), b"HTTP/1.1 431 "),
        (b"GET /".ljust(receiver_http.HEAD_BYTES_MAX + 1, b"x"), b"HTTP/1.1 431 "),
        (
            b"POST /endpoint/a?tag=".ljust(receiver_http.TARGET_BYTES_MAX + 40, b"x") + b" HTTP/1.1\r\nx: ",
            b"HTTP/1.1 414 ",
        ),
        (
            b"GET / HTTP/1.1\r\n\r\nGET /".ljust(receiver_http.TARGET_BYTES_MAX + 40, b"x") + b" HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 414 ",
        ),
        (CHUNKED + b"0\r\nx: ".ljust(receiver_http.HEAD_BYTES_MAX + 9, b"x"), b"HTTP/1.1 431 "),
        (CHUNKED + b"0\r\n" + b"x: y\r\n" * (receiver_http.HEAD_BYTES_MAX // 6 + 2), b"HTTP/1.1 431 "),
        (CHUNKED + b"1;".ljust(receiver_http.HEAD_BYTES_MAX + 9, b"x"), b"HTTP/1.1 431 "),
        (POST + b"content-length: 9000000\r\n\r\n" + b"x" * (receiver_http.BODY_BYTES_MAX + 1), b"HTTP/1.1 413 "),
    ],
)
async def test_invalid_and_too_large_requests_close_the_connection(
    client: Client, request_bytes: bytes, status_line: bytes
) -> None:
    answer = await send_bytes(client.port, request_bytes)
    assert answer.startswith(status_line)
    assert (await client.show("a"))["received"] == 0


async def test_trailers_are_dropped() -> None:
    async with start_receiver(ReceiverOptions(verify="off")) as client:
        await send_bytes(client.port, CHUNKED + b"1\r\nh\r\n0\r\nhost: y\r\nx: y\r\n\r\n" + LAST)
        (message,) = (await client.show("a"))["messages"]
    assert (message["headers"]["host"], "x" in message["headers"]) == ("x", False)


async def test_bodies_ahead_of_their_answers_are_bounded() -> None:
    """Requests that wait behind one that hangs."""
    hang = b"POST /endpoint/a?hang=true HTTP/1.1\r\n\r\n"
    large = POST + b"content-length: %d\r\n\r\n" % receiver_http.BODY_BYTES_MAX + bytes(receiver_http.BODY_BYTES_MAX)
    async with start_receiver() as client:
        assert await send_bytes(client.port, hang + large * 3) == b""


async def test_a_body_in_small_pieces_takes_its_own_size() -> None:
    connection = Connections(lambda request: None, 1).connect()
    tracemalloc.start()
    for _ in range(64):
        connection._parser.feed_data((CHUNKED if not connection._target else b"") + b"2\r\nhi\r\n" * 1_000)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 3 * 64 * 2_000


async def test_the_largest_message_passes(client: Client) -> None:
    body = io.BytesIO(b"x" * receiver_http.BODY_BYTES_MAX)
    async with client.session.post(client.url + "/endpoint/a", data=body) as answer:
        assert answer.status == 200
    assert (await client.show("a"))["messages"][0]["body_bytes"] == receiver_http.BODY_BYTES_MAX


async def test_large_bodies_do_not_count_as_heads() -> None:
    async with start_receiver(ReceiverOptions(verify="off")) as client:
        for _ in range(4):
            assert await client.notify("a", body=b"x" * 200_000) == 200


async def test_the_end_of_a_body_is_not_read_as_a_head() -> None:
    class Transport(asyncio.Transport):
        written = b""

        def write(self, data: bytes) -> None:  # type: ignore[override]
            self.written += data

        def is_closing(self) -> bool:
            return False

        def close(self) -> None:
            pass

    connections, transport = Connections(lambda request: answer(200), 1), Transport()
    connection = connections.connect()
    connection.connection_made(transport)
    connection.data_received(POST + b"content-length: 200000\r\n\r\n" + b"x" * 200_000 + POST)
    connection.data_received(b"\r\n")
    connections.close()
    assert transport.written == OK + OK


async def test_connections_of_http_1_0_are_closed() -> None:
    async with start_receiver() as client:
        answered = await send_bytes(client.port, b"POST /endpoint/a HTTP/1.0\r\ncontent-length: 0\r\n\r\n")
    assert answered == b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


async def test_an_upgrade_is_ignored() -> None:
    async with start_receiver() as client:
        answered = await send_bytes(
            client.port, POST + b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\nhi"
        )
        assert (await client.show("a"))["received"] == 1
    assert answered.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body_have_no_length(status: int) -> None:
    async with start_receiver() as client:
        answered = await send_bytes(
            client.port, b"POST /endpoint/a?status=%d&body=x HTTP/1.1\r\nconnection: close\r\n\r\n" % status
        )
    assert b"content-length" not in answered
    assert answered.endswith(b"connection: close\r\n\r\n")


async def test_requests_ahead_of_their_answers_are_bounded() -> None:
    one = b"POST /endpoint/a?hang=true HTTP/1.1\r\n\r\n"
    async with start_receiver() as client:
        assert await send_bytes(client.port, one * (receiver_http.REQUESTS_WAITING_MAX + 2)) == b""


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cns_receiver.receiver.CONNECTIONS_MAX", 1)
    async with start_receiver() as client:
        assert await client.notify("a") == 200  # the connection stays open
        assert await send_bytes(client.port, LAST) == b""


async def test_idle_connections_of_clients_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_http, "IDLE_TIMEOUT_S", 0.02)
    async with start_receiver() as client:
        assert await send_bytes(client.port, POST) == b""
        slow = asyncio.create_task(client.notify("a?delay_ms=100"))
        assert await slow == 200


async def test_close_ends_hanging_requests() -> None:
    async with start_receiver() as client:
        hanging = asyncio.create_task(client.notify("a?hang=true"))
        await client.show("a", received=1)
    with pytest.raises(aiohttp.ClientConnectionError):
        await hanging


async def test_it_speaks_tls(tmp_path: Path) -> None:
    identity = new_identity(1_800_000_000_000)
    (tmp_path / "cert.pem").write_bytes(identity.certificate_pem)
    (tmp_path / "key.pem").write_bytes(identity.key_pem)
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    options = ReceiverOptions(tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem")
    async with start_receiver(options) as client:
        assert client.url.startswith("https://")
        async with client.session.post(client.url + "/endpoint/a", ssl=trusting) as answer:
            assert answer.status == 200
