"""Redis commands from one event loop over one connection: the commands of a loop turn are one write.

A client with a pool uses a task, a timeout and a connection per command; here a command is a future in a queue. Answers
come in the order of the commands, so a late answer ends the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Any, cast

import hiredis
from redis.connection import SSLConnection, parse_url

from cns_common.redis.sentinel import find_primary, is_sentinel, read_sentinel_url
from cns_common.task_cancellation import cancel_and_wait

PORT = 6379
PRIMARY = "master"
"""Redis' word for its role."""
LATE_GRACE_S = 0.1
"""The connection waits this much longer for late answers: this process itself may have been stopped."""
Word = str | bytes | int | float


class PipeError(Exception):
    """The server cannot be reached, or did not answer in time: the command may or may not have run."""


class ReplyError(Exception):
    """The server answered with an error."""


class RedisPipe:
    """`url` has redis-py's form, with TLS and Unix sockets, or that of `sentinel`: then each connection is to the
    primary of its time. `run_id` is the run id of the server connected to last, `facts` what it says
    of itself (INFO)."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._sentinels = read_sentinel_url(url) if is_sentinel(url) else None
        self._address: dict[str, Any] = _address(url)
        self._timeout_s = timeout_s
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[_Connection] | None = None
        self.run_id = ""
        self.facts: dict[str, str] = {}

    async def connection(self) -> _Connection:
        """The connection; a lost one is replaced."""
        if self._connection is not None and not self._connection.lost:
            return self._connection
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        return await asyncio.shield(self._connecting)

    def close(self) -> None:
        """Close the connection; the next command makes a new one."""
        if self._connection is not None:
            self._connection.close()

    async def end(self) -> None:
        """As `close`, and stop a connection attempt."""
        if self._connecting is not None:
            await cancel_and_wait([self._connecting])
        self.close()

    def _connected(self, task: asyncio.Task[_Connection]) -> None:
        self._connecting = None
        if not task.cancelled() and task.exception() is None:
            self._connection = task.result()

    async def _connect(self) -> _Connection:
        connection = _Connection(self._timeout_s)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._open(connection)
                if password := self._address.get("password"):
                    user = self._address.get("username")
                    await connection.execute("AUTH", user, password) if user else await connection.execute(
                        "AUTH", password
                    )
                if database := self._address.get("db"):
                    await connection.execute("SELECT", database)
                facts: bytes = await connection.execute("INFO")
        except (OSError, TimeoutError, ReplyError, PipeError) as error:
            connection.close()
            raise PipeError(f"cannot use Redis: {str(error) or 'no answer'}") from error
        except asyncio.CancelledError:
            connection.close()
            raise
        lines = dict(line.split(":", 1) for line in facts.decode().splitlines() if ":" in line)
        fault = self._fault(lines)
        if fault:
            connection.close()
            raise PipeError(fault)
        self.run_id, self.facts = lines["run_id"], lines
        return connection

    def _fault(self, facts: dict[str, str]) -> str:
        """Why the server cannot be used; '' if it can."""
        if "run_id" not in facts:
            return "Redis does not report its run id"
        if self._sentinels is not None and facts.get("role") != PRIMARY:  # the fail-over is under way
            return "the server that the Sentinels name is a replica"
        return ""

    async def _open(self, connection: _Connection) -> None:
        loop, address = asyncio.get_running_loop(), self._address
        if self._sentinels is not None:
            await loop.create_connection(lambda: connection, *await find_primary(self._sentinels))
            return
        if path := address.get("path"):
            await loop.create_unix_connection(lambda: connection, path)
        else:
            secure = _tls(address) if address.get("connection_class") is SSLConnection else None
            host, port = address.get("host", "localhost"), address.get("port", PORT)
            await loop.create_connection(lambda: connection, host, port, ssl=secure)


class _Connection(asyncio.Protocol):
    """One connection, from connecting to its loss."""

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

    def execute(self, *words: Word) -> asyncio.Future[Any]:
        """Send a command. Awaiting the answer raises ReplyError or PipeError."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.lost:
            future.set_exception(PipeError("Redis closed the connection"))
            return future
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(hiredis.pack_command(words))  # type: ignore[arg-type]  # its stub knows one word
        self._asked.append((future, self._loop.time()))
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout_s, self._check_timeout)
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
                continue  # the caller was cancelled
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
                future.set_exception(PipeError(f"Redis closed the connection: {error or 'without a reason'}"))
        self._asked.clear()

    # -- on the loop --------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if not self.lost and self._transport is not None:
            self._transport.write(b"".join(unsent))

    def _check_timeout(self) -> None:
        """One timer serves all commands: it follows the one that has waited longest."""
        self._watch = None
        if self._asked:
            left_s = self._asked[0][1] + self._timeout_s - self._loop.time()
            if left_s <= 0 and self._is_late:
                self.close()
            elif left_s <= 0:  # this process may have been stopped: answers that came meanwhile are unread
                self._is_late = True
                self._watch = self._loop.call_later(LATE_GRACE_S, self._check_timeout)
            else:
                self._watch = self._loop.call_later(left_s, self._check_timeout)


def _address(url: str) -> dict[str, Any]:
    if not is_sentinel(url):
        return dict(parse_url(url))  # type: ignore[no-untyped-call]  # redis-py: untyped
    address = read_sentinel_url(url)
    return {"username": address.user, "password": address.password, "db": address.database}


def _tls(address: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=address.get("ssl_ca_certs"))
    if certificate := address.get("ssl_certfile"):
        context.load_cert_chain(certificate, address.get("ssl_keyfile"))
    if address.get("ssl_check_hostname") is False or address.get("ssl_cert_reqs") == "none":
        context.check_hostname = False
    if address.get("ssl_cert_reqs") == "none":
        context.verify_mode = ssl.CERT_NONE
    return context
