"""The store host, which opens the data directory, and the link by which every other process reaches it.

Both offer the same `Parts`, so what is built on them does not know which process it runs in.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import get_type_hints

import structlog

from cns.stores.contract import (
    ArchiveStore,
    NotificationStore,
    OutboxStore,
    ReplayStore,
    SigningKeyStore,
    SubscriptionStore,
    TopicStore,
)
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
from cns.stores.mobile_contract import MobileEndpointStore, PlatformStore, SmsStore
from cns_backend.engines import DEFAULT_EMBEDDED_ENGINE, EMBEDDED_ENGINES
from cns_backend.stores.contract import CLOCK, LeaseStore, PoolSizeStore, ServiceControl
from cns_backend.stores.embedded.control import EmbeddedControl
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_backend.stores.embedded.pool_sizes import EmbeddedPoolSizeStore
from cns_common.aws.auth.accounts import AccountStore, EmbeddedAccountStore
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.data_directory import unusable
from cns_common.metrics.model import Sample
from cns_common.rpc.protocol_proxy import ChangeSource, announce, handlers_of, methods_of, remote
from cns_common.rpc.rpc import Client, Method, Server
from cns_common.sealing import Seal, load_master_key, require_master_key
from cns_common.sqlite.database import Database
from cqs.engines import remote as engine_calls
from cqs.engines.contract import Engine
from cqs.engines.remote import RemoteEngine
from cqs.stores.contract import MoveTaskStore, QueueStore, ReceiptKeyStore
from cqs.stores.embedded.move_tasks import EmbeddedMoveTaskStore
from cqs.stores.embedded.queues import EmbeddedQueueStore
from cqs.stores.receipt_key import DerivedReceiptKeyStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Everything that a store host answers for on its socket, by the prefix of its calls."""

    accounts: AccountStore
    queues: QueueStore
    move_tasks: MoveTaskStore
    receipt_keys: ReceiptKeyStore
    topics: TopicStore
    subscriptions: SubscriptionStore
    notifications: NotificationStore
    outbox: OutboxStore
    archives: ArchiveStore
    replays: ReplayStore
    platforms: PlatformStore
    mobile_endpoints: MobileEndpointStore
    sms: SmsStore
    signing_keys: SigningKeyStore
    leases: LeaseStore
    pool_sizes: PoolSizeStore
    control: ServiceControl

    def announced(self) -> dict[str, ChangeSource]:
        """The stores whose changes every process is told of, by prefix."""
        return {
            "accounts": self.accounts,
            "queues": self.queues,
            "topics": self.topics,
            "subscriptions": self.subscriptions,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Stores):
    """The storage that services are built on, the same in every process and in both forms."""

    clock: Clock
    engines: Mapping[str, Engine]
    default_engine: str
    one_commit: bool = True
    """Whether what is begun in one turn of the loop, notification first, is stored in that order or at once."""
    machine: str = ""
    """The beginning of the names of this machine's processes, where a cluster may have others."""
    samples: Callable[[], Sequence[Sample]] = tuple
    """Of this process's own part of the store."""
    reconnected: list[Callable[[], None]]
    """Called when the connection to the store host is back: changes of meanwhile were not announced to this process."""

    @property
    def engine(self) -> Engine:
        """The default engine. It has the internal queues."""
        return self.engines[self.default_engine]


CONTRACTS: Mapping[str, type] = get_type_hints(Stores)
"""The protocol of each store, by prefix."""
EXIT_STORE_FAILED = 1


def _methods() -> dict[str, Method]:
    methods: dict[str, Method] = {}
    for name in EMBEDDED_ENGINES:
        methods |= engine_calls.methods(name)
    for prefix, contract in CONTRACTS.items():
        methods |= methods_of(contract, prefix)
    return methods


