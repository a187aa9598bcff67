"""The connections of one event loop to HTTP endpoints: opens new ones and keeps idle ones."""

from __future__ import annotations

import asyncio
import ssl
import time

from cns.endpoints.connect import CONNECTION_AGE_S_MAX
from cns.endpoints.egress import Connector
from cns.endpoints.http_connection import HttpConnection
from cns.endpoints.http_url import HttpOrigin

KEEP_ALIVE_S = 30.0
IDLE_CONNECTIONS_MAX = 2_000
"""Idle connections of one thread; the one idle for longest is closed first."""
SWEEP_INTERVAL_S = 5.0


class HttpConnectionPool:
    def __init__(self, connector: Connector, verify: ssl.SSLContext) -> None:
        self._connector = connector
        self._verify = verify
        self._idle: dict[HttpConnection, None] = {}  # ordered by the time of their last use
        self._by_origin: dict[HttpOrigin, list[HttpConnection]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def take(self, origin: HttpOrigin) -> HttpConnection | None:
        """Take the idle connection to `origin` that was used last."""
        while (idle := self._by_origin.get(origin)) is not None:
            connection = idle[-1]
            self._drop(connection)
            if connection.usable:
                return connection
        return None

    async def open(self, origin: HttpOrigin, deadline_s: float) -> HttpConnection:
        """Connect. Raises OSError (AddressRefused, ProxyFailed, socket.gaierror, ssl.SSLError, TimeoutError and
        others)."""
        loop = asyncio.get_running_loop()
        connected = await self._connector.connect(origin.host, origin.port, deadline_s)
        async with asyncio.timeout_at(deadline_s):
            _, connection = await loop.create_connection(
                lambda: HttpConnection(origin),
                sock=connected,
                ssl=self._verify if origin.tls else None,
                server_hostname=origin.host.rstrip(".") if origin.tls else None,
            )
        connection.opened_s = time.monotonic()
        return connection

    def give_back(self, connection: HttpConnection) -> None:
        """Keep the connection after a request when another may be posted, else end it."""
        if not connection.usable:
            connection.abort()
            return
        now_s = time.monotonic()
        if now_s - connection.opened_s > CONNECTION_AGE_S_MAX:
            connection.close()
            return
        connection.idle_since_s = now_s
        self._idle[connection] = None
        self._by_origin.setdefault(connection.origin, []).append(connection)
        if len(self._idle) > IDLE_CONNECTIONS_MAX:
            self._close(next(iter(self._idle)))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._close_stale)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._idle):
            self._close(connection)

    def _close_stale(self) -> None:
        """Close connections that the endpoint closed, and those idle for KEEP_ALIVE_S."""
        idle_since_s = time.monotonic() - KEEP_ALIVE_S
        for connection in list(self._idle):
            if not connection.usable or connection.idle_since_s < idle_since_s:
                self._close(connection)
        self._timer = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._close_stale) if self._idle else None

    def _close(self, connection: HttpConnection) -> None:
        self._drop(connection)
        connection.close()

    def _drop(self, connection: HttpConnection) -> None:
        del self._idle[connection]
        of_origin = self._by_origin[connection.origin]
        of_origin.remove(connection)
        if not of_origin:
            del self._by_origin[connection.origin]
