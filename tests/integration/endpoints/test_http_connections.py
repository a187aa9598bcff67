"""Connections to HTTP endpoints: which ones are kept, and which addresses are allowed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path
from types import SimpleNamespace

import pytest

from cns.endpoints import connect, http_pool
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.http import EndpointRequest, HttpSender
from cns.endpoints.outcome import Cause, Delivered, Failed
from cns_common.tls import client_context
from lab.harness.waiting import PATIENCE_S
from tests.integration.endpoints.http_endpoints import (
    BODY,
    HEADERS,
    OK,
    ServerConnection,
    answer_with,
    post,
    serve_endpoint,
)
from tests.integration.endpoints.test_http_tls import issue, server_context

LARGE = b"x" * 256 * 1024


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", id="an answer without a request"),
        pytest.param(b"noise", id="no HTTP"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_connection_with_extra_bytes_is_not_reused(
    http_sender: HttpSender, extra: bytes, at_once: bool
) -> None:
    """Otherwise the extra bytes would count as the answer to the next request."""
    answered = asyncio.Event()

    async def answer_too_much(connection: ServerConnection) -> None:
        await connection.request()
        if at_once:
            await connection.answer(OK + extra)
        else:
            await connection.answer(OK)
            await asyncio.sleep(0.05)  # by then the client has read the answer
            await connection.answer(extra)
        answered.set()
        await connection.request()

    async with serve_endpoint(answer_too_much, answer_with(OK)) as endpoint:
        request = EndpointRequest(f"{endpoint.url}/", HEADERS, BODY)
        assert isinstance(await http_sender.send(request), Delivered)
        await answered.wait()
        await asyncio.sleep(0.05)
        assert isinstance(await http_sender.send(request), Delivered)
    assert [received.connection for received in endpoint.requests] == [0, 1]


async def test_header_lines_may_end_with_a_bare_newline() -> None:
    async with serve_endpoint(answer_with(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", OK)) as endpoint:
        outcomes = await post(*[f"{endpoint.url}/"] * 2)
    assert [type(outcome) for outcome in outcomes] == [Delivered, Delivered]
    assert endpoint.connections == 1


@pytest.mark.parametrize("value", ["a\r\nX-Evil: b", "a\nb", "a\rb", "a\0b"])
async def test_a_header_is_one_line(http_sender: HttpSender, value: str) -> None:
    async with serve_endpoint(answer_with(OK)) as endpoint:
        outcome = await http_sender.send(EndpointRequest(f"{endpoint.url}/", {"Content-Type": value}, BODY))
    assert isinstance(outcome, Failed)
    assert endpoint.requests == []


@pytest.mark.parametrize("secure", [True, False])
async def test_large_bodies_arrive_whole(secure: bool, tmp_path: Path) -> None:
    authority = issue("an authority")
    (tmp_path / "bundle.pem").write_bytes(authority.pem)
    tls: ssl.SSLContext | None = None
    if secure:
        tls = server_context(issue("endpoint", by=authority, hosts=("127.0.0.1",)), tmp_path)
    async with serve_endpoint(answer_with(OK, OK), tls=tls) as endpoint:
        outcomes = await post(
            *[f"{endpoint.url}/"] * 2, body=LARGE, verify=client_context(tmp_path / "bundle.pem" if secure else None)
        )
    assert [type(outcome) for outcome in outcomes] == [Delivered, Delivered]
    assert [received.body for received in endpoint.requests] == [LARGE, LARGE]
    assert endpoint.connections == 1


async def test_a_tls_handshake_without_end_times_out() -> None:
    closed = asyncio.Event()

    async def read_only(connection: ServerConnection) -> None:
        await connection.reader.read()
        closed.set()

    async with serve_endpoint(read_only) as endpoint:
        (outcome,) = await post(endpoint.url.replace("http:", "https:") + "/", timeout_s=0.3)
        async with asyncio.timeout(PATIENCE_S):
            await closed.wait()
    assert isinstance(outcome, Failed) and outcome.cause is Cause.TIMEOUT


async def test_idle_connections_are_closed(http_sender: HttpSender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "SWEEP_INTERVAL_S", 0.05)
    monkeypatch.setattr(http_pool, "KEEP_ALIVE_S", 0.1)
    closed = asyncio.Event()

    async def read_to_the_end(connection: ServerConnection) -> None:
        await connection.request()
        await connection.answer(OK)
        await connection.reader.read()
        closed.set()

    async with serve_endpoint(read_to_the_end) as endpoint:
        await http_sender.send(EndpointRequest(f"{endpoint.url}/", HEADERS, BODY))
        async with asyncio.timeout(PATIENCE_S):
            await closed.wait()


async def test_idle_connections_are_limited(http_sender: HttpSender, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit, the connection that was idle for longest is closed."""
    monkeypatch.setattr(http_pool, "IDLE_CONNECTIONS_MAX", 1)
    async with serve_endpoint(answer_with(OK, OK)) as one, serve_endpoint(answer_with(OK, OK)) as other:
        for endpoint in (one, other, other, one):
            await http_sender.send(EndpointRequest(f"{endpoint.url}/", HEADERS, BODY))
    assert (one.connections, other.connections) == (2, 1)


