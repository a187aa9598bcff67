"""One connection to a Redis endpoint: redis-py's protocol over a socket that the address guard checked.

An endpoint is hostile until proven otherwise. A reply has at most REPLY_BYTES_MAX, and bytes that no command asked for
end the connection, idle or not: they are not kept, and not taken for the reply of a later command.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Iterable
from typing import Any

from redis._parsers import _AsyncRESP2Parser
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    InvalidResponse,
    RedisError,
    ResponseError,
)

from cns.endpoints.redis_channel import CommandRefused

REPLY_BYTES_MAX = 4_096


class RedisConnection(AbstractConnection):
    """Takes a connected socket and never connects by itself. After a failure it is aborted, not reused."""

    def __init__(self, replies: ReplyReader, writer: asyncio.StreamWriter, username: str, password: str | None) -> None:
        super().__init__(
            username=username or None,
            password=password,
            protocol=2,
            driver_info=None,  # no CLIENT SETINFO: a user who may only publish is enough
            parser_class=_AsyncRESP2Parser,  # hiredis allocates any length that an array announces
            socket_timeout=None,  # the sender's timeout covers the whole attempt
            socket_connect_timeout=None,
        )
        self.opened_s = 0.0
        self._replies = replies
        self._stream_writer = writer

    async def log_in(self) -> None:
        """Send AUTH when there is a password. Raises as `publish` does."""
        await _translated(self.connect())  # type: ignore[no-untyped-call]  # redis-py types it in part

    async def publish(self, channel: bytes, body: bytes) -> None:
        """Return when the server has accepted the message; the number of its receivers is not read.

        Raises CommandRefused when the server refuses it, ConnectionError when it hangs up or its reply is not Redis's.
        """
        await _translated(self._publish(channel, body))

    async def is_usable(self) -> bool:
        """Whether another command may be sent: the connection is open, and nothing unasked has arrived."""
        return self.is_connected and not self._stream_writer.is_closing() and not await self.can_read()

    def abort(self) -> None:
        """Close the socket at once, without the closing handshake of TLS."""
        self._reader = self._writer = None
        self._stream_writer.transport.abort()

    async def _publish(self, channel: bytes, body: bytes) -> None:
        if not await self.is_usable():
            raise ConnectionError("Redis hung up")
        await self.send_command("PUBLISH", channel, body)
        await self.read_response(disable_decoding=True)

    # -- redis-py's hooks ---------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        self._reader, self._writer = self._replies, self._stream_writer

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        self._replies.expect_reply()
        await super().send_packed_command(command, check_health)

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().read_response(*args, **kwargs)
        finally:
            self._replies.expect_nothing()

    def _host_error(self) -> str:
        return "the Redis endpoint"

    def repr_pieces(self) -> list[tuple[str, str | int]]:
        return []  # the default shows the password


class ReplyReader(asyncio.StreamReader):
    """Aborts its connection when bytes arrive beyond REPLY_BYTES_MAX, or when no reply is expected."""

    def __init__(self) -> None:
        super().__init__()
        self._awaited_bytes = 0
        self._connection: asyncio.BaseTransport | None = None

    def set_transport(self, transport: asyncio.BaseTransport) -> None:
        super().set_transport(transport)
        self._connection = transport

    def expect_reply(self) -> None:
        self._awaited_bytes = REPLY_BYTES_MAX

    def expect_nothing(self) -> None:
        self._awaited_bytes = 0

    def feed_data(self, data: Any) -> None:
        self._awaited_bytes -= len(data)
        if self._awaited_bytes >= 0:
            super().feed_data(data)
            return
        self.set_exception(ValueError("the reply of Redis has no end"))
        if isinstance(self._connection, asyncio.WriteTransport):
            self._connection.abort()


async def open_connection(
    connected: socket.socket, tls: ssl.SSLContext | None, host: str, username: str, password: str | None
) -> RedisConnection:
    """Make a connection of a connected socket and log in. `host` is the name that TLS verifies.

    Raises OSError (ssl.SSLError among others), and as `RedisConnection.publish` does.
    """
    loop = asyncio.get_running_loop()
    replies = ReplyReader()
    protocol = asyncio.StreamReaderProtocol(replies)
    transport, _ = await loop.create_connection(
        lambda: protocol, sock=connected, ssl=tls, server_hostname=host if tls else None
    )
    writer = asyncio.StreamWriter(transport, protocol, replies, loop)
    connection = RedisConnection(replies, writer, username, password)
    try:
        await connection.log_in()
    except BaseException:
        connection.abort()
        raise
    return connection


async def _translated(command: Awaitable[None]) -> None:
    """redis-py's errors as the ones of this module."""
    try:
        await command
    except (ResponseError, AuthenticationError, AuthorizationError, BusyLoadingError) as error:
        raise CommandRefused(str(error)) from error
    except InvalidResponse as error:
        raise ConnectionError("this is not Redis") from error
    except (RedisError, ValueError, RecursionError) as error:  # also lengths without number, arrays without end
        raise ConnectionError(str(error)) from error
