"""An egress proxy: opens tunnels by CONNECT, and misbehaves as a test says."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

HOST = "127.0.0.1"
CHUNK = 65_536

Misbehaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What it does once a request was read."""


@dataclass
class ConnectProxy:
    """`asked`: the authority of each request. `names`: the hosts that it knows names by. `unreached`: authorities that
    it answers 502 for."""

    credentials: str = ""  # user:password that it requires
    names: Mapping[str, str] = field(default_factory=dict)
    unreached: set[str] = field(default_factory=set)
    misbehave: Misbehaviour | None = None
    asked: list[str] = field(default_factory=list)
    tunnels: int = 0
    port: int = 0

    def url(self, credentials: str = "") -> str:
        return f"http://{credentials}{'@' if credentials else ''}{HOST}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened = [writer]
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, authority, _ = lines[0].split(" ")
            self.asked.append(authority)
            if self.misbehave is not None:
                await self.misbehave(reader, writer)
            elif method != "CONNECT":
                await _answer(writer, "405 Method Not Allowed")
            elif self.credentials and _authorization(self.credentials) not in lines:
                await _answer(writer, "407 Proxy Authentication Required")
            elif authority in self.unreached:
                await _answer(writer, "502 Bad Gateway")
            else:
                await self._tunnel(authority, reader, writer, opened)
        except (OSError, asyncio.IncompleteReadError):
            pass  # either side ended
        finally:
            for one in opened:
                one.transport.abort()

    async def _tunnel(
        self,
        authority: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        opened: list[asyncio.StreamWriter],
    ) -> None:
        host, _, port = authority.rpartition(":")
        answers, target = await asyncio.open_connection(self.names.get(host, host.strip("[]")), int(port))
        opened.append(target)
        self.tunnels += 1
        await _answer(writer, "200 Connection established")
        copies = [asyncio.ensure_future(_copy(reader, target)), asyncio.ensure_future(_copy(answers, writer))]
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        for each in copies:
            each.cancel()
        await asyncio.wait(copies)


@asynccontextmanager
async def serving(proxy: ConnectProxy) -> AsyncIterator[ConnectProxy]:
    server = await asyncio.start_server(proxy.serve, HOST, proxy.port)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()


def _authorization(credentials: str) -> str:
    return f"Proxy-Authorization: Basic {b64encode(credentials.encode()).decode()}"


async def _answer(writer: asyncio.StreamWriter, status: str) -> None:
    writer.write(f"HTTP/1.1 {status}\r\n\r\n".encode())
    await writer.drain()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await source.read(CHUNK):
            sink.write(chunk)
            await sink.drain()
