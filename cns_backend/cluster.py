"""The parts of a cluster's process: stores in Cassandra, the engine `cqs`, and changes told through Redis."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from cns.stores.cassandra import (
    CassandraArchiveStore,
    CassandraMobileEndpointStore,
    CassandraNotificationStore,
    CassandraOutboxStore,
    CassandraPlatformStore,
    CassandraReplayStore,
    CassandraSigningKeyStore,
    CassandraSmsStore,
    CassandraSubscriptionStore,
    CassandraTopicStore,
)
from common.aws.accounts_cassandra import CassandraAccountStore
from common.cassandra import EXIT_CASSANDRA_UNUSABLE, Cassandra, Place
from common.clock import Clock
from common.errors import OutcomeUnknown, StartError, StoreUnavailable
from common.sealing import Seal, load_master_key
from common.setting_checks import read_contact_points
from common.settings import Settings
from cqs.stores.cassandra import CassandraQueueStore
from cqs.stores.cassandra_moves import CassandraMoveTaskStore
from cqs.stores.receipt_key import DerivedReceiptKeyStore
from workers.announcements import Announcements
from workers.cluster_control import ClusterControl, check_master_key
from workers.control import CLOCK
from workers.host import CHANGING, Parts
from workers.leases_cassandra import CassandraLeaseStore
from workers.pool_sizes_cassandra import CassandraPoolSizeStore
from workers.schema import missing

CLOCK_LOOK_S = 1.0


def place_of(settings: Settings) -> Place:
    """Where the settings say that Cassandra is."""
    points = read_contact_points(settings.cassandra)
    return Place(
        hosts=points.hosts,
        port=points.port,
        keyspace=settings.cassandra_keyspace,
        data_centre=settings.cassandra_data_centre,
    )


def channel_of(settings: Settings) -> str:
    """In Redis, which other clusters may use too."""
    return f"cns:{settings.cassandra_keyspace}:changes"


@asynccontextmanager
async def open_cluster_parts(settings: Settings) -> AsyncIterator[Parts]:
    """See `workers.host.open_parts`."""
    from cqs.engines.cqs import open_engine

    clock = Clock(test=settings.test_clock)
    async with (
        open_session(settings) as (cassandra, seal),
        open_engine(cassandra, settings.redis, clock, prefix=f"cqs:{settings.cassandra_keyspace}") as engine,
    ):
        keepers: dict[str, Any] = {
            "accounts": CassandraAccountStore(cassandra, seal),
            "queues": CassandraQueueStore(cassandra),
            "topics": CassandraTopicStore(cassandra),
            "subscriptions": CassandraSubscriptionStore(cassandra),
        }
        reconnected: list[Callable[[], None]] = []
        changing = {name: keepers[name] for name in CHANGING}
        announcements = Announcements(settings.redis, channel_of(settings), changing, reconnected)
        announcements.listen(CLOCK, clock.follow)

        async def announce_clock(offset_ms: int) -> None:
            announcements.announce(CLOCK, offset_ms)
            await announcements.heard()

        control = ClusterControl(cassandra, clock, announce_clock)
        clock.follow(await control.clock_offset_ms())
        announcements.start()
        following = asyncio.create_task(_follow_clock(control, clock)) if settings.test_clock else None
        try:
            yield Parts(
                clock=clock,
                engine=engine,
                engine_name="cqs",
                one_commit=False,
                move_tasks=CassandraMoveTaskStore(cassandra),
                receipt_keys=DerivedReceiptKeyStore(seal),
                notifications=CassandraNotificationStore(cassandra),
                outbox=CassandraOutboxStore(cassandra),
                archives=CassandraArchiveStore(cassandra),
                replays=CassandraReplayStore(cassandra),
                platforms=CassandraPlatformStore(cassandra, seal),
                mobile_endpoints=CassandraMobileEndpointStore(cassandra),
                sms=CassandraSmsStore(cassandra),
                signing_keys=CassandraSigningKeyStore(cassandra, seal),
                leases=CassandraLeaseStore(cassandra),
                pool_sizes=CassandraPoolSizeStore(cassandra),
                control=control,
                machine=control.machine,
                samples=engine.samples,
                reconnected=reconnected,
                **keepers,
            )
        finally:
            if following is not None:
                following.cancel()
            await announcements.close()


@asynccontextmanager
async def open_account_store(settings: Settings) -> AsyncIterator[CassandraAccountStore]:
    """For a command: its changes are told to the processes that run."""
    async with open_session(settings) as (cassandra, seal):
        store = CassandraAccountStore(cassandra, seal)
        announcements = Announcements(settings.redis, channel_of(settings), {"accounts": store}, [])
        announcements.start()
        try:
            yield store
        finally:
            await announcements.close()


@asynccontextmanager
async def open_session(settings: Settings) -> AsyncIterator[tuple[Cassandra, Seal]]:
    """A session whose keyspace has all tables, and the key that opens the secrets in it."""
    cassandra = await Cassandra.open(place_of(settings))
    try:
        lacking = await missing(cassandra, settings.cassandra_keyspace)
        if lacking:
            raise StartError(
                f"keyspace {settings.cassandra_keyspace} has no {lacking[0]}: run `cns schema apply`",
                EXIT_CASSANDRA_UNUSABLE,
            )
        settings.data.mkdir(parents=True, exist_ok=True)
        seal = Seal(load_master_key(settings.data, settings.master_key))
        await check_master_key(cassandra, seal)
        yield cassandra, seal
    finally:
        await cassandra.close()


async def _follow_clock(control: ClusterControl, clock: Clock) -> None:
    """The test clock of a cluster without Redis; with it, this is what a lost announcement is made up by."""
    while True:
        await asyncio.sleep(CLOCK_LOOK_S)
        with contextlib.suppress(StoreUnavailable, OutcomeUnknown):  # the next look may succeed
            clock.follow(await control.clock_offset_ms())
