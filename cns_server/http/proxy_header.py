"""The header of the PROXY protocol, version 1 or 2: a balancer's word for who connected to it, before any other byte.

Source: https://www.haproxy.org/download/2.6/doc/proxy-protocol.txt
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from cns_common.peer_address import peer_address

LINE_BYTES_MAX = 107
"""The longest header of version 1."""
BLOCK_BYTES_MAX = 8 * 1024
"""Limit of what follows the first 16 bytes of version 2."""

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_LINE = re.compile(rb"PROXY (TCP4|TCP6) ([0-9a-fA-F:.]+) ([0-9a-fA-F:.]+) ([0-9]{1,5}) ([0-9]{1,5})\r\n")
_UNKNOWN = re.compile(rb"PROXY UNKNOWN(?: [^\r\n]*)?\r\n")
_LOCAL, _PROXY = 0x20, 0x21
_UNSPECIFIED = 0x00
_ADDRESS_BYTES = {0x11: 4, 0x21: 16}
"""Of one address, by family and transport: TCP over IPv4 and IPv6."""
_UNIX_STREAM, _UNIX_BYTES = 0x31, 216
_PORT_MAX = 65_535
_TLS = 0x20
"""The type of the field that describes the client's TLS; bit 1 of its first byte: there was TLS."""
_TLS_BYTES_MIN = 5


class BadProxyHeader(Exception):
    """The peer sent none, or a malformed one."""


class ProxyHeader(NamedTuple):
    """`client` is None if the balancer speaks for itself, or for a client without an address; `secure` is whether the
    client came to the balancer by TLS, or None if that is not said."""

    client: tuple[str, int] | None
    secure: bool | None = None


async def read_proxy_header(connection: socket.socket) -> ProxyHeader:
    """Read the header and no byte more. Raises BadProxyHeader or OSError. The caller limits the time."""
    start = await _receive(connection, len(_SIGNATURE))
    if start == _SIGNATURE:
        head = await _receive(connection, 4)
        length = int.from_bytes(head[2:])
        if length > BLOCK_BYTES_MAX:
            raise BadProxyHeader(f"{length} bytes are more than {BLOCK_BYTES_MAX}")
        return read_block(head[0], head[1], await _receive(connection, length))
    while not start.endswith(b"\n") and len(start) < LINE_BYTES_MAX and start.startswith(b"PROXY "):
        start += await _receive_line(connection, LINE_BYTES_MAX - len(start))
    return read_line(start)


def read_line(line: bytes) -> ProxyHeader:
    """The header of version 1, with its line end. Raises BadProxyHeader."""
    if _UNKNOWN.fullmatch(line):
        return ProxyHeader(None)
    found = _LINE.fullmatch(line)
    if found is None:
        raise BadProxyHeader("the first bytes are no header")
    family = IPv4Address if found[1] == b"TCP4" else IPv6Address
    try:
        address, _ = (str(family(found[at].decode())) for at in (2, 3))
    except ValueError:
        raise BadProxyHeader("an address is malformed") from None
    if max(int(found[4]), int(found[5])) > _PORT_MAX:
        raise BadProxyHeader("a port is malformed")
    return ProxyHeader((peer_address(address), int(found[4])))


def read_block(command: int, family: int, block: bytes) -> ProxyHeader:
    """The header of version 2, by the bytes behind its signature; `block` has the announced length. Raises
    BadProxyHeader."""
    if command == _LOCAL:
        return ProxyHeader(None)
    if command != _PROXY:
        raise BadProxyHeader(f"version and command are {command:#04x}")
    if family == _UNSPECIFIED:
        return ProxyHeader(None)
    size = _ADDRESS_BYTES.get(family, 0)
    fields_at = 2 * size + 4 if size else _UNIX_BYTES
    if (not size and family != _UNIX_STREAM) or len(block) < fields_at:
        raise BadProxyHeader(f"{len(block)} bytes are no addresses of the family {family:#04x}")
    secure = None
    for kind, value in _fields(block, fields_at):
        if kind == _TLS:
            if len(value) < _TLS_BYTES_MIN:
                raise BadProxyHeader("the field about TLS is too short")
            secure = bool(value[0] & 1)
    if not size:
        return ProxyHeader(None, secure)
    address = (IPv4Address if size == 4 else IPv6Address)(block[:size])
    return ProxyHeader((peer_address(str(address)), int.from_bytes(block[2 * size : 2 * size + 2])), secure)


def _fields(block: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """Type and value of each field behind the addresses."""
    while at < len(block):
        end = at + 3 + int.from_bytes(block[at + 1 : at + 3])
        if at + 3 > len(block) or end > len(block):
            raise BadProxyHeader("a field is longer than the header")
        yield block[at], block[at + 3 : end]
        at = end


async def _receive(connection: socket.socket, count: int) -> bytes:
    loop, received = asyncio.get_running_loop(), b""
    while len(received) < count:
        part = await loop.sock_recv(connection, count - len(received))
        if not part:
            raise BadProxyHeader("the connection ended in the header")
        received += part
    return received


async def _receive_line(connection: socket.socket, count: int) -> bytes:
    """At least a byte, to the end of the line or `count` bytes at most: what follows is not the header's."""
    first = await _receive(connection, 1)
    if first == b"\n" or count == 1:
        return first
    try:
        waiting = connection.recv(count - 1, socket.MSG_PEEK)
    except BlockingIOError:
        return first
    return first + connection.recv(waiting.find(b"\n") + 1 or len(waiting))
