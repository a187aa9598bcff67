"""Redis commands from one event loop over one connection: what a turn of the loop asks goes out in one write.

A client with a pool takes a task, a time-out and a connection of its own for each command; here a command is a future
in a queue. Answers come in the order of the commands, so an answer that is too late ends the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Any, cast

import hiredis
from redis.connection import SSLConnection, parse_url

from cns_common.task_cancellation import cancel_and_wait

PORT = 6379
FINAL_POLL_S = 0.1
Word = str | bytes | int | float


class PipeError(Exception):
    """The server cannot be reached, or did not answer in time: what was asked may or may not have been done."""


class ReplyError(Exception):
    """What the server answered with an error."""


class RedisPipe:
    """`url` as redis-py has it, with TLS or a Unix socket too. `run` is the server's run id, as of the newest
    connection."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._place: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
        self._timeout_s = timeout_s
        self._link: _Link | None = None
        self._connecting: asyncio.Task[_Link] | None = None
        self.run = ""

    async def link(self) -> _Link:
        """The connection, made anew where it was lost."""
        if self._link is not None and not self._link.lost:
            return self._link
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        return await asyncio.shield(self._connecting)

    def close(self) -> None:
        """The next command makes a new connection."""
        if self._link is not None:
            self._link.close()

    async def end(self) -> None:
        """As `close`, for good: a connection that is being made is not, either."""
        if self._connecting is not None:
            await cancel_and_wait([self._connecting])
        self.close()

    def _connected(self, task: asyncio.Task[_Link]) -> None:
        self._connecting = None
        if not task.cancelled() and task.exception() is None:
            self._link = task.result()

    async def _connect(self) -> _Link:
        link = _Link(self._timeout_s)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._open(link)
                if password := self._place.get("password"):
                    user = self._place.get("username")
                    await link.ask("AUTH", user, password) if user else await link.ask("AUTH", password)
                if database := self._place.get("db"):
                    await link.ask("SELECT", database)
                facts: bytes = await link.ask("INFO", "server")
        except (OSError, TimeoutError, ReplyError, PipeError) as error:
            link.close()
            raise PipeError(f"cannot use Redis: {str(error) or 'no answer'}") from error
        except asyncio.CancelledError:
            link.close()
            raise
        lines = dict(line.split(":", 1) for line in facts.decode().splitlines() if ":" in line)
        if "run_id" not in lines:
            raise PipeError("Redis does not say which server it is")
        self.run = lines["run_id"]
        return link

    async def _open(self, link: _Link) -> None:
        loop, place = asyncio.get_running_loop(), self._place
        if path := place.get("path"):
            await loop.create_unix_connection(lambda: link, path)
        else:
            secure = _tls(place) if place.get("connection_class") is SSLConnection else None
            host, port = place.get("host", "localhost"), place.get("port", PORT)
            await loop.create_connection(lambda: link, host, port, ssl=secure)


class _Link(asyncio.Protocol):
    """One connection's life."""

    def __init__(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._reader = hiredis.Reader(replyError=ReplyError)
        self._asked: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._is_late = False
        self.lost = False

    def ask(self, *words: Word) -> asyncio.Future[Any]:
        """The answer; awaiting it raises ReplyError or PipeError."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.lost:
            future.set_exception(PipeError("Redis hung up"))
            return future
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(hiredis.pack_command(words))  # type: ignore[arg-type]  # its stub knows one word
        self._asked.append((future, self._loop.time()))
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout_s, self._look)
        return future

    def close(self) -> None:
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._is_late = False
        self._reader.feed(data)
        while (answer := self._reader.gets()) is not False:
            future, _ = self._asked.popleft()
            if future.done():
                continue  # its caller has gone
            if isinstance(answer, ReplyError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if self._watch is not None:
            self._watch.cancel()
        for future, _ in self._asked:
            if not future.done():
                future.set_exception(PipeError(f"Redis hung up: {error or 'without a word'}"))
        self._asked.clear()

    # -- on the loop --------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if not self.lost and self._transport is not None:
            self._transport.write(b"".join(unsent))

    def _look(self) -> None:
        """One timer for all: it follows the command that waits longest."""
        self._watch = None
        if self._asked:
            left_s = self._asked[0][1] + self._timeout_s - self._loop.time()
            if left_s <= 0 and self._is_late:
                self.close()
            elif left_s <= 0:  # this process may have been stopped: what came meanwhile has not been read
                self._is_late = True
                self._watch = self._loop.call_later(FINAL_POLL_S, self._look)
            else:
                self._watch = self._loop.call_later(left_s, self._look)


def _tls(place: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=place.get("ssl_ca_certs"))
    if certificate := place.get("ssl_certfile"):
        context.load_cert_chain(certificate, place.get("ssl_keyfile"))
    if place.get("ssl_check_hostname") is False or place.get("ssl_cert_reqs") == "none":
        context.check_hostname = False
    if place.get("ssl_cert_reqs") == "none":
        context.verify_mode = ssl.CERT_NONE
    return context
