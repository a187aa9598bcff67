"""Thousands of HTTP endpoints in one process: healthy until told to fail; they log what arrived at each."""

from __future__ import annotations

import asyncio
import re
import resource
import socket
from array import array
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from multiprocessing.connection import Connection as Pipe
from time import perf_counter_ns
from typing import NamedTuple, cast

import uvloop

HOST = "127.0.0.1"
PORTS_PER_KIND = 4
"""Ports shared by the endpoints of a kind; each endpoint has its own path."""
BACKLOG = 4_096
SLOW_S = 5.0
TOKENS_PER_STATUS = 500
OK_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
ERROR_ANSWER = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"

NUMBER = re.compile(rb"number=(\d+) ")
"""The number in a message's body."""
STAMP = re.compile(rb"began=(\d+)")
"""In a message's body: when its publish began, in ns of the monotonic clock."""
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_TOKEN = re.compile(rb'"Token"\s*:\s*"([^"]+)"')
_PATH = b"POST /e/"


class Kind(StrEnum):
    """The behaviour of an endpoint while it fails."""

    HEALTHY = "healthy"  # answers 200
    REFUSED = "refused"  # refuses connections
    HANGING = "hanging"  # never answers
    SLOW = "slow"  # answers 200 after `SLOW_S`
    FAILING = "failing"  # answers 500


class Command(StrEnum):
    """The orders to the process, which answers each."""

    FAIL = "fail"
    RECOVER = "recover"
    STATUS = "status"  # answered with a `Status`, as the two above
    ARRIVALS = "arrivals"  # numbers, three for each `Arrival`
    BODY = "body"  # of the last message


class Status(NamedTuple):
    accepted: int  # different (endpoint, number) pairs answered with 200
    open: int  # connections
    tokens: list[tuple[int, str]]  # endpoint, token of an unconfirmed subscription; each is reported once


class Arrival(NamedTuple):
    """A request that was answered with 200."""

    endpoint: int
    number: int
    at_ns: int  # `perf_counter_ns`, which all processes of a machine share


class ArrivalLog:
    """Messages and confirmation requests that arrived at the endpoints of all kinds."""

    def __init__(self) -> None:
        self.arrivals = array("q")
        self._seen: set[tuple[int, int]] = set()
        self._tokens: list[tuple[int, str]] = []
        self.body = b""

    def note(self, endpoint: int, body: bytes, at_ns: int) -> None:
        """Note a request that was answered with 200."""
        if found := NUMBER.search(body):
            number = int(found[1])
            self.arrivals.extend((endpoint, number, at_ns))
            self._seen.add((endpoint, number))
            self.body = body
        elif token := _TOKEN.search(body):
            self._tokens.append((endpoint, token[1].decode()))

    def status(self, connections: int) -> Status:
        tokens, self._tokens = self._tokens[:TOKENS_PER_STATUS], self._tokens[TOKENS_PER_STATUS:]
        return Status(len(self._seen), connections, tokens)


class EndpointGroup:
    """The endpoints of one kind."""

    def __init__(self, kind: Kind, log: ArrivalLog) -> None:
        self._kind = kind
        self._log = log
        self._is_failing = False
        self._reserved = [_reserve() for _ in range(PORTS_PER_KIND)]
        self._servers: list[asyncio.Server] = []
        self.connections: set[Connection] = set()

    @property
    def ports(self) -> list[int]:
        return [reserved.getsockname()[1] for reserved in self._reserved]

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for port in self.ports:
            make = partial(Connection, self._answer, self.connections)
            self._servers.append(await loop.create_server(make, HOST, port, reuse_port=True, backlog=BACKLOG))

    async def fail(self) -> None:
        self._is_failing = True
        if self._kind is Kind.REFUSED:
            await self.close()

    async def recover(self) -> None:
        """Behave like a restarted server: open connections that wait for an answer are closed."""
        was_refusing, self._is_failing = self._is_failing and self._kind is Kind.REFUSED, False
        if was_refusing:
            await self.listen()
        elif self._kind in (Kind.HANGING, Kind.SLOW):
            self._hang_up()

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        self._hang_up()

    def _hang_up(self) -> None:
        for connection in tuple(self.connections):
            connection.abort()

    def _answer(self, connection: Connection, request: bytes, body_at: int) -> None:
        at_ns = perf_counter_ns()
        endpoint, body = int(request[len(_PATH) : request.index(b" ", len(_PATH))]), request[body_at:]
        match self._kind if self._is_failing else Kind.HEALTHY:
            case Kind.HANGING:
                return
            case Kind.FAILING:
                connection.write(ERROR_ANSWER)
            case Kind.SLOW:
                asyncio.get_running_loop().call_later(SLOW_S, self._answer_ok, connection, endpoint, body, at_ns)
            case _:
                self._answer_ok(connection, endpoint, body, at_ns)

    def _answer_ok(self, connection: Connection, endpoint: int, body: bytes, at_ns: int) -> None:
        if connection in self.connections:
            connection.write(OK_ANSWER)
            self._log.note(endpoint, body, at_ns)


