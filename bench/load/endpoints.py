"""HTTP endpoints by the thousand in a process of their own: well until told to ail, and they know what came to each.

    python -m bench.load.endpoints OUT healthy=500 refused=125 hanging=125 slow=125 failing=125

They are numbered in this order. Prints a line of JSON (`Begun`), and one (`Told`) for each command that it reads:
`ail`, `recover`, `look`, `save` (arrivals and the last body, into the directory OUT). Ends with its input.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import resource
import socket
import sys
from array import array
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from itertools import accumulate
from pathlib import Path
from time import perf_counter_ns
from typing import cast

import msgspec
import uvloop

HOST = "127.0.0.1"
SITES = 4
"""Ports that the endpoints of a kind share, each at a path of its own."""
BACKLOG = 4_096
SLOW_S = 5.0
TOKENS_A_LOOK = 500
ARRIVALS_FILE, BODY_FILE = "arrivals", "body"
WELL = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
FAILED = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"

NUMBER = re.compile(rb"number=(\d+) ")
"""What a message says of itself."""
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_TOKEN = re.compile(rb'"Token"\s*:\s*"([^"]+)"')
_PATH = b"POST /e/"


class Kind(StrEnum):
    """How an endpoint ails."""

    HEALTHY = "healthy"  # it does not
    REFUSED = "refused"  # nobody listens
    HANGING = "hanging"  # takes the request and never answers
    SLOW = "slow"  # answers well, after seconds
    FAILING = "failing"  # answers 500


class Begun(msgspec.Struct, frozen=True):
    ports: dict[Kind, list[int]]


class Told(msgspec.Struct, frozen=True):
    accepted: int  # different messages at their endpoints
    open: int  # connections
    tokens: list[tuple[int, str]]  # of subscriptions to be confirmed, by endpoint; each is told once


class Arrival(msgspec.Struct, frozen=True, array_like=True):
    """What was answered well."""

    endpoint: int
    number: int
    at_ns: int  # when it came, by the clock that all processes of a machine share


def url_of(begun: Begun, kind: Kind, number: int) -> str:
    ports = begun.ports[kind]
    return f"http://{HOST}:{ports[number % len(ports)]}/e/{number}"


def read_arrivals(out: Path) -> list[Arrival]:
    numbers = array("q", (out / ARRIVALS_FILE).read_bytes())
    return [Arrival(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)]


class Book:
    """What came to the endpoints of all kinds."""

    def __init__(self) -> None:
        self._arrivals = array("q")
        self._seen: set[tuple[int, int]] = set()
        self._tokens: list[tuple[int, str]] = []
        self._body = b""

    def note(self, endpoint: int, body: bytes, at_ns: int) -> None:
        """Answered well."""
        if found := NUMBER.search(body):
            number = int(found[1])
            self._arrivals.extend((endpoint, number, at_ns))
            self._seen.add((endpoint, number))
            self._body = body
        elif token := _TOKEN.search(body):
            self._tokens.append((endpoint, token[1].decode()))

    def told(self, connections: int) -> Told:
        tokens, self._tokens = self._tokens[:TOKENS_A_LOOK], self._tokens[TOKENS_A_LOOK:]
        return Told(len(self._seen), connections, tokens)

    def save(self, out: Path) -> None:
        (out / ARRIVALS_FILE).write_bytes(self._arrivals.tobytes())
        (out / BODY_FILE).write_bytes(self._body)


class Site:
    """The endpoints of one kind."""

    def __init__(self, kind: Kind, book: Book) -> None:
        self._kind = kind
        self._book = book
        self._ails = False
        self._held = [_reserve() for _ in range(SITES)]
        self._servers: list[asyncio.Server] = []
        self.connections: set[_Connection] = set()

    @property
    def ports(self) -> list[int]:
        return [held.getsockname()[1] for held in self._held]

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for port in self.ports:
            make = partial(_Connection, self._answer, self.connections)
            self._servers.append(await loop.create_server(make, HOST, port, reuse_port=True, backlog=BACKLOG))

    async def ail(self) -> None:
        self._ails = True
        if self._kind is Kind.REFUSED:
            await self.close()

    async def recover(self) -> None:
        """As after a new start: who waits for an answer is hung up on."""
        was_refusing, self._ails = self._ails and self._kind is Kind.REFUSED, False
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

    def _answer(self, connection: _Connection, endpoint: int, body: bytes) -> None:
        at_ns = perf_counter_ns()
        match self._kind if self._ails else Kind.HEALTHY:
            case Kind.HANGING:
                return
            case Kind.FAILING:
                connection.write(FAILED)
            case Kind.SLOW:
                asyncio.get_running_loop().call_later(SLOW_S, self._answer_well, connection, endpoint, body, at_ns)
            case _:
                self._answer_well(connection, endpoint, body, at_ns)

    def _answer_well(self, connection: _Connection, endpoint: int, body: bytes, at_ns: int) -> None:
        if connection in self.connections:
            connection.write(WELL)
            self._book.note(endpoint, body, at_ns)


class _Connection(asyncio.Protocol):
    """A client that sends one request at a time."""

    def __init__(self, answer: Callable[[_Connection, int, bytes], None], open_ones: set[_Connection]) -> None:
        self._answer = answer
        self._open_ones = open_ones
        self._buffer = bytearray()
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
        head = self._buffer.find(b"\r\n\r\n")
        length = _LENGTH.search(self._buffer, 0, head) if head > 0 else None
        if head < 0 or len(self._buffer) < (end := head + 4 + (int(length[1]) if length else 0)):
            return
        endpoint = int(self._buffer[len(_PATH) : self._buffer.index(b" ", len(_PATH))])
        body = bytes(self._buffer[head + 4 : end])
        del self._buffer[:end]
        self._answer(self, endpoint, body)


def _reserve() -> socket.socket:
    """Keeps a port from all others while nobody listens there."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind((HOST, 0))
    return held


# -- the process ------------------------------------------------------------------------------------------------------


async def serve(kinds: Sequence[Kind], out: Path) -> None:
    book = Book()
    sites = {kind: Site(kind, book) for kind in kinds}
    for site in sites.values():
        await site.listen()
    _say(Begun({kind: site.ports for kind, site in sites.items()}))
    while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
        for site in sites.values():
            if command == "ail":
                await site.ail()
            elif command == "recover":
                await site.recover()
        if command == "save":
            book.save(out)
        _say(book.told(sum(len(site.connections) for site in sites.values())))
    for site in sites.values():
        await site.close()


def _say(value: msgspec.Struct) -> None:
    print(msgspec.json.encode(value).decode(), flush=True)


def counts_of(words: Sequence[str]) -> dict[Kind, int]:
    pairs = [word.partition("=") for word in words]
    return {Kind(name): int(n) for name, _, n in pairs}


def kind_of(counts: dict[Kind, int], endpoint: int) -> Kind:
    return next(kind for kind, end in zip(counts, accumulate(counts.values()), strict=True) if endpoint < end)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("counts", nargs="+", help="kind=how many")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(serve(list(counts_of(options.counts)), options.out))


if __name__ == "__main__":
    main()
