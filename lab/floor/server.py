"""The floor's server: a raw ASGI app with just enough of SQS's JSON protocol for the load generator.

python -m lab.floor.server --port 9400 --data DIRECTORY
"""

from __future__ import annotations

import argparse
import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lab.floor.store import Answer, Handle, Store

VISIBILITY_S = 30
CREATE, SEND, SEND_BATCH, RECEIVE, DELETE, DELETE_BATCH = (
    b"AmazonSQS." + name
    for name in (
        b"CreateQueue",
        b"SendMessage",
        b"SendMessageBatch",
        b"ReceiveMessage",
        b"DeleteMessage",
        b"DeleteMessageBatch",
    )
)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Entry(msgspec.Struct):
    Id: str
    MessageBody: str = ""
    ReceiptHandle: str = ""


class Call(msgspec.Struct):
    """The members of all six operations."""

    QueueUrl: str = ""
    QueueName: str = ""
    MessageBody: str = ""
    ReceiptHandle: str = ""
    Entries: list[Entry] = []
    MaxNumberOfMessages: int = 1
    VisibilityTimeout: int = VISIBILITY_S
    WaitTimeSeconds: int = 0


class Message(msgspec.Struct):
    MessageId: str
    ReceiptHandle: str
    Body: str


class Messages(msgspec.Struct, omit_defaults=True):
    Messages: list[Message] = []


class Backend(Protocol):
    """The store's interface, in this process or behind a socket."""

    def create(self, answer: Answer, name: str) -> None: ...
    def send(self, answer: Answer, name: str, bodies: list[str]) -> None: ...
    def receive(self, answer: Answer, name: str, n: int, hide_ms: int, wait_s: float) -> None: ...
    def delete(self, answer: Answer, handles: list[Handle]) -> None: ...
    def close(self) -> None: ...


_decode = msgspec.json.Decoder(Call).decode
_encode = msgspec.json.Encoder().encode


class App:
    def __init__(self, open_backend: Callable[[], Awaitable[Backend]]) -> None:
        self._open_backend = open_backend
        self._backend: Backend
        self._loop: asyncio.AbstractEventLoop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        for name, value in scope["headers"]:
            if name == b"x-amz-target":
                target = value
                break
        else:
            target = b""
        answer = await self._answer(target, body)
        headers = [
            (b"content-type", b"application/x-amz-json-1.0"),
            (b"content-length", str(len(answer)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _answer(self, target: bytes, body: bytes) -> bytes:
        call = _decode(body)
        queue = call.QueueUrl.rpartition("/")[2]
        backend = self._backend
        future = self._loop.create_future()
        if target == SEND:
            backend.send(future.set_result, queue, [call.MessageBody])
            return b'{"MessageId":"%032x"}' % await future
        if target == RECEIVE:
            backend.receive(
                future.set_result, queue, call.MaxNumberOfMessages, call.VisibilityTimeout * 1000, call.WaitTimeSeconds
            )
            return _render_deliveries(await future)
        if target == DELETE:
            backend.delete(future.set_result, [_handle(call.ReceiptHandle)])
            await future
            return b""
        if target == SEND_BATCH:
            backend.send(future.set_result, queue, [entry.MessageBody for entry in call.Entries])
            first = await future
            results = [{"Id": entry.Id, "MessageId": f"{first + n:032x}"} for n, entry in enumerate(call.Entries)]
            return _encode({"Successful": results})
        if target == DELETE_BATCH:
            backend.delete(future.set_result, [_handle(entry.ReceiptHandle) for entry in call.Entries])
            await future
            return _encode({"Successful": [{"Id": entry.Id} for entry in call.Entries]})
        if target == CREATE:
            backend.create(future.set_result, call.QueueName)
            await future
            return _encode({"QueueUrl": f"http://localhost/000000000000/{call.QueueName}"})
        raise ValueError(f"the floor does not know {target!r}")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._loop = asyncio.get_running_loop()
        self._backend = await self._open_backend()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._backend.close()
        await send({"type": "lifespan.shutdown.complete"})


def _handle(text: str) -> Handle:
    seq, _, lease = text.partition(".")
    return int(seq), int(lease)


def _render_deliveries(deliveries: list[Any]) -> bytes:
    if not deliveries:
        return b"{}"
    return _encode(Messages([Message(f"{seq:032x}", f"{seq}.{lease}", body) for seq, lease, body in deliveries]))


class JoiningTransport:
    """Holds an answer's head back until the next write, which in uvicorn is always the body, even an empty one."""

    __slots__ = ("_head", "_transport", "close", "get_extra_info", "is_closing", "pause_reading", "resume_reading")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self.close = transport.close
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.endswith(b"\r\n\r\n") and data.startswith(b"HTTP/1.1 2"):
            self._head = data
            return
        self._transport.write(data)


class OneWriteProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with head and body of an answer in one write: one system call and one packet instead of
    two. uvicorn writes them separately and uvloop sends each at once, which costs both ends of the connection more than
    the floor's SQL."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(cast(asyncio.Transport, JoiningTransport(transport)))


def serve(open_backend: Callable[[], Awaitable[Backend]], port: int) -> None:
    """Serve on the loopback until a signal comes; several processes may share the port."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", port))
    config = uvicorn.Config(
        App(open_backend),
        http=OneWriteProtocol,
        loop="uvloop",
        interface="asgi3",
        ws="none",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=300,
    )
    uvicorn.Server(config).run(sockets=[listener])


def main(open_backend: Callable[[Path], Awaitable[Backend]]) -> None:
    parser = argparse.ArgumentParser(description="A floor of the bench.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    serve(lambda: open_backend(options.data), options.port)


async def _open_store(data: Path) -> Store:
    return Store(data, asyncio.get_running_loop())


if __name__ == "__main__":
    main(_open_store)
