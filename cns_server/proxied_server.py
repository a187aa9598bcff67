"""Accepts connections of balancers that speak the PROXY protocol: the header comes before TLS, so it is read from the
socket, and then the connection begins as any other."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any

import structlog

from cns_common.log_throttle import LogThrottle
from cns_common.peer_address import peer_address
from cns_server.http.bounded_protocol import HEAD_S
from cns_server.http.connection_table import ConnectionTable, network_of
from cns_server.http.proxy_header import BadProxyHeader, ProxyHeader, read_proxy_header
from cns_server.http.trusted_proxies import TrustedProxies

ACCEPT_RETRY_S = 1.0
ACCEPTS_PER_LOOP_TURN = 16
"""Then others have their turn, and the table its limits: a flood would keep the loop for itself."""

log = structlog.get_logger(__name__)


class IncomingConnection:
    """A connection until its protocol has it: header and TLS handshake count in the limits of the table."""

    def __init__(self, since_s: float) -> None:
        self.header: ProxyHeader | None = None
        """None for a peer that is no balancer."""
        self.network = ""
        self.task: asyncio.Task[None] | None = None
        self._since_s = since_s

    def waiting_since_s(self) -> float:
        return self._since_s

    def enforce_deadlines(self, now_s: float) -> None:
        """Do nothing: its task has a time limit."""

    def evict(self) -> None:
        if self.task is not None:
            self.task.cancel()


class ProxiedServer:
    """Has the methods of `asyncio.Server` that uvicorn calls. A header is required from `proxies`, and not read from
    others. `protocol` makes the protocol of a connection."""

    def __init__(
        self,
        listening: socket.socket,
        proxies: TrustedProxies,
        table: ConnectionTable,
        tls: ssl.SSLContext | None,
        protocol: Callable[[IncomingConnection], Any],
    ) -> None:
        self._listening = listening
        self._proxies = proxies
        self._table = table
        self._tls = tls
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._throttle = LogThrottle(self._loop.time)
        self._incoming: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        self._accepting = self._loop.create_task(self._accept())

    def close(self) -> None:
        """Accept no more."""
        self._accepting.cancel()

    async def wait_closed(self) -> None:
        for task in self._incoming:
            task.cancel()
        await asyncio.gather(self._accepting, *self._incoming, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            for _ in range(ACCEPTS_PER_LOOP_TURN):
                await self._accept_one()
            await asyncio.sleep(0)

    async def _accept_one(self) -> None:
        """Does not suspend while callers wait in the queue of the socket."""
        try:
            connection, _ = await self._loop.sock_accept(self._listening)
        except OSError as error:
            if error.errno != errno.ECONNABORTED:  # else no descriptor is left, or callers are refused for now
                log.warning("connection.accept_failed", error=error.strerror)
                await asyncio.sleep(ACCEPT_RETRY_S)
            return
        incoming = IncomingConnection(self._loop.time())
        incoming.task = self._loop.create_task(self._begin(connection, incoming))
        self._incoming.add(incoming.task)
        incoming.task.add_done_callback(self._incoming.discard)

    async def _begin(self, connection: socket.socket, incoming: IncomingConnection) -> None:
        handed_over = False
        try:
            async with asyncio.timeout(HEAD_S):
                if not await self._identify(connection, incoming):
                    return
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                handed_over = True
                await self._loop.connect_accepted_socket(lambda: self._protocol(incoming), connection, ssl=self._tls)
        except (OSError, TimeoutError):
            pass  # it ended, or its handshake failed: as for every other connection
        finally:
            self._table.remove(incoming)
            if not handed_over:
                connection.close()

    async def _identify(self, connection: socket.socket, incoming: IncomingConnection) -> bool:
        """Read the header. False: the connection is refused."""
        peer = peer_address(connection.getpeername()[0])
        if not self._proxies.include(peer):
            return self._admit(incoming, network_of(peer))
        if not self._admit(incoming, ""):
            return False
        try:
            incoming.header = await read_proxy_header(connection)
        except BadProxyHeader as error:
            suppressed = self._throttle.admit()
            if suppressed is not None:
                log.warning("proxy_header.refused", peer=peer, error=str(error), suppressed=suppressed)
            return False
        client = incoming.header.client
        return client is None or self._admit(incoming, network_of(client[0]))

    def _admit(self, incoming: IncomingConnection, network: str) -> bool:
        self._table.remove(incoming)
        incoming.network = network
        return self._table.admit(incoming, self._loop.time())
