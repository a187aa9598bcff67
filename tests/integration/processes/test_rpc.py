"""Calls over the Unix socket: typed, bounded, together in a frame, and each with an end, whatever happens."""

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
from cns_common.rpc.rpc import Client, Method, Server, Session

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


class Far:
    """The serving side."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hanging: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.asked = 0
        self.left: list[Session] = []
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
        server.on_close.append(self.left.append)
        return server

    async def restart(self) -> None:
        await self.server.close()
        self.server = self._server()
        await self.server.start(self.path)

    async def _echo(self, _: Session, payload: bytes) -> bytes:
        return payload

    async def _raise(self, _: Session, kind: str) -> None:
        raise ERRORS[kind]

    async def _hang(self, _: Session) -> int:
        self.asked += 1
        return await asyncio.shield(self.hanging)

    async def _mistyped(self, _: Session) -> Any:
        return "no number"

    async def _broken(self, _: Session) -> int:
        raise ZeroDivisionError

    async def _push(self, session: Session, n: int) -> None:
        for i in range(n):
            session.event("pushed", i)


@pytest.fixture
async def far(tmp_path: Path) -> AsyncIterator[Far]:
    far = Far(tmp_path / "socket")
    await far.server.start(far.path)
    yield far
    await far.server.close()


@pytest.fixture
async def client(far: Far) -> AsyncIterator[Client]:
    client = Client(far.path, METHODS)
    await client.start()
    yield client
    await client.close()


@pytest.fixture
def reported() -> list[str]:
    """What the loop's exception handler was told, in place of the log."""
    told: list[str] = []
    asyncio.get_event_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
    return told


# -- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 5_000_000])
async def test_a_call_is_answered(client: Client, size: int) -> None:
    assert await client.call("echo", b"x" * size) == b"x" * size


async def test_many_calls_of_one_turn_share_a_frame_and_get_each_their_answer(client: Client) -> None:
    answers = await asyncio.gather(*[client.call("echo", b"%d" % i) for i in range(500)])
    assert answers == [b"%d" % i for i in range(500)]


async def test_a_slow_call_holds_up_no_other(client: Client, far: Far) -> None:
    slow = asyncio.create_task(client.call("hang"))
    assert await client.call("echo", b"x") == b"x"
    assert not slow.done()
    far.hanging.set_result(7)
    assert await slow == 7


@pytest.mark.parametrize("kind", ERRORS)
async def test_errors_keep_their_kind(client: Client, kind: str) -> None:
    with pytest.raises(type(ERRORS[kind])) as raised:
        await client.call("raise", kind)
    assert str(raised.value) == str(ERRORS[kind])
    assert type(raised.value) is type(ERRORS[kind])


async def test_a_caller_that_gives_up_disturbs_nobody(client: Client, far: Far) -> None:
    gone = asyncio.create_task(client.call("hang"))
    await client.call("echo", b"")
    gone.cancel()
    far.hanging.set_result(7)
    assert await client.call("echo", b"x") == b"x"


async def test_events_come_in_order_and_before_the_answer_that_follows(client: Client) -> None:
    pushed: list[int] = []
    client.on_event("pushed", int, pushed.append)
    await client.call("push", 5)
    assert pushed == [0, 1, 2, 3, 4]


async def test_events_that_a_client_did_not_ask_for_are_no_fault(client: Client, reported: list[str]) -> None:
    """As of a command, which reads one store while the service tells all of changes to others."""
    await client.call("push", 5)
    assert await client.call("echo", b"x") == b"x"
    assert reported == []


# -- what does not fit ------------------------------------------------------------------------------------------------


async def test_what_one_frame_cannot_hold_goes_in_several(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 10_000)
    answers = await asyncio.gather(*[client.call("echo", b"%d" % i * 500) for i in range(100)])
    assert answers == [b"%d" % i * 500 for i in range(100)]


async def test_a_call_that_no_frame_holds_fails(
    client: Client, monkeypatch: pytest.MonkeyPatch, reported: list[str]
) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 10_000)
    with pytest.raises(OutcomeUnknown):
        await client.call("echo", b"x" * 10_000)
    assert await client.call("echo", b"x") == b"x"
    assert reported == ["a frame was refused"]


