"""The backend of a process of the cluster form: stores in Cassandra, queue engines, cache invalidation over Redis."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

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
from cns_backend.backend import Backend, no_site
from cns_backend.cache_invalidation import CacheInvalidation, SharedStore
from cns_backend.engines import CLUSTER_ENGINES, DEFAULT_CLUSTER_ENGINE, ClusterServers, choose_engines, engine_samples
from cns_backend.schema import missing
from cns_backend.sites.membership import SiteMembership
from cns_backend.sites.process import open_site
from cns_backend.sites.store import SiteStore
from cns_backend.stores.cassandra.control import CassandraControl, check_master_key
from cns_backend.stores.cassandra.disk_usage import open_disk_usage
from cns_backend.stores.cassandra.leases import CassandraLeaseStore
from cns_backend.stores.cassandra.move_marks import check_unmoved
from cns_backend.stores.cassandra.pool_sizes import CassandraPoolSizeStore
from cns_backend.stores.contract import CLOCK
from cns_backend.stores.redis.rates import RedisRateStore
from cns_common.aws.auth.accounts_cassandra import CassandraAccountStore
from cns_common.cassandra.background_work import MEMBERSHIP, background
from cns_common.cassandra.connection import cassandra_address
from cns_common.cassandra.session import Cassandra
from cns_common.cassandra.site_guard import OneSite, SiteGuard
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.errors import EXIT_CASSANDRA_UNUSABLE, OutcomeUnknown, StartError, StoreUnavailable
from cns_common.redis.urls import first_url
from cns_common.sealing import Seal, load_master_key
from cqs.engines.cassandra.clock_skew import open_clock_skew
from cqs.engines.cluster import ClusterEngine
from cqs.stores.cassandra.move_tasks import CassandraMoveTaskStore
from cqs.stores.cassandra.queues import CassandraQueueStore
from cqs.stores.receipt_key import DerivedReceiptKeyStore

CLOCK_POLL_INTERVAL_S = 1.0


def channel_of(settings: Settings) -> str:
    """The Redis channel for changes of this cluster; other clusters may use the same Redis."""
    return f"cns:{settings.cassandra_keyspace}:changes"


@asynccontextmanager
async def open_cluster_backend(
    settings: Settings, site: SiteMembership | None = None, *, moving: bool = False
) -> AsyncIterator[Backend]:
    """See `cns_backend.store_client.open_backend`. `moving`: as `cns migrate` opens it."""
    clock = Clock(test=settings.test_clock)
    async with open_session(settings, site, moving=moving) as (cassandra, seal), AsyncExitStack() as stack:
        await check_master_key(cassandra, seal)
        skew = await stack.enter_async_context(open_clock_skew(cassandra, clock))
        disk = await stack.enter_async_context(open_disk_usage(cassandra, settings.cassandra_keyspace))
        servers = ClusterServers(
            cassandra=cassandra,
            redis_urls=settings.redis,
            clock=clock,
            skew=skew,
            keyspace=settings.cassandra_keyspace,
            maintained=not moving,
        )
        kinds = {name: kind() for name, kind in CLUSTER_ENGINES.items()}
        can = {name: kind.capabilities for name, kind in kinds.items()}
        chosen = choose_engines(settings, DEFAULT_CLUSTER_ENGINE, can)
        engines = {name: await stack.enter_async_context(kinds[name].open(servers)) for name in chosen.running}
        if not moving:
            unmoved = partial(check_unmoved, cassandra, settings.cassandra_keyspace)
            cqs = engines[DEFAULT_CLUSTER_ENGINE]
            assert isinstance(cqs, ClusterEngine)  # no other engine of a cluster may have the internal queues
            processes = cqs.work.processes
            processes.on_shown = unmoved  # before the look below: its first renewal may come late
            cassandra.is_away, cassandra.rejoin = lambda: processes.is_away, cqs.work.renew
            with background(MEMBERSHIP):  # a move that began meanwhile has not seen this process among the living ones
                await unmoved()
        accounts = CassandraAccountStore(cassandra, seal)
        queues = CassandraQueueStore(cassandra)
        topics = CassandraTopicStore(cassandra)
        subscriptions = CassandraSubscriptionStore(cassandra)
        reconnected: list[Callable[[], None]] = []
        shared: dict[str, SharedStore] = {
            "accounts": accounts,
            "queues": queues,
            "topics": topics,
            "subscriptions": subscriptions,
        }
        invalidation = CacheInvalidation(first_url(settings.redis), channel_of(settings), shared, reconnected)
        invalidation.listen(CLOCK, clock.follow)

        async def announce_clock(offset_ms: int) -> None:
            invalidation.announce(CLOCK, offset_ms)
            await invalidation.acknowledged()

        control = CassandraControl(cassandra, clock, announce_clock)
        leases = CassandraLeaseStore(cassandra)
        rates = RedisRateStore(first_url(settings.redis), f"cns:{settings.cassandra_keyspace}:", leases, control, clock)
        clock.follow(await control.clock_offset_ms())
        invalidation.start()
        following = asyncio.create_task(_follow_clock(control, clock)) if settings.test_clock else None
        try:
            yield Backend(
                clock=clock,
                engines=engines,
                default_engine=chosen.default,
                internal_engine=chosen.internal,
                one_commit=False,
                accounts=accounts,
                queues=queues,
                topics=topics,
                subscriptions=subscriptions,
                move_tasks=CassandraMoveTaskStore(cassandra),
                receipt_keys=DerivedReceiptKeyStore(seal),
                notifications=CassandraNotificationStore(cassandra),
                outbox=CassandraOutboxStore(cassandra),
                archives=CassandraArchiveStore(cassandra, clock=clock),
                replays=CassandraReplayStore(cassandra),
                platforms=CassandraPlatformStore(cassandra, seal),
                mobile_endpoints=CassandraMobileEndpointStore(cassandra),
                sms=CassandraSmsStore(cassandra),
                signing_keys=CassandraSigningKeyStore(cassandra, seal),
                leases=leases,
                rates=rates,
                pool_sizes=CassandraPoolSizeStore(cassandra),
                control=control,
                machine=control.machine,
                samples=partial(engine_samples, (*engines.values(), skew, disk)),
                reconnected=reconnected,
                site=site.status if site is not None else no_site,
                absence=lambda: cassandra.watch.absence,
            )
        finally:
            if following is not None:
                following.cancel()
            await invalidation.close()
            await rates.close()


@asynccontextmanager
async def open_account_store(settings: Settings) -> AsyncIterator[CassandraAccountStore]:
    """The account store of a command. Its changes are announced to running processes."""
    async with open_session(settings) as (cassandra, seal):
        store = CassandraAccountStore(cassandra, seal)
        invalidation = CacheInvalidation(first_url(settings.redis), channel_of(settings), {"accounts": store}, [])
        invalidation.start()
        try:
            yield store
        finally:
            await invalidation.close()


@asynccontextmanager
async def open_session(
    settings: Settings, site: SiteGuard | None = None, *, moving: bool = False
) -> AsyncIterator[tuple[Cassandra, Seal]]:
    """A session, and the seal of the secrets in its keyspace. A command gives no `site`. Raises StartError if a table
    is missing, the master key is wrong, another site is active, or `cns migrate`, which is `moving` it, moved it. A
    move has a master key in its settings, and writes nothing until its question is answered."""
    if site is None:
        async with (
            open_site(settings, at_once=True) as own,
            open_session(settings, own or OneSite(), moving=moving) as opened,
        ):
            yield opened
        return
    cassandra = await Cassandra.open(cassandra_address(settings), site=site)
    try:
        lacking = await missing(cassandra, settings.cassandra_keyspace)
        if lacking:
            raise StartError(
                f"keyspace {settings.cassandra_keyspace} has no {lacking[0]}: run `cns schema apply`",
                EXIT_CASSANDRA_UNUSABLE,
            )
        if not moving:
            await check_unmoved(cassandra, settings.cassandra_keyspace)
            settings.data.mkdir(parents=True, exist_ok=True)
        seal = Seal(load_master_key(settings.data, settings.master_key))
        await check_master_key(cassandra, seal, may_be_first=not moving)
        yield cassandra, seal
    finally:
        await cassandra.close()


@asynccontextmanager
async def open_site_store(settings: Settings) -> AsyncIterator[SiteStore]:
    """The store of the decision which site is active. It opens at any site."""
    cassandra = await Cassandra.open(cassandra_address(settings))
    try:
        yield SiteStore(cassandra)
    finally:
        await cassandra.close()


async def _follow_clock(control: CassandraControl, clock: Clock) -> None:
    """Follow the test clock without Redis, or after a lost announcement."""
    while True:
        await asyncio.sleep(CLOCK_POLL_INTERVAL_S)
        with contextlib.suppress(StoreUnavailable, OutcomeUnknown):  # the next read may succeed
            clock.follow(await control.clock_offset_ms())
