"""Endpoints made of a bare socket: what came is kept byte by byte, what goes back is any bytes a test wants."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cns.delivery.envelope import MessageType, http_headers
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.http import HttpRequest, HttpSender
from cns.endpoints.outcome import Outcome
from cns_common.tls import client_context

TOPIC = "arn:aws:sns:eu-west-1:111111111111:t"
SUBSCRIPTION = f"{TOPIC}:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55"
HEADERS = http_headers(MessageType.NOTIFICATION, "m-1", TOPIC, SUBSCRIPTION)
BODY = b'{\n  "Type" : "Notification"\n}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ENOUGH_S = 10.0
LOOPBACK = AddressGuard(["127.0.0.0/8", "::1/128"])


@dataclass
class Came:
    """A request, and the connection that it came on."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class Talk:
    """One connection, as a test's server sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int
    requests: list[Came]

    async def head(self) -> Came:
        """The next request without its body; raises IncompleteReadError when there is none."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        self.requests.append(Came(lines[0], headers, b"", self.number))
        return self.requests[-1]

    async def request(self) -> Came:
        came = await self.head()
        came.body = await self.reader.readexactly(int(came.headers["Content-Length"]))
        return came

    async def answer(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    def hang_up(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """Not a goodbye but an error: RST."""
        self.writer.transport.abort()


Script = Callable[[Talk], Awaitable[None]]


@dataclass
class Wire:
    """What is behind one port; `url` has no path."""

    url: str
    requests: list[Came] = field(default_factory=list)
    connections: int = 0


def answering(*answers: bytes) -> Script:
    """Each request of a connection with the next of them; then nothing more is read."""

    async def script(talk: Talk) -> None:
        for answer in answers:
            await talk.request()
            await talk.answer(answer)

    return script


@asynccontextmanager
async def wire(*scripts: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Wire]:
    """The n-th connection is served by the n-th script, all others by the last."""
    talks: list[Talk] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = Talk(reader, writer, found.connections, found.requests)
        talks.append(talk)
        found.connections += 1
        try:
            await scripts[min(talk.number, len(scripts) - 1)](talk)
        except (asyncio.IncompleteReadError, ConnectionError):
            talk.hang_up()

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    found = Wire(f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}")
    try:
        yield found
    finally:
        server.close()
        for talk in talks:
            talk.reset()


def sender(timeout_s: float = ENOUGH_S, verify: ssl.SSLContext | None = None) -> HttpSender:
    return HttpSender(
        LOOPBACK, timeout_s=timeout_s, wall_s=lambda: 0.0, verify=client_context(None) if verify is None else verify
    )


async def post(
    *urls: str, timeout_s: float = ENOUGH_S, verify: ssl.SSLContext | None = None, body: bytes = BODY
) -> list[Outcome]:
    """What came of posting to each in turn, by one sender."""
    posting = sender(timeout_s, verify)
    try:
        return [await posting.send(HttpRequest(url, HEADERS, body)) for url in urls]
    finally:
        await posting.close()
