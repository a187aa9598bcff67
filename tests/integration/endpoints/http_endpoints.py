"""HTTP endpoints on a bare socket: they record requests byte by byte and answer with any bytes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cns.delivery.envelope import MessageType, http_headers
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.http import EndpointRequest, HttpSender
from cns.endpoints.outcome import Outcome
from cns_common.tls import client_context
from lab.harness.waiting import PATIENCE_S

TOPIC = "arn:aws:sns:eu-west-1:111111111111:t"
SUBSCRIPTION = f"{TOPIC}:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55"
HEADERS = http_headers(MessageType.NOTIFICATION, "m-1", TOPIC, SUBSCRIPTION)
BODY = b'{\n  "Type" : "Notification"\n}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
TIMEOUT_S = PATIENCE_S
LOOPBACK = AddressGuard(["127.0.0.0/8", "::1/128"])


@dataclass
class ReceivedRequest:
    """A request, and the number of its connection."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class ServerConnection:
    """The server's side of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int
    requests: list[ReceivedRequest]

    async def head(self) -> ReceivedRequest:
        """Read the next request without its body. Raises IncompleteReadError if there is none."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        self.requests.append(ReceivedRequest(lines[0], headers, b"", self.number))
        return self.requests[-1]

    async def request(self) -> ReceivedRequest:
        received = await self.head()
        received.body = await self.reader.readexactly(int(received.headers["Content-Length"]))
        return received

    async def answer(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    def hang_up(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """Abort the connection with RST."""
        self.writer.transport.abort()


Script = Callable[[ServerConnection], Awaitable[None]]


@dataclass
class ServedEndpoint:
    """One port, and the requests that arrived there. `url` has no path."""

    url: str
    requests: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0


def answer_with(*answers: bytes) -> Script:
    """A script that answers the requests of a connection in turn, then reads no more."""

    async def script(connection: ServerConnection) -> None:
        for answer in answers:
            await connection.request()
            await connection.answer(answer)

    return script


@asynccontextmanager
async def serve_endpoint(
    *scripts: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[ServedEndpoint]:
    """Serve the n-th connection with the n-th script, and later ones with the last script."""
    accepted: list[ServerConnection] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = ServerConnection(reader, writer, found.connections, found.requests)
        accepted.append(connection)
        found.connections += 1
        try:
            await scripts[min(connection.number, len(scripts) - 1)](connection)
        except (asyncio.IncompleteReadError, ConnectionError):
            connection.hang_up()

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    found = ServedEndpoint(f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}")
    try:
        yield found
    finally:
        server.close()
        for connection in accepted:
            connection.reset()


def sender(timeout_s: float = TIMEOUT_S, verify: ssl.SSLContext | None = None) -> HttpSender:
    return HttpSender(
        LOOPBACK, timeout_s=timeout_s, wall_s=lambda: 0.0, verify=client_context(None) if verify is None else verify
    )


async def post(
    *urls: str, timeout_s: float = TIMEOUT_S, verify: ssl.SSLContext | None = None, body: bytes = BODY
) -> list[Outcome]:
    """Post to each URL in turn with one sender."""
    http_sender = sender(timeout_s, verify)
    try:
        return [await http_sender.send(EndpointRequest(url, HEADERS, body)) for url in urls]
    finally:
        await http_sender.close()