class Connection(asyncio.Protocol):
    """A client of an endpoint; `received` gets each whole request."""

    def __init__(self, received: Callable[[Connection, bytes, int], None], open_ones: set[Connection]) -> None:
        self._received = received
        self._open_ones = open_ones
        self._buffer = b""
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none by inheritance
        self._open_ones.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_ones.discard(self)

    def abort(self) -> None:
        self._open_ones.discard(self)
        self._transport.abort()

    def write(self, answer: bytes) -> None:
        self._transport.write(answer)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (head := self._buffer.find(b"\r\n\r\n")) > 0:
            length = _LENGTH.search(self._buffer, 0, head)
            body = head + 4
            end = body + (int(length[1]) if length else 0)
            if len(self._buffer) < end:
                return
            request, self._buffer = self._buffer[:end], self._buffer[end:]
            self._received(self, request, body)


class Sink:
    """An endpoint in this process, which answers at once: it notes the time from each publish to its arrival."""

    def __init__(self) -> None:
        self.token: asyncio.Future[str]
        self.times_ns: list[int] = []
        self._arrived = asyncio.Event()
        self._server: asyncio.Server
        self._connections: set[Connection] = set()

    def reset(self) -> None:
        self.times_ns = []

    async def open(self) -> str:
        """Start listening. Returns the endpoint's URL."""
        loop = asyncio.get_running_loop()
        self.token = loop.create_future()
        self._server = await loop.create_server(lambda: Connection(self._answer, self._connections), HOST, 0)
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}/"

    async def await_count(self, n: int, timeout_s: float) -> None:
        """Wait until `n` notifications have arrived."""
        async with asyncio.timeout(timeout_s):
            while len(self.times_ns) < n:
                self._arrived.clear()
                await self._arrived.wait()

    def close(self) -> None:
        self._server.close()
        for connection in tuple(self._connections):
            connection.abort()

    def received(self, request: bytes) -> None:
        if stamp := STAMP.search(request):
            self.times_ns.append(perf_counter_ns() - int(stamp[1]))
            self._arrived.set()
        elif (token := _TOKEN.search(request)) and not self.token.done():
            self.token.set_result(token[1].decode())

    def _answer(self, connection: Connection, request: bytes, _body: int) -> None:
        self.received(request)
        connection.write(OK_ANSWER)


def _reserve() -> socket.socket:
    """Bind a port without listening, so that connections are refused and no other process gets it."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind((HOST, 0))
    return reserved


# -- the process ------------------------------------------------------------------------------------------------------


def serve(kinds: Sequence[Kind], pipe: Pipe) -> None:
    """Send the ports of each kind, and then an answer to each command, until the process is killed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(_serve(kinds, pipe))


async def _serve(kinds: Sequence[Kind], pipe: Pipe) -> None:
    log = ArrivalLog()
    groups = [EndpointGroup(kind, log) for kind in kinds]
    for group in groups:
        await group.listen()
    pipe.send([group.ports for group in groups])
    while command := await asyncio.to_thread(pipe.recv):
        for group in groups:
            if command is Command.FAIL:
                await group.fail()
            elif command is Command.RECOVER:
                await group.recover()
        match command:
            case Command.ARRIVALS:
                pipe.send(log.arrivals)
            case Command.BODY:
                pipe.send(log.body)
            case _:
                pipe.send(log.status(sum(len(group.connections) for group in groups)))
