"""Publishing to channels of a real Redis: the received bytes, and the causes of failures."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis
import redis.asyncio

from cns.endpoints import connect, redis_channel
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.endpoints.redis_channel import IDLE_CONNECTIONS_MAX, RedisSender
from cns.endpoints.redis_connection import REPLY_BYTES_MAX, RedisConnection
from cns.endpoints.redis_request import RedisRequest
from cns_common.tls import client_context
from lab.harness.own_redis import OwnRedis
from lab.harness.ports import free_port
from lab.harness.waiting import PATIENCE_S
from tests.endpoint_bytes import Transport, kept_bytes
from tests.private_servers.certificates import make_certificates

SHORT_TIMEOUT_S = 0.5
TIMEOUT_S = PATIENCE_S
ATTEMPTS = 40
LOOPBACK = AddressGuard(["127.0.0.0/8", "::1/128"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    """A Redis with a password, and with a user who may publish to channels that begin with `open`."""
    server = OwnRedis(tmp_path_factory.mktemp("redis"), options=("--requirepass", "se:cret"))
    server.start()
    with redis.Redis(port=server.port, password="se:cret") as client:
        client.acl_setuser("bob", enabled=True, passwords=["++p w"], commands=["+publish"], channels=["open*"])
    yield server
    server.kill()


@pytest.fixture
async def sender() -> AsyncIterator[RedisSender]:
    sender = RedisSender(LOOPBACK, timeout_s=TIMEOUT_S, verify=client_context(None))
    yield sender
    await sender.close()


def failure(outcome: Outcome) -> tuple[Cause, bool]:
    assert isinstance(outcome, Failed)
    return outcome.cause, outcome.permanent


def url(server: OwnRedis, channel: str = "open", credentials: str = ":se%3Acret@") -> str:
    return f"redis://{credentials}127.0.0.1:{server.port}/{channel}"


@pytest.mark.parametrize("body", [b"text", "☎".encode(), b"line\r\nline", b"x" * 300_000, b""])
async def test_a_subscriber_receives_the_bytes(server: OwnRedis, sender: RedisSender, body: bytes) -> None:
    async with redis.asyncio.Redis(port=server.port, password="se:cret") as client, client.pubsub() as pubsub:
        await pubsub.subscribe("open/a b")
        await pubsub.get_message(timeout=PATIENCE_S)
        outcome = await sender.send(RedisRequest(url(server, "open/a%20b"), body))
        assert isinstance(outcome, Delivered) and outcome.size_bytes == len(body)
        received = await pubsub.get_message(timeout=PATIENCE_S)
        assert received is not None and received["data"] == body


async def test_a_publish_without_subscribers_is_delivered(server: OwnRedis, sender: RedisSender) -> None:
    assert isinstance(await sender.send(RedisRequest(url(server), b"x")), Delivered)


async def test_sends_share_connections(server: OwnRedis, sender: RedisSender) -> None:
    with redis.Redis(port=server.port, password="se:cret") as client:
        before = client.info("stats")["total_connections_received"]
        for _ in range(20):
            await sender.send(RedisRequest(url(server), b"x"))
        await asyncio.gather(*[sender.send(RedisRequest(url(server), b"x")) for _ in range(3 * IDLE_CONNECTIONS_MAX)])
        for _ in range(20):
            await sender.send(RedisRequest(url(server), b"x"))
        opened = client.info("stats")["total_connections_received"] - before
    assert 0 < opened <= 3 * IDLE_CONNECTIONS_MAX


async def test_a_busy_connection_is_replaced_in_time(
    server: OwnRedis, sender: RedisSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a fail-over the name stands for another server, and publishes to the old one reach nobody."""
    now_s = 1_000.0
    monkeypatch.setattr(redis_channel, "time", SimpleNamespace(monotonic=lambda: now_s))
    with redis.Redis(port=server.port, password="se:cret") as client:
        before = client.info("stats")["total_connections_received"]
        for _ in range(3):
            assert isinstance(await sender.send(RedisRequest(url(server), b"x")), Delivered)
            now_s += connect.CONNECTION_AGE_S_MAX * 0.6
        assert isinstance(await sender.send(RedisRequest(url(server), b"x")), Delivered)
        opened = client.info("stats")["total_connections_received"] - before
    assert opened == 2


@pytest.mark.parametrize(
    ("channel", "credentials", "delivered"),
    [
        ("open", "bob:%2Bp%20w@", True),
        ("closed", "bob:%2Bp%20w@", False),
        ("open", ":wrong@", False),
        ("open", "", False),
    ],
)
async def test_a_missing_permission_is_not_a_permanent_failure(
    server: OwnRedis, sender: RedisSender, channel: str, credentials: str, delivered: bool
) -> None:
    outcome = await sender.send(RedisRequest(url(server, channel, credentials), b"x"))
    if delivered:
        assert isinstance(outcome, Delivered)
    else:
        assert failure(outcome) == (Cause.STATUS, False)


