"""Connections of balancers with PROXY headers, before and behind their TLS handshake, over loopback."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cns_common.configuration.checks import read_networks
from cns_common.configuration.settings import Settings
from cns_server import proxied_server
from cns_server.http.connection_table import ConnectionLimits, ConnectionTable
from cns_server.http.trusted_proxies import TrustedProxies
from cns_server.no_signal_server import QuietServer
from cns_server.proxied_server import ACCEPTS_PER_LOOP_TURN, IncomingConnection, ProxiedServer
from tests.private_servers.certificates import Authority
from tests.unit.server.test_proxy_header import tcp

BALANCER, OTHER = "127.0.0.2", "127.0.0.3"
GUARD_S = 1_200


class Protocol(asyncio.Protocol):
    """Answers each read with the client that its header names."""

    def __init__(self, made: set[Protocol], incoming: IncomingConnection) -> None:
        self._made = made
        self._incoming = incoming

    def connection_made(self, transport: Any) -> None:
        self._made.add(self)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._made.discard(self)

    def data_received(self, data: bytes) -> None:
        header = self._incoming.header
        client = None if header is None else header.client
        self._transport.write(f"{client} {self._incoming.network} {data.decode()}\n".encode())


class Fixture:
    def __init__(self, tls: ssl.SSLContext | None = None, **limits: int) -> None:
        self.open: set[Protocol] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.table = ConnectionTable(ConnectionLimits(**limits))
        self.listening = socket.create_server(("127.0.0.1", 0))
        proxies = TrustedProxies(read_networks(BALANCER), "x-forwarded-for")
        self.server = ProxiedServer(
            self.listening, proxies, self.table, tls, lambda incoming: Protocol(self.open, incoming)
        )

    async def connect(
        self, sent: bytes, source: str = BALANCER, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.listening.getsockname(), local_addr=(source, 0))
        self._writers.append(writer)
        writer.write(sent)
        if tls is not None:
            await writer.drain()
            await writer.start_tls(tls, server_hostname="localhost")
        return reader, writer

    async def close(self) -> None:
        self.server.close()
        await self.server.wait_closed()
        self.listening.close()
        for writer in self._writers:
            writer.close()
            with suppress(OSError):  # it was refused
                await writer.wait_closed()
        while self.open:
            await asyncio.sleep(0)

    async def counted(self, connections: int) -> None:
        while len(self.table) != connections:
            await asyncio.sleep(0)


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the connection is closed, without an answer; bytes that were not read reset it."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None, **limits: int) -> AsyncIterator[Fixture]:
    fixture = Fixture(tls, **limits)
    async with asyncio.timeout(GUARD_S):
        try:
            yield fixture
        finally:
            await fixture.close()


HEADER = tcp("203.0.113.7", 40_000)
NAMED = b"('203.0.113.7', 40000) 203.0.113.7 x\n"


@pytest.mark.parametrize("header", [HEADER, b"PROXY TCP4 203.0.113.7 10.0.0.9 40000 443\r\n"])
async def test_the_header_names_the_client(header: bytes) -> None:
    async with serving() as fixture:
        reader, _ = await fixture.connect(header + b"x")
        assert await reader.readline() == NAMED


async def test_the_header_comes_before_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue_server())
    async with serving(context) as fixture:
        reader, writer = await fixture.connect(HEADER, tls=ssl.create_default_context(cafile=str(authority.file)))
        writer.write(b"x")
        assert await reader.readline() == NAMED
        assert len(fixture.table) == 0


async def test_a_balancer_without_a_header_is_refused() -> None:
    async with serving() as fixture:
        with capture_logs() as events:
            for sent in (b"GET / HTTP/1.1\r\n\r\n", b"PROXY TCP4 x\r\n", HEADER[:12] + b"\x21\x11\xff\xff"):
                reader, _ = await fixture.connect(sent)
                assert await ended(reader)
        assert {(event["event"], event["peer"]) for event in events} == {("proxy_header.refused", BALANCER)}
        await fixture.counted(0)


async def test_a_header_of_anyone_else_is_not_read() -> None:
    async with serving() as fixture:
        reader, _ = await fixture.connect(b"PROXY TCP4 203.0.113.7 10.0.0.9 40000 443\r\n", OTHER)
        assert await reader.readline() == f"None {OTHER} PROXY TCP4 203.0.113.7 10.0.0.9 40000 443\r\n".encode()


async def test_a_header_that_does_not_come_counts_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as fixture:
        slow, _ = await fixture.connect(HEADER[:5])
        await fixture.counted(1)
        monkeypatch.setattr(proxied_server, "HEAD_S", 0)
        late, _ = await fixture.connect(HEADER[:5])
        assert await ended(late)
        await fixture.counted(1)
        fixture.server.close()
        await fixture.server.wait_closed()
        assert await ended(slow)
        assert len(fixture.table) == 0


async def test_a_handshake_that_does_not_end_counts_as_the_clients(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority(tmp_path).issue_server())
    async with serving(context, connections_per_address_max=2) as fixture:
        slow = []
        for _ in range(2):
            slow.append((await fixture.connect(HEADER))[0])
            await fixture.counted(len(slow))
        other, _ = await fixture.connect(tcp("203.0.113.8"))
        await fixture.counted(3)
        third, _ = await fixture.connect(HEADER)
        assert await ended(slow[0]), "the one that waits longest"
        await fixture.counted(3)
        for reader in (slow[1], third, other):
            assert not reader.at_eof()


async def test_pending_connections_are_bounded() -> None:
    async with serving(connections_max=3) as fixture:
        readers = []
        for _ in range(3):
            readers.append((await fixture.connect(b"P"))[0])
            await fixture.counted(len(readers))
        await fixture.connect(b"P")
        assert await ended(readers[0])
        await fixture.counted(3)


async def test_a_flood_of_callers_leaves_the_loop_to_others() -> None:
    async with serving() as fixture:
        callers = [socket.create_connection(fixture.listening.getsockname()) for _ in range(5 * ACCEPTS_PER_LOOP_TURN)]
        await asyncio.sleep(0)
        assert 0 < len(fixture.server._incoming) <= ACCEPTS_PER_LOOP_TURN
        for caller in callers:
            caller.close()
        while fixture.server._incoming:
            await asyncio.sleep(0)


async def test_an_empty_table_is_the_servers_own() -> None:
    table = ConnectionTable(ConnectionLimits())
    server = QuietServer(Settings(trusted_proxies=read_networks(BALANCER), proxy_protocol="on"), None, table)
    assert server._table is table
