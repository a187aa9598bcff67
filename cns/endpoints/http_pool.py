"""The connections of one event loop to HTTP endpoints: those kept for the next request, and new ones."""

from __future__ import annotations

import asyncio
import ssl
import time

from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.connect import NameResolver, connect_to_allowed
from cns.endpoints.http_connection import HttpConnection
from cns.endpoints.http_url import Origin

KEEP_ALIVE_S = 30.0
IDLE_CONNECTIONS_MAX = 2_000
"""By one thread; the one that was idle for longest goes first."""
POLL_INTERVAL_S = 5.0


class HttpConnectionPool:
    def __init__(self, guard: AddressGuard, verify: ssl.SSLContext) -> None:
        self._guard = guard
        self._verify = verify
        self._lookups = NameResolver()
        self._kept: dict[HttpConnection, None] = {}  # the one idle for longest first
        self._by_origin: dict[Origin, list[HttpConnection]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def take(self, origin: Origin) -> HttpConnection | None:
        """One that was kept: the one last used."""
        while (kept := self._by_origin.get(origin)) is not None:
            connection = kept[-1]
            self._drop(connection)
            if connection.usable:
                return connection
        return None

    async def open(self, origin: Origin, deadline_s: float) -> HttpConnection:
        """Raises OSError (AddressRefused, socket.gaierror, ssl.SSLError, TimeoutError and others)."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout_at(deadline_s):
            reached = await connect_to_allowed(self._guard, await self._lookups.find(origin.host, origin.port))
            _, connection = await loop.create_connection(
                lambda: HttpConnection(origin),
                sock=reached,
                ssl=self._verify if origin.tls else None,
                server_hostname=origin.host.rstrip(".") if origin.tls else None,
            )
        return connection

    def give_back(self, connection: HttpConnection) -> None:
        """After a request: it is kept, if another may be posted."""
        if not connection.usable:
            connection.abort()
            return
        connection.idle_since_s = time.monotonic()
        self._kept[connection] = None
        self._by_origin.setdefault(connection.origin, []).append(connection)
        if len(self._kept) > IDLE_CONNECTIONS_MAX:
            self._close(next(iter(self._kept)))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(POLL_INTERVAL_S, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._kept):
            self._close(connection)

    def _look(self) -> None:
        """Let go of those that the endpoint closed, or that nobody needed for long."""
        idle_since_s = time.monotonic() - KEEP_ALIVE_S
        for connection in list(self._kept):
            if not connection.usable or connection.idle_since_s < idle_since_s:
                self._close(connection)
        self._timer = asyncio.get_running_loop().call_later(POLL_INTERVAL_S, self._look) if self._kept else None

    def _close(self, connection: HttpConnection) -> None:
        self._drop(connection)
        connection.close()

    def _drop(self, connection: HttpConnection) -> None:
        del self._kept[connection]
        of_origin = self._by_origin[connection.origin]
        of_origin.remove(connection)
        if not of_origin:
            del self._by_origin[connection.origin]
