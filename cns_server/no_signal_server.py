"""The HTTP server of a process that decides for itself when to stop."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from cns_common.configuration.settings import Settings
from cns_server.admin_address import AdminAddress
from cns_server.http.connection_table import ConnectionLimits, ConnectionTable
from cns_server.http.trusted_proxies import TrustedProxies
from cns_server.proxied_server import IncomingConnection, ProxiedServer
from cns_server.server_tls import ServerTls

TICKS_PER_RELOAD = 10
"""uvicorn ticks ten times a second."""


class QuietServer(uvicorn.Server):
    """Leaves signals alone, and serves TLS and the PROXY protocol as the settings say."""

    def __init__(self, settings: Settings, app: Any, table: ConnectionTable | None = None, **options: Any) -> None:
        """`table` has the connections of the protocol that `options` names; these are uvicorn's."""
        self._proxies = TrustedProxies.of(settings) if settings.proxy_protocol == "on" else None
        self._admin = AdminAddress(settings.admin_bind)
        self._table = ConnectionTable(ConnectionLimits()) if table is None else table  # an empty one is false
        self._tls = tls = None if settings.tls_cert is None else ServerTls(settings)
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ssl_context_factory=None if tls is None else lambda _config, _default: tls.context,
                **options,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """With the PROXY protocol the address for administration is served without."""
        given = sockets or []
        plain = [each for each in given if self._proxies is None or self._is_for_administration(each)]
        await super().startup(plain)
        if self._proxies is not None:
            for each in given:
                if each not in plain:
                    server = ProxiedServer(each, self._proxies, self._table, self.config.ssl, self._protocol)
                    self.servers.append(server)  # type: ignore[arg-type]  # it has what uvicorn calls

    def _is_for_administration(self, listening: socket.socket) -> bool:
        return self._admin.is_apart and self._admin.admits({"server": listening.getsockname()})

    def _protocol(self, incoming: IncomingConnection) -> Any:
        made: Any = self.config.http_protocol_class
        protocol = made(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        protocol.proxied = incoming
        return protocol

    async def on_tick(self, counter: int) -> bool:
        if self._tls is not None and counter % TICKS_PER_RELOAD == 0:
            self._tls.reload()
        return await super().on_tick(counter)
