"""Calls over the Unix socket: typed, limited in size, several in a frame, and each is answered or fails."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cns_common.errors import OutcomeUnknown, RequestError, StoreFull, StoreUnavailable
from cns_common.rpc import frames, rpc
from cns_common.rpc.rpc import Method, RpcClient, RpcSession, Server

METHODS = {
    "echo": Method(tuple[bytes], bytes),
    "raise": Method(tuple[str], None),
    "hang": Method(tuple[()], int),
    "mistyped": Method(tuple[()], int),
    "broken": Method(tuple[()], int),
    "push": Method(tuple[int], None),
}
ERRORS = {
    "request": RequestError("InvalidParameter", "no"),
    "unavailable": StoreUnavailable("away"),
    "full": StoreFull("full"),
    "unknown": OutcomeUnknown("who knows"),
}


class EchoHost:
    """A host with simple methods."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hanging: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.hanging_calls = 0
        self.closed_sessions: list[RpcSession] = []
        self.server = self._server()

    def _server(self) -> Server:
        server = Server(METHODS)
        server.answer(
            {
                "echo": self._echo,
                "raise": self._raise,
                "hang": self._hang,
                "mistyped": self._mistyped,
                "broken": self._broken,
                "push": self._push,
            }
        )
        server.on_close.append(self.closed_sessions.append)
        return server

    async def restart(self) -> None:
        await self.server.close()
        self.server = self._server()
        await self.server.start(self.path)

    async def _echo(self, _: RpcSession, payload: bytes) -> bytes:
        return payload

    async def _raise(self, _: RpcSession, kind: str) -> None:
        raise ERRORS[kind]

    async def _hang(self, _: RpcSession) -> int:
        self.hanging_calls += 1
        return await asyncio.shield(self.hanging)

    async def _mistyped(self, _: RpcSession) -> Any:
        return "no number"

    async def _broken(self, _: RpcSession) -> int:
        raise ZeroDivisionError

    async def _push(self, session: RpcSession, n: int) -> None:
        for i in range(n):
            session.event("pushed", i)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[EchoHost]:
    host = EchoHost(tmp_path / "socket")
    await host.server.start(host.path)
    yield host
    await host.server.close()


@pytest.fixture
async def client(host: EchoHost) -> AsyncIterator[RpcClient]:
    client = RpcClient(host.path, METHODS)
    await client.start()
    yield client
    await client.close()


@pytest.fixture
def logged_errors() -> list[str]:
    """The messages that the event loop's exception handler got instead of the log."""
    messages: list[str] = []
    asyncio.get_event_loop().set_exception_handler(lambda _, context: messages.append(context["message"]))
    return messages


# -- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 5_000_000])
async def test_a_call_is_answered(client: RpcClient, size: int) -> None:
    assert await client.call("echo", b"x" * size) == b"x" * size


async def test_calls_of_one_turn_share_a_frame(client: RpcClient) -> None:
    answers = await asyncio.gather(*[client.call("echo", b"%d" % i) for i in range(500)])
    assert answers == [b"%d" % i for i in range(500)]


async def test_a_slow_call_does_not_delay_others(client: RpcClient, host: EchoHost) -> None:
    slow = asyncio.create_task(client.call("hang"))
    assert await client.call("echo", b"x") == b"x"
    assert not slow.done()
    host.hanging.set_result(7)
    assert await slow == 7


@pytest.mark.parametrize("kind", ERRORS)
async def test_errors_keep_their_kind(client: RpcClient, kind: str) -> None:
    with pytest.raises(type(ERRORS[kind])) as raised:
        await client.call("raise", kind)
    assert str(raised.value) == str(ERRORS[kind])
    assert type(raised.value) is type(ERRORS[kind])


async def test_a_cancelled_call_does_not_affect_others(client: RpcClient, host: EchoHost) -> None:
    cancelled = asyncio.create_task(client.call("hang"))
    await client.call("echo", b"")
    cancelled.cancel()
    host.hanging.set_result(7)
    assert await client.call("echo", b"x") == b"x"


async def test_events_come_in_order_and_before_the_next_answer(client: RpcClient) -> None:
    pushed: list[int] = []
    client.on_event("pushed", int, pushed.append)
    await client.call("push", 5)
    assert pushed == [0, 1, 2, 3, 4]


async def test_events_without_a_handler_are_ignored(client: RpcClient, logged_errors: list[str]) -> None:
    """A command, for example, uses one store while the host announces changes of others."""
    await client.call("push", 5)
    assert await client.call("echo", b"x") == b"x"
    assert logged_errors == []


# -- frames ------------------------------------------------------------------------------------------------------------


async def test_calls_are_split_into_several_frames(client: RpcClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 10_000)
    answers = await asyncio.gather(*[client.call("echo", b"%d" % i * 500) for i in range(100)])
    assert answers == [b"%d" % i * 500 for i in range(100)]


