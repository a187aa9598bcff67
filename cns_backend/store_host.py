"""The store host: the one process that opens the data directory, and serves its stores on a Unix socket."""

from __future__ import annotations

import asyncio
import os
from functools import partial

import structlog

import cns
from cns.stores.embedded import (
    EmbeddedArchiveStore,
    EmbeddedMobileEndpointStore,
    EmbeddedNotificationStore,
    EmbeddedOutboxStore,
    EmbeddedPlatformStore,
    EmbeddedReplayStore,
    EmbeddedSmsStore,
    EmbeddedSubscriptionStore,
    EmbeddedTopicStore,
)
from cns.stores.embedded.signing_key import EmbeddedSigningKeyStore
from cns_backend.backend import CONTRACTS, Backend, store_methods
from cns_backend.backups.migration import back_up
from cns_backend.engines import DEFAULT_EMBEDDED_ENGINE, EMBEDDED_ENGINES, choose_engines
from cns_backend.stores.embedded.control import EmbeddedControl
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_backend.stores.embedded.pool_sizes import EmbeddedPoolSizeStore
from cns_backend.stores.embedded.rates import EmbeddedRateStore
from cns_common.aws.auth.accounts import EmbeddedAccountStore
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.data_directory import unusable
from cns_common.rpc.protocol_proxy import announce, handlers_of
from cns_common.rpc.rpc import Server
from cns_common.sealing import Seal, load_master_key, require_master_key
from cns_common.sqlite.database import Database
from cns_common.sqlite.format import BeforeMigration
from cqs.engines.remote import host as engine_host
from cqs.stores.embedded.move_tasks import EmbeddedMoveTaskStore
from cqs.stores.embedded.queues import EmbeddedQueueStore
from cqs.stores.receipt_key import DerivedReceiptKeyStore

log = structlog.get_logger(__name__)

EXIT_STORE_FAILED = 1


class StoreHost:
    """Opens the data directory and serves it to the other processes of this machine."""

    def __init__(
        self, settings: Settings, before_migration: BeforeMigration | None = None, *, moving: bool = False
    ) -> None:
        """`before_migration` is called for a store of an earlier format; by default it makes a backup. `moving`: as
        `cns migrate` opens it."""
        clock = Clock(test=settings.test_clock)
        guard = partial(require_master_key, settings.data, settings.master_key)
        self.database = Database(
            settings.data,
            clock,
            guard=guard,
            before_migration=before_migration or partial(back_up, settings),
            program=cns.__version__,
            moving=moving,
        )
        seal = Seal(load_master_key(settings.data, settings.master_key))
        self.accounts = EmbeddedAccountStore(self.database, seal)
        built = {name: build(self.database, clock) for name, build in EMBEDDED_ENGINES.items()}
        can = {name: engine.capabilities for name, engine in built.items()}
        chosen = choose_engines(settings, DEFAULT_EMBEDDED_ENGINE, can)
        engines = {name: built[name] for name in chosen.running}
        self._server = Server(store_methods())
        self.backend = Backend(
            clock=clock,
            engines=engines,
            default_engine=chosen.default,
            internal_engine=chosen.internal,
            reconnected=[],
            accounts=self.accounts,
            queues=EmbeddedQueueStore(self.database),
            move_tasks=EmbeddedMoveTaskStore(self.database),
            receipt_keys=DerivedReceiptKeyStore(seal),
            topics=EmbeddedTopicStore(self.database),
            subscriptions=EmbeddedSubscriptionStore(self.database),
            notifications=EmbeddedNotificationStore(self.database),
            outbox=EmbeddedOutboxStore(self.database),
            archives=EmbeddedArchiveStore(self.database),
            replays=EmbeddedReplayStore(self.database),
            platforms=EmbeddedPlatformStore(self.database, seal),
            mobile_endpoints=EmbeddedMobileEndpointStore(self.database),
            sms=EmbeddedSmsStore(self.database),
            signing_keys=EmbeddedSigningKeyStore(self.database, seal),
            leases=EmbeddedLeaseStore(),
            rates=EmbeddedRateStore(clock),
            pool_sizes=EmbeddedPoolSizeStore(self.database),
            control=EmbeddedControl(self.database, engines.values(), clock, self._server),
        )
        for name, engine in engines.items():
            self._server.answer(engine_host.handlers(name, engine, clock))
        for prefix, contract in CONTRACTS.items():
            self._server.answer(handlers_of(contract, prefix, getattr(self.backend, prefix)))
        self._server.on_close.append(engine_host.end_session)
        for prefix, store in self.backend.announced_stores().items():
            announce(prefix, store, self._server)
        self._path = settings.socket_path
        self._reserve_bytes = settings.reserve_bytes
        self.database.on_fatal = _end_process
        self.database.on_space_regained = _end_read_only

    async def start(self) -> None:
        self.database.space.keep_reserve(self._reserve_bytes)
        self.database.start(asyncio.get_running_loop())
        try:
            await self._server.start(self._path)
        except OSError as error:
            raise unusable(f"cannot listen on {self._path}", error) from error

    async def close(self) -> None:
        await self._server.close()
        await self.database.close()


def _end_process(error: Exception) -> None:
    """End the process after a failed fsync: only a restart reads what is on disk. The supervisor restarts it."""
    log.critical("store.failed", error=str(error))
    os._exit(EXIT_STORE_FAILED)


def _end_read_only() -> None:
    """End the process of a read-only store once the disk has room: the supervisor restarts it, to write again."""
    log.warning("store.space_recovered")
    os._exit(EXIT_STORE_FAILED)
