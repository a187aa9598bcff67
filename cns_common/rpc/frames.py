"""Frames on a stream: received data is split into frames, and the items of a loop turn are sent as one.

A frame is a four-byte length and a MessagePack array of (kind, call id, name, payload).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, cast

import msgspec

FRAME_BYTES_MAX = 256 * 1024 * 1024
_LENGTH = struct.Struct(">I")

Item = tuple[int, int, str, msgspec.Raw]
"""(kind, call id, method or event name or fault kind, payload)"""

_encode = msgspec.msgpack.Encoder().encode
_decode_frame = msgspec.msgpack.Decoder(list[Item]).decode


class Frames(asyncio.Protocol):
    """One connection. `on_items` is called with the items of each frame received."""

    def __init__(self, on_items: Callable[[list[Item]], None]) -> None:
        self._on_items = on_items
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._waiting: list[tuple[int, int, str, Any]] = []
        self.transport: asyncio.WriteTransport | None = None
        self.closed = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)  # uvloop's transports are no subclasses

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= 4:
            (length,) = _LENGTH.unpack_from(buffer, start)
            if length > FRAME_BYTES_MAX:
                self.close()
                return
            end = start + 4 + length
            if len(buffer) < end:
                break
            frame = bytes(memoryview(buffer)[start + 4 : end])
            start = end
            try:
                self._on_items(_decode_frame(frame))
            except (msgspec.MsgspecError, KeyError) as error:
                self.fail(error)
                return
        if start:
            del buffer[:start]

    def put(self, kind: int, number: int, name: str, payload: Any) -> None:
        if not self._waiting:
            self._loop.call_soon(self._send)
        self._waiting.append((kind, number, name, payload))

    def _send(self) -> None:
        items, self._waiting = self._waiting, []
        if self.transport is not None:
            try:
                self._write(self.transport, items)
            except (TypeError, ValueError, OverflowError) as error:
                self.fail(error)

    def _write(self, transport: asyncio.WriteTransport, items: list[tuple[int, int, str, Any]]) -> None:
        frame = _encode(items)
        if len(frame) <= FRAME_BYTES_MAX:
            transport.write(_LENGTH.pack(len(frame)) + frame)
            return
        if len(items) == 1:
            raise ValueError(f"a call or answer of {len(frame)} bytes does not fit a frame")
        half = len(items) // 2
        self._write(transport, items[:half])
        self._write(transport, items[half:])

    def fail(self, error: BaseException) -> None:
        """Close the connection after a frame that cannot be encoded or decoded, so that no call waits for ever."""
        self._loop.call_exception_handler({"message": "a frame was refused", "exception": error})
        self.close()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()