async def test_a_server_that_comes_back(tmp_path: Path, sender: RedisSender) -> None:
    server = OwnRedis(tmp_path)
    request = RedisRequest(url(server, credentials=""), b"x")
    impatient = RedisSender(LOOPBACK, timeout_s=SHORT_TIMEOUT_S, verify=client_context(None))

    async def is_delivered_by_impatient() -> bool:
        """On a busy machine the server may answer too late, but not time after time."""
        for _ in range(ATTEMPTS):
            if isinstance(await impatient.send(request), Delivered):
                return True
        return False

    assert failure(await sender.send(request)) == (Cause.CONNECTION, False)
    server.start()
    try:
        assert isinstance(await sender.send(request), Delivered)
        assert await is_delivered_by_impatient()
        server.pause()
        assert failure(await impatient.send(request)) == (Cause.TIMEOUT, False)
        server.resume()
        assert await is_delivered_by_impatient()
        server.kill()
        assert failure(await sender.send(request)) == (Cause.CONNECTION, False)
        server.start()
        assert isinstance(await sender.send(request), Delivered)
    finally:
        server.kill()
        await impatient.close()


async def test_a_private_address_is_refused_at_the_connection(server: OwnRedis) -> None:
    sender = RedisSender(AddressGuard([]), timeout_s=SHORT_TIMEOUT_S, verify=client_context(None))
    assert failure(await sender.send(RedisRequest(url(server), b"x"))) == (Cause.REFUSED_ADDRESS, True)


async def test_a_redis_name_that_does_not_resolve(sender: RedisSender) -> None:
    assert failure(await sender.send(RedisRequest("redis://absent.invalid/c", b"x"))) == (Cause.DNS, False)


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"",
        b"+" + b"x" * 100_000,
        b"+no end",
        b":none\r\n",
        b"$100000000000\r\n",
        b"*4000000000\r\n",
        b"*1\r\n" * 1_000,
    ],
)
async def test_invalid_replies(sender: RedisSender, reply: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(reply)
        writer.close()

    port = free_port()
    async with await asyncio.start_server(answer, "127.0.0.1", port):
        outcome = await sender.send(RedisRequest(f"redis://127.0.0.1:{port}/c", b"x"))
    assert failure(outcome) == (Cause.CONNECTION, False)


@pytest.mark.parametrize("trusted", [True, False])
async def test_tls_is_verified(tmp_path: Path, trusted: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            await reader.readuntil(b"x\r\n")
            writer.write(b":0\r\n")

    authority = make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    port = free_port()
    sender = RedisSender(LOOPBACK, timeout_s=TIMEOUT_S, verify=client_context(authority if trusted else None))
    async with await asyncio.start_server(answer, "127.0.0.1", port, ssl=tls):
        outcome = await sender.send(RedisRequest(f"rediss://localhost:{port}/c", b"x"))
        await sender.close()
    if trusted:
        assert isinstance(outcome, Delivered)
    else:
        assert failure(outcome) == (Cause.TLS, False)


async def publish_to_server(replies: bytes, publishes: int) -> list[Outcome]:
    """Publish one by one to a server that answers each connection's first command with `replies` at once, and later
    commands with +OK."""
    commands: list[bytes] = []
    connections: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.current_task())
        reply = replies
        with closing(writer), suppress(ConnectionError):
            while command := await reader.read(1_000):
                commands.append(command)
                writer.write(reply)
                reply = b"+OK\r\n"

    sender = RedisSender(LOOPBACK, timeout_s=TIMEOUT_S, verify=client_context(None))
    port = free_port()
    async with await asyncio.start_server(serve, "127.0.0.1", port):
        outcomes = [await sender.send(RedisRequest(f"redis://127.0.0.1:{port}/c", b"x")) for _ in range(publishes)]
        await sender.close()
        await asyncio.gather(*filter(None, connections))
    assert len(commands) == publishes
    return outcomes


async def test_an_unrequested_reply_is_not_a_later_commands_reply() -> None:
    first, second = await publish_to_server(b"+OK\r\n-ERR of nothing\r\n", publishes=2)
    assert (type(first), type(second)) == (Delivered, Delivered)


async def test_a_reply_without_end_is_cut_off() -> None:
    (outcome,) = await publish_to_server(b"+" + b"x" * 2 * REPLY_BYTES_MAX, publishes=1)
    assert failure(outcome) == (Cause.CONNECTION, False)
    assert outcome.text == "the reply of Redis has no end"  # type: ignore[union-attr]  # a failure


async def test_bytes_to_an_idle_connection_are_not_kept() -> None:
    connection, transport = RedisConnection(), Transport()
    connection.connection_made(transport)
    for _ in range(3):
        connection.data_received(b"x" * 256 * 1024)
    assert transport.aborted
    assert kept_bytes(connection) < REPLY_BYTES_MAX
