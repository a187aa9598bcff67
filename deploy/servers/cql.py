"""A minimal client of CQL's protocol (version 4): this tool runs before any package is installed."""

from __future__ import annotations

import socket
import struct

ANSWER_S = 5.0
STARTUP, READY, QUERY, RESULT = 1, 2, 7, 8
HEADER = struct.Struct(">BBhBI")
VERSION = 4
CONSISTENCY_ONE = 1
SKIP_METADATA = 2


def select(host: str, port: int, statement: str) -> list[list[bytes | None]]:
    """Return the rows of the first page as bytes. Raises OSError."""
    with socket.create_connection((host, port), ANSWER_S) as connection:
        version = _text("CQL_VERSION") + _text("3.0.0")
        _request(connection, STARTUP, struct.pack(">H", 1) + version, READY)
        query = statement.encode()
        body = struct.pack(">I", len(query)) + query + struct.pack(">HB", CONSISTENCY_ONE, SKIP_METADATA)
        return _rows(_request(connection, QUERY, body, RESULT))


def _request(connection: socket.socket, operation: int, body: bytes, expected: int) -> bytes:
    connection.sendall(HEADER.pack(VERSION, 0, 0, operation, len(body)) + body)
    _, _, _, answered, length = HEADER.unpack(_receive(connection, HEADER.size))
    answer = _receive(connection, length)
    if answered != expected:
        raise OSError(f"CQL: {answer!r}")
    return answer


def _receive(connection: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        part = connection.recv(length - len(received))
        if not part:
            raise ConnectionResetError("CQL: the connection ended within an answer")
        received += part
    return bytes(received)


def _rows(body: bytes) -> list[list[bytes | None]]:
    """Decode kind, flags and counts, then each value after its length; a negative length is null."""
    _, _, columns, rows = struct.unpack_from(">IIII", body)
    at = struct.calcsize(">IIII")
    values: list[bytes | None] = []
    for _ in range(columns * rows):
        (length,) = struct.unpack_from(">i", body, at)
        at += 4
        values.append(body[at : at + length] if length >= 0 else None)
        at += max(length, 0)
    return [values[start : start + columns] for start in range(0, len(values), columns)]


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
