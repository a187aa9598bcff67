"""The floor in several processes: a store process behind a Unix socket, and one or more API processes on one port.

    python -m lab.floor.split --port 9400 --data DIRECTORY --apis 2

A frame is a four-byte length and a MessagePack array of all calls, or all answers, of one turn of the event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import uvloop

from lab.floor.server import serve
from lab.floor.store import Answer, Handle, Store

CONNECT_TRIES = 200
CONNECT_PAUSE_S = 0.05
STOP_TIMEOUT_S = 10.0
SOCKET = "store.sock"
CREATE, SEND, RECEIVE, DELETE = range(4)

_LENGTH = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int, int, Any]]).decode
"""(call number, kind, arguments or answer)"""


class Frames(asyncio.Protocol):
    """Splits the stream into frames, and sends all items of one loop turn as one frame."""

    def __init__(self, on_item: Callable[[Frames, int, int, Any], None]) -> None:
        self._on_item = on_item
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._waiting: list[tuple[int, int, Any]] = []
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= 4:
            (length,) = _LENGTH.unpack_from(buffer, start)
            end = start + 4 + length
            if len(buffer) < end:
                break
            items = _decode(memoryview(buffer)[start + 4 : end])
            start = end
            for number, kind, payload in items:
                self._on_item(self, number, kind, payload)
        if start:
            del buffer[:start]

    def put(self, number: int, kind: int, payload: object) -> None:
        if not self._waiting:
            self._loop.call_soon(self._send)
        self._waiting.append((number, kind, payload))

    def close(self) -> None:
        self._transport.close()

    def _send(self) -> None:
        items, self._waiting = self._waiting, []
        frame = _encode(items)
        self._transport.write(_LENGTH.pack(len(frame)) + frame)


class RemoteStore:
    """The store as an API process sees it."""

    def __init__(self) -> None:
        self._answers: dict[int, Answer] = {}
        self._number = 0
        self._frames: Frames

    async def connect(self, path: Path) -> RemoteStore:
        loop = asyncio.get_running_loop()
        for _ in range(CONNECT_TRIES):
            try:
                _, self._frames = await loop.create_unix_connection(lambda: Frames(self._answered), str(path))
            except (FileNotFoundError, ConnectionRefusedError):
                await asyncio.sleep(CONNECT_PAUSE_S)
            else:
                return self
        raise ConnectionError(f"no store at {path}")

    def create(self, answer: Answer, name: str) -> None:
        self._call(answer, CREATE, name)

    def send(self, answer: Answer, name: str, bodies: list[str]) -> None:
        self._call(answer, SEND, (name, bodies))

    def receive(self, answer: Answer, name: str, n: int, hide_ms: int, wait_s: float) -> None:
        self._call(answer, RECEIVE, (name, n, hide_ms, wait_s))

    def delete(self, answer: Answer, handles: list[Handle]) -> None:
        self._call(answer, DELETE, handles)

    def close(self) -> None:
        self._frames.close()

    def _call(self, answer: Answer, kind: int, arguments: object) -> None:
        self._number += 1
        self._answers[self._number] = answer
        self._frames.put(self._number, kind, arguments)

    def _answered(self, _frames: Frames, number: int, _kind: int, result: object) -> None:
        self._answers.pop(number)(result)


async def host(directory: Path) -> None:
    """Serve the store to the API processes until a signal comes."""
    loop = asyncio.get_running_loop()
    store = Store(directory, loop)

    def on_call(frames: Frames, number: int, kind: int, arguments: Any) -> None:
        answer = partial(frames.put, number, kind)
        if kind == SEND:
            store.send(answer, *arguments)
        elif kind == RECEIVE:
            store.receive(answer, *arguments)
        elif kind == DELETE:
            store.delete(answer, arguments)
        else:
            store.create(answer, arguments)

    path = directory / SOCKET
    path.unlink(missing_ok=True)
    server = await loop.create_unix_server(lambda: Frames(on_call), str(path))
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    server.close()
    store.close()


def start_all(options: argparse.Namespace) -> None:
    """Start the store and the APIs, and stop them on SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    common = ("--port", str(options.port), "--data", str(options.data), "--role")
    roles = ["store", *["api"] * options.apis]
    processes = [subprocess.Popen([sys.executable, "-m", __spec__.name, *common, role]) for role in roles]
    try:
        os.waitpid(processes[0].pid, 0)
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(STOP_TIMEOUT_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--apis", type=int, default=1)
    parser.add_argument("--role", choices=("all", "store", "api"), default="all")
    options = parser.parse_args()
    if options.role == "store":
        uvloop.run(host(options.data))
    elif options.role == "api":
        serve(lambda: RemoteStore().connect(options.data / SOCKET), options.port)
    else:
        start_all(options)


if __name__ == "__main__":
    main()
