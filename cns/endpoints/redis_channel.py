"""Redis channels: one PUBLISH, and its outcome. Connections are made to checked addresses, as those to URLs are."""

from __future__ import annotations

import asyncio
import ssl
import time
from urllib.parse import unquote, urlsplit

from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.connect import CONNECTION_AGE_S_MAX, connection_failure
from cns.endpoints.egress import Connector
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.endpoints.redis_connection import CommandRefused, RedisConnection, open_connection
from cns.endpoints.redis_request import PORT, RedisRequest, redis_channel
from cns_common.configuration.proxy_url import EgressProxy

SERVERS_MAX = 100
"""Servers to which one thread keeps idle connections."""
IDLE_CONNECTIONS_MAX = 8
"""Idle connections that one thread keeps to one server."""


class RedisSender:
    """Publishes from one event loop."""

    def __init__(
        self, guard: AddressGuard, *, timeout_s: float, verify: ssl.SSLContext, proxy: EgressProxy | None = None
    ) -> None:
        self._connector = Connector(guard, proxy)
        self._timeout_s = timeout_s
        self._verify = verify
        self._idle: dict[str, list[RedisConnection]] = {}

    async def send(self, request: RedisRequest) -> Outcome:
        """Make one attempt, which ends within the timeout. A message that Redis accepted is delivered, even if the
        channel has no subscriber."""
        started_s = time.monotonic()
        try:
            await self._publish(request, asyncio.get_running_loop().time() + self._timeout_s)
        except TimeoutError:
            return Failed(Cause.TIMEOUT, "Redis did not answer in time", _since_ms(started_s))
        except CommandRefused as error:
            return Failed(Cause.STATUS, str(error), _since_ms(started_s))
        except (OSError, ValueError) as error:
            return connection_failure(error, _since_ms(started_s))
        return Delivered(0, _since_ms(started_s), size_bytes=len(request.body))

    async def close(self) -> None:
        idle = [connection for connections in self._idle.values() for connection in connections]
        self._idle.clear()
        for connection in idle:
            connection.abort()
        await asyncio.sleep(0)  # transports close their sockets in the loop's next turn

    async def _publish(self, request: RedisRequest, deadline_s: float) -> None:
        """`deadline_s` is loop time."""
        server = _server(request.url)
        connection = self._take(server) or await self._open(request.url, deadline_s)
        try:
            async with asyncio.timeout_at(deadline_s):
                await connection.execute(b"PUBLISH", redis_channel(request.url).encode(), request.body)
        except CommandRefused:
            self._keep(server, connection)
            raise
        except BaseException:  # a late reply must not be taken for the next one's
            connection.abort()
            raise
        self._keep(server, connection)

    def _take(self, server: str) -> RedisConnection | None:
        idle = self._idle.get(server) or []
        while idle:
            connection = idle.pop()
            if connection.is_usable:
                return connection
            connection.abort()
        return None

    def _keep(self, server: str, connection: RedisConnection) -> None:
        is_young = time.monotonic() - connection.opened_s <= CONNECTION_AGE_S_MAX
        usable = is_young and connection.is_usable
        idle = self._idle.setdefault(server, [])
        if usable and len(idle) < IDLE_CONNECTIONS_MAX:
            idle.append(connection)
        else:
            connection.abort()
        if len(self._idle) > SERVERS_MAX:
            for old in self._idle.pop(next(iter(self._idle))):
                old.abort()

    async def _open(self, url: str, deadline_s: float) -> RedisConnection:
        parts = urlsplit(url)
        host = parts.hostname or ""
        tls = self._verify if parts.scheme.lower() == "rediss" else None
        connected = await self._connector.connect(host, parts.port or PORT, deadline_s)
        password = None if parts.password is None else unquote(parts.password)
        async with asyncio.timeout_at(deadline_s):
            connection = await open_connection(connected, tls, host, unquote(parts.username or ""), password)
        connection.opened_s = time.monotonic()
        return connection


def _server(url: str) -> str:
    """The URL without its channel."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _since_ms(started_s: float) -> int:
    return int((time.monotonic() - started_s) * 1000)
