"""The header of the PROXY protocol: what is read, what is refused, and that nothing behind it is touched."""

from __future__ import annotations

import asyncio
import socket
import struct
from ipaddress import ip_address

import pytest

from cns_server.http.proxy_header import (
    BLOCK_BYTES_MAX,
    BadProxyHeader,
    ProxyHeader,
    read_proxy_header,
)

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
BEHIND = b"\x16\x03\x01 whatever follows\n"
TLS = b"\x20" + struct.pack("!H", 5) + b"\x01" + bytes(4)
NO_TLS = b"\x20" + struct.pack("!H", 5) + b"\x00" + bytes(4)
UNKNOWN_FIELDS = b"\xee" + struct.pack("!H", 3) + b"abc" + b"\x04" + struct.pack("!H", 0) + b"\x03\x00\x04CRC!"


def block(command: int, family: int, body: bytes, length: int | None = None) -> bytes:
    return SIGNATURE + bytes([command, family]) + struct.pack("!H", len(body) if length is None else length) + body


def tcp(source: str, port: int = 40_000, *, fields: bytes = b"") -> bytes:
    address = ip_address(source).packed
    body = address + address + struct.pack("!HH", port, 443) + fields
    return block(0x21, 0x11 if len(address) == 4 else 0x21, body)


async def received(sent: bytes, pieces: int = 1, *, ends: bool = False) -> tuple[ProxyHeader, bytes]:
    """The header, and what is left in the connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)

        async def send() -> None:
            loop, size = asyncio.get_running_loop(), max(1, -(-len(sent) // pieces))
            for at in range(0, len(sent), size):
                await loop.sock_sendall(theirs, sent[at : at + size])
                await asyncio.sleep(0)  # so that it is read in pieces
            if ends:
                theirs.shutdown(socket.SHUT_WR)

        async with asyncio.timeout(1_200), asyncio.TaskGroup() as group:
            group.create_task(send())
            header = await read_proxy_header(ours)
        try:
            return header, ours.recv(10_000)
        except BlockingIOError:
            return header, b""


@pytest.mark.parametrize("pieces", [1, 3, 1_000])
@pytest.mark.parametrize(
    ("sent", "header"),
    [
        (b"PROXY TCP4 203.0.113.7 10.0.0.9 40000 443\r\n", ProxyHeader(("203.0.113.7", 40_000))),
        (b"PROXY TCP6 2001:DB8::7 2001:db8::9 40000 443\r\n", ProxyHeader(("2001:db8::7", 40_000))),
        (b"PROXY TCP6 ::ffff:203.0.113.7 ::1 1 65535\r\n", ProxyHeader(("203.0.113.7", 1))),
        (b"PROXY UNKNOWN\r\n", ProxyHeader(None)),
        (b"PROXY UNKNOWN ff:ff 1.2.3.4 x\r\n", ProxyHeader(None)),
        (tcp("203.0.113.7"), ProxyHeader(("203.0.113.7", 40_000))),
        (tcp("2001:db8::7"), ProxyHeader(("2001:db8::7", 40_000))),
        (tcp("::ffff:203.0.113.7"), ProxyHeader(("203.0.113.7", 40_000))),
        (tcp("203.0.113.7", fields=UNKNOWN_FIELDS), ProxyHeader(("203.0.113.7", 40_000))),
        (tcp("203.0.113.7", fields=UNKNOWN_FIELDS + TLS), ProxyHeader(("203.0.113.7", 40_000), True)),
        (tcp("203.0.113.7", fields=NO_TLS), ProxyHeader(("203.0.113.7", 40_000), False)),
        (block(0x20, 0x00, b""), ProxyHeader(None)),
        (block(0x20, 0x11, b"\xff" * 300), ProxyHeader(None)),
        (block(0x21, 0x00, b"\xff" * 300), ProxyHeader(None)),
        (block(0x21, 0x31, bytes(216)), ProxyHeader(None)),
        (block(0x21, 0x31, bytes(216) + TLS), ProxyHeader(None, True)),
        (block(0x20, 0x00, b"x" * BLOCK_BYTES_MAX), ProxyHeader(None)),
    ],
)
async def test_the_header_is_read_and_nothing_behind_it(sent: bytes, header: ProxyHeader, pieces: int) -> None:
    assert await received(sent) == (header, b"")
    assert await received(sent + BEHIND) == (header, BEHIND)
    if pieces > 1:
        assert (await received(sent + BEHIND, pieces))[0] == header


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 20,
        b"PROXY TCP4 203.0.113.7 10.0.0.9 40000 443\n",
        b"PROXY TCP4  203.0.113.7 10.0.0.9 40000 443\r\n",
        b"PROXY TCP4 203.0.113.7 10.0.0.9 40000 443 \r\n",
        b"PROXY TCP4 203.0.113.7 10.0.0.9 40000\r\n",
        b"PROXY TCP4 203.0.113.7 10.0.0.9 40000 65536\r\n",
        b"PROXY TCP4 203.0.113.7 10.0.0.9 -1 443\r\n",
        b"PROXY TCP4 203.0.113.07 10.0.0.9 40000 443\r\n",
        b"PROXY TCP4 2001:db8::7 2001:db8::9 40000 443\r\n",
        b"PROXY TCP6 203.0.113.7 10.0.0.9 40000 443\r\n",
        b"PROXY TCP6 fe80::1%eth0 fe80::2 40000 443\r\n",
        b"PROXY UDP4 203.0.113.7 10.0.0.9 40000 443\r\n",
        b"proxy TCP4 203.0.113.7 10.0.0.9 40000 443\r\n",
        b"PROXY UNKNOWN" + b"x" * 10 + b"\r\n",
        b"PROXY UNKNOWN " + b"x" * 200 + b"\r\n",
        b"PROXY TCP4 " + b"1" * 8_192,
        b"PROXY \xff\xff\xff\xff\xff\xff\xff\r\n",
        SIGNATURE[:-1] + b"\r" + b"\x21\x11\x00\x0c" + bytes(12),
        block(0x11, 0x11, bytes(12)),
        block(0x22, 0x11, bytes(12)),
        block(0x01, 0x11, bytes(12)),
        block(0x21, 0x12, bytes(12)),  # UDP
        block(0x21, 0x32, bytes(216)),
        block(0x21, 0xFF, bytes(216)),
        block(0x21, 0x11, bytes(11)),
        block(0x21, 0x21, bytes(35)),
        block(0x21, 0x31, bytes(215)),
        block(0x21, 0x11, b""),
        tcp("203.0.113.7", fields=b"\x20"),
        tcp("203.0.113.7", fields=b"\x20\x00"),
        tcp("203.0.113.7", fields=b"\xee\x00\x04abc"),
        tcp("203.0.113.7", fields=b"\xee\xff\xff"),
        tcp("203.0.113.7", fields=b"\x20\x00\x01\x01"),
        block(0x20, 0x00, b"", BLOCK_BYTES_MAX + 1),
        block(0x21, 0x11, bytes(12), 65_535),
    ],
)
async def test_anything_else_is_refused(sent: bytes) -> None:
    """Without waiting for more."""
    with pytest.raises(ExceptionGroup) as raised:
        await received(sent)
    assert raised.group_contains(BadProxyHeader)


@pytest.mark.parametrize("whole", [b"PROXY TCP4 203.0.113.7 10.0.0.9 40000 443\r\n", tcp("203.0.113.7", fields=TLS)])
async def test_a_connection_that_ends_in_the_header_is_refused(whole: bytes) -> None:
    for length in range(len(whole)):
        with pytest.raises(ExceptionGroup) as raised:
            await received(whole[:length], ends=True)
        assert raised.group_contains(BadProxyHeader)