# -- DNS ---------------------------------------------------------------------------------------------------------------

Info = tuple[int, int, int, str, tuple[str, int]]


class FakeResolver:
    """Replaces `getaddrinfo`: answers in turn, the last one again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: list[str] | OSError) -> None:
        self._answers = [*answers]
        self.lookups = 0
        monkeypatch.setattr(socket, "getaddrinfo", self._answer)

    def _answer(self, host: str, port: int, *_: int, **__: int) -> list[Info]:
        assert host == "a.test"
        answer = self._answers[min(self.lookups, len(self._answers) - 1)]
        self.lookups += 1
        if isinstance(answer, OSError):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]


def request_by_name(url: str) -> EndpointRequest:
    return EndpointRequest(url.replace("127.0.0.1", "a.test") + "/", HEADERS, BODY)


async def test_concurrent_sends_share_a_dns_lookup(http_sender: HttpSender, monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = FakeResolver(monkeypatch, ["127.0.0.1"])
    async with serve_endpoint(answer_with(OK)) as endpoint:
        outcomes = await asyncio.gather(*[http_sender.send(request_by_name(endpoint.url)) for _ in range(5)])
    assert {type(outcome) for outcome in outcomes} == {Delivered}
    assert (resolver.lookups, endpoint.connections) == (1, 5)
    assert endpoint.requests[0].headers["Host"] == endpoint.url.removeprefix("http://").replace("127.0.0.1", "a.test")


async def test_a_dns_answer_expires(http_sender: HttpSender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "DNS_CACHE_S", 0.5)
    resolver = FakeResolver(monkeypatch, ["127.0.0.1"])
    async with serve_endpoint(
        answer_with(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    ) as endpoint:
        for pause_s in (0.0, 0.0, 1.0):
            await asyncio.sleep(pause_s)
            await http_sender.send(request_by_name(endpoint.url))
    assert resolver.lookups == 2


async def test_a_busy_connection_follows_its_name_to_another_address(
    http_sender: HttpSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old server still answers, and no connection to it is ever idle."""
    monkeypatch.setattr(connect, "DNS_CACHE_S", 0.0)
    asked, served, now_s = list[str](), list[asyncio.Task[None] | None](), 1_000.0
    monkeypatch.setattr(http_pool, "time", SimpleNamespace(monotonic=lambda: now_s))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        connection = ServerConnection(reader, writer, 0, [])
        with contextlib.suppress(asyncio.IncompleteReadError):
            while await connection.request():
                asked.append(writer.get_extra_info("sockname")[0])
                await connection.answer(OK)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as old:
        port = old.sockets[0].getsockname()[1]
        async with await asyncio.start_server(serve, "127.0.0.2", port):
            request = request_by_name(f"http://127.0.0.1:{port}")
            FakeResolver(monkeypatch, ["127.0.0.1"])
            await http_sender.send(request)
            FakeResolver(monkeypatch, ["127.0.0.2"])
            for _ in range(8):
                now_s += http_pool.KEEP_ALIVE_S / 2
                assert isinstance(await http_sender.send(request), Delivered)
            await http_sender.close()
            await asyncio.gather(*filter(None, served))
    assert asked[0] == "127.0.0.1" and asked[-1] == "127.0.0.2"
    assert asked == sorted(asked), "and stays there"


async def test_a_failed_dns_lookup_is_not_cached(http_sender: HttpSender, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeResolver(monkeypatch, socket.gaierror(socket.EAI_AGAIN, "try again"), ["127.0.0.1"])
    async with serve_endpoint(answer_with(OK)) as endpoint:
        first, second = [await http_sender.send(request_by_name(endpoint.url)) for _ in range(2)]
    assert isinstance(first, Failed) and first.cause is Cause.DNS
    assert isinstance(second, Delivered)


async def test_refused_addresses_of_a_name_are_skipped(
    http_sender: HttpSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeResolver(monkeypatch, ["10.0.0.1", "127.0.0.1"])
    async with serve_endpoint(answer_with(OK)) as endpoint:
        outcome = await http_sender.send(request_by_name(endpoint.url))
    assert isinstance(outcome, Delivered)


async def test_a_name_with_private_addresses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is made at each connection, not only at Subscribe."""
    FakeResolver(monkeypatch, ["127.0.0.1", "10.0.0.1"])
    http_sender = HttpSender(AddressGuard([]), timeout_s=PATIENCE_S, wall_s=lambda: 0.0, verify=client_context(None))
    async with serve_endpoint(answer_with(OK)) as endpoint:
        outcome = await http_sender.send(request_by_name(endpoint.url))
    await http_sender.close()
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.permanent) == (Cause.REFUSED_ADDRESS, True)
    assert endpoint.connections == 0


async def test_the_next_address_is_tried(http_sender: HttpSender, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeResolver(monkeypatch, ["127.0.0.2", "127.0.0.1"])
    async with serve_endpoint(answer_with(OK)) as endpoint:  # it listens on 127.0.0.1 only
        outcome = await http_sender.send(request_by_name(endpoint.url))
    assert isinstance(outcome, Delivered)