class StoreHost:
    """Opens the data directory, serves it on a socket to this machine's other processes."""

    def __init__(self, settings: Settings) -> None:
        clock = Clock(test=settings.test_clock)
        guard = partial(require_master_key, settings.data, settings.master_key)
        self.database = Database(settings.data, clock, guard=guard)
        seal = Seal(load_master_key(settings.data, settings.master_key))
        self.accounts = EmbeddedAccountStore(self.database, seal)
        engines = {name: build(self.database, clock) for name, build in EMBEDDED_ENGINES.items()}
        self._server = Server(_methods())
        self.parts = Parts(
            clock=clock,
            engines=engines,
            default_engine=DEFAULT_EMBEDDED_ENGINE,
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
            pool_sizes=EmbeddedPoolSizeStore(self.database),
            control=EmbeddedControl(self.database, engines.values(), clock, self._server),
        )
        for name, engine in engines.items():
            self._server.answer(engine_calls.handlers(name, engine, clock))
        for prefix, contract in CONTRACTS.items():
            self._server.answer(handlers_of(contract, prefix, getattr(self.parts, prefix)))
        self._server.on_close.append(engine_calls.end_session)
        for prefix, store in self.parts.announced().items():
            announce(prefix, store, self._server)
        self._path = settings.socket_path
        self._reserve_bytes = settings.reserve_bytes
        self.database.on_fatal = _end_process
        self.database.on_space_regained = _begin_anew

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
    """After a failed fsync only a new start can say what the disk holds; the supervisor makes one."""
    log.critical("store.failed", error=str(error))
    os._exit(EXIT_STORE_FAILED)


def _begin_anew() -> None:
    """A store that could only be read has room now; the supervisor starts the process that opens it in full."""
    log.warning("store.space_recovered")
    os._exit(EXIT_STORE_FAILED)


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncIterator[Parts]:
    """The parts, for a process that does not host the store. The one place that chooses where the store is."""
    if settings.store == "cassandra":
        from cns_backend.cluster import open_cluster_parts  # with drivers that only this form has installed

        async with open_cluster_parts(settings) as parts:
            yield parts
        return
    link = StoreLink(settings)
    try:
        yield await link.start()
    finally:
        await link.close()


class StoreLink:
    """Reaches the store host from another process; `changed` callbacks fire there as they do in the host."""

    def __init__(self, settings: Settings) -> None:
        self.client = Client(settings.socket_path, _methods())
        self.clock = Clock(test=settings.test_clock)
        self.client.on_event(CLOCK, int, self.clock.follow)

    async def start(self) -> Parts:
        await self.client.start()
        client = self.client
        parts = Parts(
            clock=self.clock,
            engines={name: await RemoteEngine.connect(client, name) for name in EMBEDDED_ENGINES},
            default_engine=DEFAULT_EMBEDDED_ENGINE,
            reconnected=client.on_connect,
            accounts=remote(AccountStore, "accounts", client),
            queues=remote(QueueStore, "queues", client),
            move_tasks=remote(MoveTaskStore, "move_tasks", client),
            receipt_keys=remote(ReceiptKeyStore, "receipt_keys", client),
            topics=remote(TopicStore, "topics", client),
            subscriptions=remote(SubscriptionStore, "subscriptions", client),
            notifications=remote(NotificationStore, "notifications", client),
            outbox=remote(OutboxStore, "outbox", client),
            archives=remote(ArchiveStore, "archives", client),
            replays=remote(ReplayStore, "replays", client),
            platforms=remote(PlatformStore, "platforms", client),
            mobile_endpoints=remote(MobileEndpointStore, "mobile_endpoints", client),
            sms=remote(SmsStore, "sms", client),
            signing_keys=remote(SigningKeyStore, "signing_keys", client),
            leases=remote(LeaseStore, "leases", client),
            pool_sizes=remote(PoolSizeStore, "pool_sizes", client),
            control=remote(ServiceControl, "control", client),
        )
        self.clock.follow(await parts.control.clock_offset_ms())
        self.clock.not_before(await parts.control.clock_ms())  # the wall clock may have been set back since
        return parts

    async def close(self) -> None:
        await self.client.close()