async def test_a_call_larger_than_a_frame_fails(
    client: RpcClient, monkeypatch: pytest.MonkeyPatch, logged_errors: list[str]
) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 10_000)
    with pytest.raises(OutcomeUnknown):
        await client.call("echo", b"x" * 10_000)
    assert await client.call("echo", b"x") == b"x"
    assert logged_errors == ["a frame was refused"]


@pytest.mark.parametrize(
    "bytes_sent",
    [
        struct.pack(">I", frames.FRAME_BYTES_MAX + 1),
        struct.pack(">I", 3) + b"\xc1\xc1\xc1",
        struct.pack(">I", 1) + b"\x01",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_an_invalid_frame_closes_the_connection(
    host: EchoHost, client: RpcClient, bytes_sent: bytes, logged_errors: list[str]
) -> None:
    reader, writer = await asyncio.open_unix_connection(str(host.path))
    writer.write(bytes_sent)
    assert await reader.read() == b""
    writer.close()
    assert await client.call("echo", b"x") == b"x"


async def test_a_frame_in_pieces(host: EchoHost) -> None:
    reader, writer = await asyncio.open_unix_connection(str(host.path))
    body = msgspec.msgpack.encode([(rpc.CALL, 1, "echo", (b"hello",))])
    for byte in struct.pack(">I", len(body)) + body:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0)
    (length,) = struct.unpack(">I", await reader.readexactly(4))
    assert msgspec.msgpack.decode(await reader.readexactly(length)) == [[rpc.ANSWER, 1, "", b"hello"]]
    writer.close()


@pytest.mark.parametrize("call", [("echo", "no bytes"), ("echo",), ("unheard", b"of"), ("broken",)])
async def test_a_failure_at_the_host_fails_the_call(
    host: EchoHost, client: RpcClient, call: tuple[Any, ...], logged_errors: list[str]
) -> None:
    other = RpcClient(host.path, {**METHODS, "unheard": Method(tuple[bytes], bytes)})
    await other.start()
    with pytest.raises(OutcomeUnknown):
        await other.call(*call)
    assert await other.call("echo", b"x") == b"x"
    assert logged_errors == ["a call failed"]
    await other.close()


async def test_an_answer_of_the_wrong_type_is_refused(client: RpcClient, logged_errors: list[str]) -> None:
    with pytest.raises(OutcomeUnknown):
        await client.call("mistyped")
    assert await client.call("echo", b"x") == b"x"
    assert logged_errors == ["a frame was refused"]


# -- connections that end ---------------------------------------------------------------------------------------------


async def test_running_calls_fail_when_the_host_closes(client: RpcClient, host: EchoHost) -> None:
    calls = [asyncio.create_task(client.call("hang")) for _ in range(5)]
    while host.hanging_calls < 5:
        await asyncio.sleep(0)
    await host.server.close()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [OutcomeUnknown] * 5
    assert not client.connected


async def test_the_client_reconnects(client: RpcClient, host: EchoHost) -> None:
    connects: list[int] = []
    client.on_connect.append(lambda: connects.append(1))
    for n in range(1, 4):
        await host.restart()
        while client.connected and len(connects) < n:
            await asyncio.sleep(0)
        assert await client.call("echo", b"x") == b"x"
        assert len(connects) == n


async def test_calls_wait_for_the_host(client: RpcClient, host: EchoHost) -> None:
    await host.server.close()
    while client.connected:
        await asyncio.sleep(0)
    waiting = asyncio.create_task(client.call("echo", b"x"))
    with pytest.raises(StoreUnavailable):
        await client.post("echo", b"x")
    await host.restart()
    assert await waiting == b"x"


async def test_calls_wait_for_the_host_with_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "CONNECT_TIMEOUT_S", 0.01)
    client = RpcClient(tmp_path / "nobody", METHODS)
    with pytest.raises(StoreUnavailable):
        await client.start()
    await client.close()


async def test_closing_the_client_ends_its_calls(client: RpcClient, host: EchoHost) -> None:
    call = asyncio.create_task(client.call("hang"))
    while not host.hanging_calls:
        await asyncio.sleep(0)
    await client.close()
    with pytest.raises(OutcomeUnknown):
        await call


async def test_the_host_notices_a_closed_client(client: RpcClient, host: EchoHost) -> None:
    await client.call("echo", b"x")
    await client.close()
    while not host.closed_sessions:
        await asyncio.sleep(0)
    assert len(host.closed_sessions) == 1
    assert not host.server.sessions


async def test_the_socket_of_a_dead_host_is_replaced(tmp_path: Path) -> None:
    host = EchoHost(tmp_path / "socket")
    await host.server.start(host.path)
    await host.server.close()
    assert host.path.exists()
    await host.restart()
    client = RpcClient(host.path, METHODS)
    await client.start()
    assert await client.call("echo", b"x") == b"x"
    await client.close()
    await host.server.close()


async def test_a_server_without_a_handler_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no handler for"):
        await Server(METHODS).start(tmp_path / "socket")
