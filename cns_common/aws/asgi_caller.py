"""The caller of an ASGI app, watched for its disconnect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class AsgiCaller:
    """Watches for a disconnect: after the body, `receive` returns only when the connection is lost."""

    __slots__ = ("_gone", "_receive")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone: asyncio.Task[None] | None = None

    def when_gone(self, callback: Callable[[], None]) -> None:
        async def listen() -> None:
            with suppress(OSError):  # a channel that fails counts as a disconnect
                await self._receive()
            callback()

        self.forget()
        self._gone = asyncio.create_task(listen())

    def forget(self) -> None:
        if self._gone is not None:
            self._gone.cancel()


async def read_body(receive: Receive, bytes_max: int) -> bytes | None:
    """The body; None if it is larger than `bytes_max`."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > bytes_max:
            return None
        more = message.get("more_body", False)
    return bytes(body)