@pytest.mark.parametrize(
    "junk",
    [
        struct.pack(">I", frames.FRAME_BYTES_MAX + 1),
        struct.pack(">I", 3) + b"\xc1\xc1\xc1",
        struct.pack(">I", 1) + b"\x01",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_a_stranger_is_hung_up_on(far: Far, client: Client, junk: bytes, reported: list[str]) -> None:
    reader, writer = await asyncio.open_unix_connection(str(far.path))
    writer.write(junk)
    assert await reader.read() == b""
    writer.close()
    assert await client.call("echo", b"x") == b"x"


async def test_a_frame_in_pieces(far: Far) -> None:
    reader, writer = await asyncio.open_unix_connection(str(far.path))
    body = msgspec.msgpack.encode([(rpc.CALL, 1, "echo", (b"hello",))])
    for byte in struct.pack(">I", len(body)) + body:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0)
    (length,) = struct.unpack(">I", await reader.readexactly(4))
    assert msgspec.msgpack.decode(await reader.readexactly(length)) == [[rpc.ANSWER, 1, "", b"hello"]]
    writer.close()


@pytest.mark.parametrize("call", [("echo", "no bytes"), ("echo",), ("unheard", b"of"), ("broken",)])
async def test_a_call_that_fails_there_fails_here(
    far: Far, client: Client, call: tuple[Any, ...], reported: list[str]
) -> None:
    other = Client(far.path, {**METHODS, "unheard": Method(tuple[bytes], bytes)})
    await other.start()
    with pytest.raises(OutcomeUnknown):
        await other.call(*call)
    assert await other.call("echo", b"x") == b"x"
    assert reported == ["a call failed"]
    await other.close()


async def test_an_answer_of_the_wrong_type_is_refused(client: Client, reported: list[str]) -> None:
    with pytest.raises(OutcomeUnknown):
        await client.call("mistyped")
    assert await client.call("echo", b"x") == b"x"
    assert reported == ["a frame was refused"]


# -- connections that end ---------------------------------------------------------------------------------------------


async def test_calls_under_way_fail_when_the_host_goes_away(client: Client, far: Far) -> None:
    calls = [asyncio.create_task(client.call("hang")) for _ in range(5)]
    while far.asked < 5:
        await asyncio.sleep(0)
    await far.server.close()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [OutcomeUnknown] * 5
    assert not client.connected


async def test_the_client_comes_back_by_itself(client: Client, far: Far) -> None:
    connects: list[int] = []
    client.on_connect.append(lambda: connects.append(1))
    for n in range(1, 4):
        await far.restart()
        while client.connected and len(connects) < n:
            await asyncio.sleep(0)
        assert await client.call("echo", b"x") == b"x"
        assert len(connects) == n


async def test_calls_wait_for_a_host_that_is_away(client: Client, far: Far) -> None:
    await far.server.close()
    while client.connected:
        await asyncio.sleep(0)
    waiting = asyncio.create_task(client.call("echo", b"x"))
    with pytest.raises(StoreUnavailable):
        await client.post("echo", b"x")
    await far.restart()
    assert await waiting == b"x"


async def test_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "CONNECT_TIMEOUT_S", 0.01)
    client = Client(tmp_path / "nobody", METHODS)
    with pytest.raises(StoreUnavailable):
        await client.start()
    await client.close()


async def test_closing_the_client_ends_its_calls(client: Client, far: Far) -> None:
    call = asyncio.create_task(client.call("hang"))
    while not far.asked:
        await asyncio.sleep(0)
    await client.close()
    with pytest.raises(OutcomeUnknown):
        await call


async def test_the_host_hears_that_a_client_has_gone(client: Client, far: Far) -> None:
    await client.call("echo", b"x")
    await client.close()
    while not far.left:
        await asyncio.sleep(0)
    assert len(far.left) == 1
    assert not far.server.sessions


async def test_the_socket_of_a_dead_host_is_replaced(tmp_path: Path) -> None:
    far = Far(tmp_path / "socket")
    await far.server.start(far.path)
    await far.server.close()
    assert far.path.exists()
    await far.restart()
    client = Client(far.path, METHODS)
    await client.start()
    assert await client.call("echo", b"x") == b"x"
    await client.close()
    await far.server.close()


async def test_a_server_answers_everything_or_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no handler for"):
        await Server(METHODS).start(tmp_path / "socket")
