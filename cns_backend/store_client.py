"""The backend of a process that does not host the store: over the host's socket, or in the cluster form its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from cns_backend.backend import CONTRACTS, Backend, store_methods
from cns_backend.engines import DEFAULT_EMBEDDED_ENGINE, EMBEDDED_ENGINES, choose_engines
from cns_backend.stores.contract import CLOCK
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.rpc.protocol_proxy import remote
from cns_common.rpc.rpc import RpcClient
from cqs.engines.remote.engine import RemoteEngine

if TYPE_CHECKING:  # its driver is installed in the cluster form only
    from cns_backend.sites.membership import SiteMembership


@asynccontextmanager
async def open_backend(settings: Settings, site: SiteMembership | None = None) -> AsyncIterator[Backend]:
    """Open the backend of a process that does not host the store. `site`: the process works only while its site is
    active."""
    if settings.store == "cassandra":
        from cns_backend.cluster import open_cluster_backend  # its drivers are installed in the cluster form only

        async with open_cluster_backend(settings, site) as backend:
            yield backend
        return
    client = StoreClient(settings)
    try:
        yield await client.start()
    finally:
        await client.close()


class StoreClient:
    """The backend over the socket of the store host. Announcements of the host call the `changed` callbacks here."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.client = RpcClient(settings.socket_path, store_methods())
        self.clock = Clock(test=settings.test_clock)
        self.client.on_event(CLOCK, int, self.clock.follow)

    async def start(self) -> Backend:
        await self.client.start()
        client = self.client
        engines = {name: await RemoteEngine.connect(client, name) for name in EMBEDDED_ENGINES}
        can = {name: engine.capabilities for name, engine in engines.items()}
        chosen = choose_engines(self._settings, DEFAULT_EMBEDDED_ENGINE, can)
        backend = Backend(
            clock=self.clock,
            engines={name: engines[name] for name in chosen.running},
            default_engine=chosen.default,
            internal_engine=chosen.internal,
            reconnected=client.on_connect,
            absence=lambda: client.absence,
            **{prefix: remote(contract, prefix, client) for prefix, contract in CONTRACTS.items()},
        )
        self.clock.follow(await backend.control.clock_offset_ms())
        self.clock.not_before(await backend.control.clock_ms())  # the wall clock may have been set back
        return backend

    async def close(self) -> None:
        await self.client.close()
