"""One connection to a Redis endpoint, over a socket that the address guard checked: AUTH and PUBLISH.

An endpoint is hostile until proven otherwise. The reply to both commands is one line of at most REPLY_BYTES_MAX, and
bytes that no command asked for end the connection, idle or not: they are not kept, and not taken for the reply of a
later command.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from typing import cast

REPLY_BYTES_MAX = 4_096
_LINE_END = b"\r\n"
_ACCEPTED = re.compile(rb"\+OK|:\d+")


class CommandRefused(Exception):
    """The Redis server refused a command; the text is the server's."""


class RedisConnection(asyncio.Protocol):
    """Takes a connected socket and never connects by itself. After a failure it is aborted, not reused."""

    def __init__(self) -> None:
        self.opened_s = 0.0
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._reply: asyncio.Future[bytes] | None = None  # while a command waits for it

    async def execute(self, *words: bytes) -> None:
        """Return when the server has accepted a command; the number in its reply is not read.

        Raises CommandRefused when the server refuses it, ConnectionError when it hangs up or its reply is not Redis's.
        """
        if not self.is_usable or self._transport is None:
            raise ConnectionError("Redis hung up")
        self._received, self._reply = b"", asyncio.get_running_loop().create_future()
        self._transport.write(b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(w), w) for w in words]))
        try:
            reply = await self._reply
        finally:
            self._reply = None
        if reply.startswith(b"-"):
            raise CommandRefused(reply[1:].decode(errors="replace"))
        if not _ACCEPTED.fullmatch(reply):
            raise ConnectionError("this is not Redis")

    @property
    def is_usable(self) -> bool:
        """Whether another command may be sent: the connection is open, and nothing unasked has arrived."""
        return self._transport is not None and not self._transport.is_closing()

    def abort(self) -> None:
        """Close the socket at once, without the closing handshake of TLS."""
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._reply is None or self._reply.done():
            self.abort()
            return
        self._received += data[: REPLY_BYTES_MAX + 1]
        line, end, unasked = self._received.partition(_LINE_END)
        if end:
            self._reply.set_result(line)
        elif len(self._received) > REPLY_BYTES_MAX:
            self._reply.set_exception(ConnectionError("the reply of Redis has no end"))
        if unasked or len(self._received) > REPLY_BYTES_MAX:
            self._received = b""
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error or ConnectionError("Redis hung up"))


async def open_connection(
    connected: socket.socket, tls: ssl.SSLContext | None, host: str, username: str, password: str | None
) -> RedisConnection:
    """Make a connection of a connected socket and log in. `host` is the name that TLS verifies.

    Raises OSError (ssl.SSLError among others), and as `RedisConnection.execute` does.
    """
    connection = RedisConnection()
    await asyncio.get_running_loop().create_connection(
        lambda: connection, sock=connected, ssl=tls, server_hostname=host if tls else None
    )
    if username or password is not None:
        credentials = [username, password or ""] if username else [password or ""]
        try:
            await connection.execute(b"AUTH", *[word.encode() for word in credentials])
        except BaseException:
            connection.abort()
            raise
    return connection
