"""Calls between this machine's processes over a Unix socket: all calls of a loop turn are one frame.

A frame is a four-byte length and a MessagePack array of calls, answers or events. Calls are described by a table of
`Method`s that both sides share; arguments and results are typed, so a frame that does not fit is refused.
Answers may come in another order than the calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from cns_common.errors import CnsError, OutcomeUnknown, RequestError, StoreFull, StoreUnavailable
from cns_common.rpc.frames import Frames, Item

RECONNECT_S = 0.05
CONNECT_TIMEOUT_S = 10.0

CALL, ANSWER, FAULT, EVENT = 0, 1, 2, 3
_FAULTS: dict[str, Callable[[str, str], CnsError]] = {
    "request": RequestError,
    "unavailable": lambda _, message: StoreUnavailable(message),
    "full": lambda _, message: StoreFull(message),
    "unknown": lambda _, message: OutcomeUnknown(message),
}

_decode_fault = msgspec.msgpack.Decoder(tuple[str, str]).decode


@dataclass(frozen=True, slots=True)
class Method:
    """The types of one call: `arguments` is a tuple type, `result` any type that msgspec knows."""

    arguments: Any
    result: Any


Handler = Callable[..., Awaitable[Any]]


class RpcSession:
    """The serving side of one connection. Handlers may keep values of theirs in `state`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.frames = Frames(self._items)
        self.state: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    def event(self, name: str, payload: Any) -> None:
        self.frames.put(EVENT, 0, name, payload)

    def _items(self, items: list[Item]) -> None:
        for _, number, name, raw in items:
            task = self._loop.create_task(self._answer(number, name, raw))
            self._tasks.add(task)
            task.add_done_callback(partial(self._answered, number))

    def _answered(self, number: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # a bug, or arguments that do not fit their types: the caller must not wait for ever
            self.frames.put(FAULT, number, "unknown", ("", "the call failed in the store host"))
            self._loop.call_exception_handler({"message": "a call failed", "exception": error, "task": task})

    async def _answer(self, number: int, name: str, raw: msgspec.Raw) -> None:
        try:
            handler, decoder = self._server.table[name]
            result = await handler(self, *decoder.decode(raw))
        except RequestError as error:
            self.frames.put(FAULT, number, "request", (error.code, error.message))
        except StoreFull as error:
            self.frames.put(FAULT, number, "full", ("", str(error)))
        except StoreUnavailable as error:
            self.frames.put(FAULT, number, "unavailable", ("", str(error)))
        except OutcomeUnknown as error:
            self.frames.put(FAULT, number, "unknown", ("", str(error)))
        else:
            self.frames.put(ANSWER, number, "", result)


class Server:
    """Answers calls on a Unix socket; access is limited by the permissions of its directory."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = methods
        self.table: dict[str, tuple[Handler, msgspec.msgpack.Decoder[Any]]] = {}
        self.sessions: set[RpcSession] = set()
        self.on_close: list[Callable[[RpcSession], None]] = []
        self._server: asyncio.AbstractServer | None = None

    def answer(self, handlers: Mapping[str, Handler]) -> None:
        """Add handlers of some methods."""
        for name, handler in handlers.items():
            self.table[name] = (handler, msgspec.msgpack.Decoder(self._methods[name].arguments))

    async def start(self, path: Path) -> None:
        """Serve on `path`; a socket file left by a dead process is replaced.

        Raises ValueError if a method has no handler.
        """
        unanswered = self._methods.keys() - self.table.keys()
        if unanswered:
            raise ValueError(f"no handler for {sorted(unanswered)}")
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._accept, str(path), backlog=128)

    def _accept(self) -> asyncio.Protocol:
        session = RpcSession(self)
        self.sessions.add(session)
        session.frames.closed.add_done_callback(lambda _: self._remove(session))
        return session.frames

    def _remove(self, session: RpcSession) -> None:
        self.sessions.discard(session)
        for callback in self.on_close:
            callback(session)

    def broadcast(self, name: str, payload: Any) -> None:
        for session in self.sessions:
            session.event(name, payload)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.on_close.clear()  # the clients are still there: this process ends
        for session in list(self.sessions):
            session.frames.close()


class RpcClient:
    """The calling side. It reconnects for ever; calls made while it is not connected wait up to `CONNECT_TIMEOUT_S`."""

    def __init__(self, path: Path, methods: Mapping[str, Method]) -> None:
        self._path = str(path)
        self._decoders = {name: msgspec.msgpack.Decoder(method.result) for name, method in methods.items()}
        self._frames: Frames | None = None
        self._pending: dict[int, tuple[asyncio.Future[Any], msgspec.msgpack.Decoder[Any]]] = {}
        self._number = 0
        self._keeper: asyncio.Task[None] | None = None
        self._events: dict[str, tuple[msgspec.msgpack.Decoder[Any], Callable[[Any], None]]] = {}
        self.absence: asyncio.Future[None] | None = None
        """None while connected; else done when that is so again."""
        self.on_connect: list[Callable[[], None]] = []
        """Called after every connect: the server keeps no state of earlier connections."""

    def on_event(self, name: str, payload: Any, callback: Callable[[Any], None]) -> None:
        """Call `callback` for events of this name. Events without a callback are ignored: a broadcast goes to all."""
        self._events[name] = (msgspec.msgpack.Decoder(payload), callback)

    async def start(self) -> None:
        self.absence = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep_connected(), name="rpc-client")
        await self._wait_connected(self.absence)

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
        if self._frames is not None:
            self._frames.close()
        self._disconnected()

    @property
    def connected(self) -> bool:
        return self._frames is not None

    async def _keep_connected(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, frames = await loop.create_unix_connection(lambda: Frames(self._items), self._path)
            except OSError:
                await asyncio.sleep(RECONNECT_S)
                continue
            self._frames = frames
            absence, self.absence = self.absence, None
            if absence is not None:
                absence.set_result(None)
            for callback in self.on_connect:
                callback()
            await frames.closed
            self._disconnected()

    def _disconnected(self) -> None:
        self._frames = None
        if self.absence is None:
            self.absence = asyncio.get_running_loop().create_future()
        pending, self._pending = self._pending, {}
        for future, _ in pending.values():
            if not future.done():
                future.set_exception(OutcomeUnknown("the store host went away"))

    async def _wait_connected(self, absence: asyncio.Future[None]) -> None:
        await asyncio.wait({absence}, timeout=CONNECT_TIMEOUT_S)
        if not absence.done():
            raise StoreUnavailable("the store host does not answer")

    async def call(self, name: str, *arguments: Any) -> Any:
        while self.absence is not None:
            await self._wait_connected(self.absence)
        return await self.post(name, *arguments)

    def post(self, name: str, *arguments: Any) -> asyncio.Future[Any]:
        """As `call`, but raises StoreUnavailable at once when not connected."""
        if self._frames is None:
            raise StoreUnavailable("the store host does not answer")
        self._number += 1
        future = asyncio.get_running_loop().create_future()
        self._pending[self._number] = (future, self._decoders[name])
        self._frames.put(CALL, self._number, name, arguments)
        return future

    def _items(self, items: list[Item]) -> None:
        for kind, number, name, raw in items:
            if kind == EVENT:
                self._event(name, raw)
                continue
            future, decoder = self._pending[number]
            result = decoder.decode(raw) if kind == ANSWER else _decode_fault(raw)
            del self._pending[number]  # not earlier: a call whose answer cannot be decoded fails with the connection
            if future.done():
                continue
            if kind == ANSWER:
                future.set_result(result)
            else:
                future.set_exception(_FAULTS[name](*result))

    def _event(self, name: str, raw: msgspec.Raw) -> None:
        if name in self._events:
            decoder, callback = self._events[name]
            callback(decoder.decode(raw))
