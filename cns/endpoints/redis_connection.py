"""One connection to a Redis endpoint: a command, its reply of one line, and again.

An endpoint is hostile until proven otherwise: a reply is at most REPLY_BYTES_MAX, and bytes that no command asked for
end the connection, idle or not, so that none are kept and none are taken for a later command's reply.
"""

from __future__ import annotations

import asyncio
from typing import cast

REPLY_BYTES_MAX = 4_096


class ReplyError(Exception):
    """The server refused a command; the text is the server's."""


class RedisConnection(asyncio.Protocol):
    __slots__ = ("_loop", "_received", "_reply", "_transport", "usable")

    def __init__(self) -> None:
        self.usable = False
        """Another command may be sent."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._reply: asyncio.Future[bytes] | None = None

    async def ask(self, *words: bytes) -> None:
        """Return when the server has accepted the command. Raises ReplyError where it refuses it, ConnectionError where
        it hangs up or its reply is not one of RESP's single lines. A caller that stops waiting has to abort."""
        if self._transport is None or not self.usable:
            raise ConnectionError("Redis hung up")
        self._reply = reply = self._loop.create_future()
        self._transport.write(_command(words))
        line = await reply
        if line.startswith(b"-"):
            raise ReplyError(line[1:].decode(errors="replace").strip())
        if not (line.startswith((b"+", b":")) and line.endswith(b"\r\n")):
            raise ConnectionError("this is not Redis")

    def abort(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio's callbacks ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.usable = True

    def data_received(self, data: bytes) -> None:
        if self._reply is None:
            self.abort()
            return
        self._received += data
        end = self._received.find(b"\n", 0, REPLY_BYTES_MAX) + 1
        if end:
            line, self._received = bytes(self._received[:end]), self._received[end:]
            if self._received:  # more than one reply to one command
                self.abort()
            self._resolve(line)
        elif len(self._received) >= REPLY_BYTES_MAX:
            self.abort()
            self._resolve(ConnectionError("the reply of Redis has no end"))

    def eof_received(self) -> None:
        self.usable = False

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        self._transport = None
        self._resolve(ConnectionError(str(error) if error else "Redis hung up"))

    def _resolve(self, reply: bytes | ConnectionError) -> None:
        waiting, self._reply = self._reply, None
        self._received.clear()
        if waiting is None or waiting.done():
            return
        if isinstance(reply, bytes):
            waiting.set_result(reply)
        else:
            waiting.set_exception(reply)


def _command(words: tuple[bytes, ...]) -> bytes:
    return b"".join((b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)))
