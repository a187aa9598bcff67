"""Redis channels: one PUBLISH, classified. Sockets from the address guard, so that a subscription reaches no more than
one over HTTP would. The three kinds of reply it can get are a line each, for which no client library is needed."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from urllib.parse import unquote, urlsplit

import msgspec

from cns.endpoints.address_guard import AddressGuard, AddressRefused
from cns.endpoints.connect import NameResolver, connect_to_allowed
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.endpoints.redis_connection import RedisConnection, ReplyError
from cns.subscriptions.endpoint_syntax import redis_channel

PORT = 6379
SERVERS_REMEMBERED = 100
IDLE_MAX = 8
"""Connections kept open to one server, by one thread."""


class RedisRequest(msgspec.Struct, frozen=True):
    """What is to be published; the URL names server and channel."""

    url: str
    body: bytes


class RedisSender:
    """Publishes from one event loop."""

    def __init__(self, guard: AddressGuard, *, timeout_s: float, verify: ssl.SSLContext) -> None:
        self._guard = guard
        self._timeout_s = timeout_s
        self._verify = verify
        self._lookups = NameResolver()
        self._idle: dict[str, list[RedisConnection]] = {}

    async def send(self, request: RedisRequest) -> Outcome:
        """One attempt, which ends within the timeout. Accepted is delivered: how many heard it is not asked."""
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._publish(request)
        except TimeoutError:
            return Failed(Cause.TIMEOUT, "Redis did not answer in time", _since_ms(started_s))
        except AddressRefused as error:
            return Failed(Cause.REFUSED_ADDRESS, str(error), _since_ms(started_s), permanent=True)
        except socket.gaierror as error:
            return Failed(Cause.DNS, str(error), _since_ms(started_s))
        except ssl.SSLError as error:
            return Failed(Cause.TLS, str(error), _since_ms(started_s))
        except ReplyError as error:
            return Failed(Cause.STATUS, str(error), _since_ms(started_s))
        except (OSError, ValueError) as error:  # ValueError: a name that cannot be looked up
            return Failed(Cause.CONNECTION, str(error) or type(error).__name__, _since_ms(started_s))
        return Delivered(0, _since_ms(started_s))

    async def close(self) -> None:
        idle = [connection for one in self._idle.values() for connection in one]
        self._idle.clear()
        for connection in idle:
            connection.abort()
        await asyncio.sleep(0)  # transports close their sockets in the loop's next turn

    async def _publish(self, request: RedisRequest) -> None:
        server = _server(request.url)
        connection = self._take(server) or await self._open(request.url)
        try:
            await connection.ask(b"PUBLISH", redis_channel(request.url).encode(), request.body)
        except ReplyError:
            self._keep(server, connection)
            raise
        except BaseException:  # a late answer must not be taken for the next one's
            connection.abort()
            raise
        self._keep(server, connection)

    def _take(self, server: str) -> RedisConnection | None:
        idle = self._idle.get(server) or []
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
            connection.abort()
        return None

    def _keep(self, server: str, connection: RedisConnection) -> None:
        idle = self._idle.setdefault(server, [])
        if connection.usable and len(idle) < IDLE_MAX:
            idle.append(connection)
        else:
            connection.abort()
        if len(self._idle) > SERVERS_REMEMBERED:
            for old in self._idle.pop(next(iter(self._idle))):
                old.abort()

    async def _open(self, url: str) -> RedisConnection:
        parts = urlsplit(url)
        host = parts.hostname or ""
        secure = parts.scheme.lower() == "rediss"
        connected = await connect_to_allowed(self._guard, await self._lookups.find(host, parts.port or PORT))
        _, connection = await asyncio.get_running_loop().create_connection(
            RedisConnection,
            sock=connected,
            ssl=self._verify if secure else None,
            server_hostname=host if secure else None,
        )
        try:
            if parts.password is not None:
                words = (unquote(parts.username or ""), unquote(parts.password))
                await connection.ask(b"AUTH", *[word.encode() for word in words if word])
        except BaseException:
            connection.abort()
            raise
        return connection


def _server(url: str) -> str:
    """All of the URL but the channel: connections to it are the same."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _since_ms(started_s: float) -> int:
    return int((time.monotonic() - started_s) * 1000)
