"""CNS's stores: embedded in a directory, the same through RPC, and in Cassandra."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from msgspec.structs import replace

from cns.notification import Notification
from cns.push.model import MobileEndpoint, PlatformApplication
from cns.stores import cassandra as cassandra_stores
from cns.stores import embedded as embedded_stores
from cns.stores.contract import ArchiveStore, NotificationStore, OutboxStore, ReplayStore, SubscriptionStore, TopicStore
from cns.stores.mobile_contract import MobileEndpointStore, PlatformStore, SmsStore
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.ids import hex_id, uuid_text
from cns_common.rpc.protocol_proxy import announce, handlers_of, methods_of, remote
from cns_common.rpc.rpc import RpcClient, Server
from cns_common.sealing import MASTER_KEY_BYTES, Seal
from cns_common.sqlite.database import Database
from lab.harness.keyspace import emptied

ACCOUNT, OTHER = "111111111111", "222222222222"
REGION = "eu-west-1"
SEAL = Seal(b"k" * MASTER_KEY_BYTES)


@dataclass
class Stores:
    topics: TopicStore
    subscriptions: SubscriptionStore
    notifications: NotificationStore
    outbox: OutboxStore
    archives: ArchiveStore
    replays: ReplayStore
    platforms: PlatformStore
    mobile_endpoints: MobileEndpointStore
    sms: SmsStore

    async def topic(self, name: str = "t", account: str = ACCOUNT) -> Topic:
        topic = Topic(id=hex_id(), account=account, region=REGION, name=name, created_ms=1)
        return await self.topics.create(topic)

    async def enter(self, topic: Topic, endpoint: str = "https://e/", **changes: Any) -> Subscription:
        entered = await self.subscriptions.create(subscription(topic, endpoint, **changes), None)
        assert entered is not None
        return entered

    async def counts(self, topic: Topic) -> tuple[int, int, int]:
        counts = await self.subscriptions.counts(topic.arn)
        return counts.pending, counts.confirmed, counts.removed

    async def application(self, name: str = "app", account: str = ACCOUNT) -> PlatformApplication:
        draft = PlatformApplication(
            id=hex_id(),
            account=account,
            region=REGION,
            platform="GCM",
            name=name,
            created_ms=1,
            attributes={"Enabled": "true"},
            secrets={"PlatformCredential": "the secret"},
        )
        return await self.platforms.create(draft)

    async def mobile_endpoint(self, application: PlatformApplication, token: str = "t") -> MobileEndpoint:
        entered = await self.mobile_endpoints.create(mobile_endpoint(application, token))
        assert entered is not None
        return entered


CONTRACTS: dict[str, type[Any]] = get_type_hints(Stores)


def subscription(topic: Topic, endpoint: str = "https://e/", **changes: Any) -> Subscription:
    values: dict[str, Any] = {
        "id": uuid_text(),
        "topic_arn": topic.arn,
        "topic_id": topic.id,
        "owner": ACCOUNT,
        "principal": "arn:aws:iam::111111111111:root",
        "protocol": "https",
        "endpoint": endpoint,
        "state": SubscriptionState.CONFIRMED,
        "created_ms": 1,
        "attributes": {"RawMessageDelivery": "true"},
    }
    return Subscription(**(values | changes))


def mobile_endpoint(application: PlatformApplication, token: str) -> MobileEndpoint:
    return MobileEndpoint(
        id=uuid_text(),
        application_arn=application.arn,
        application_id=application.id,
        created_ms=1,
        attributes={"Token": token, "Enabled": "true"},
    )


@asynccontextmanager
async def open_stores_for(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Stores]:
    """Open the stores of the driver that the fixture's parameter names."""
    if request.param == "cassandra":
        async with open_cassandra(request.getfixturevalue("cassandra_address")) as stores:
            yield stores
    else:
        async with open_stores(request.param, directory) as stores:
            yield stores


@asynccontextmanager
async def open_cassandra(address: CassandraAddress) -> AsyncIterator[Stores]:
    async with emptied(address) as cassandra:
        yield stores_in_cassandra(cassandra)


def stores_in_cassandra(cassandra: Cassandra) -> Stores:
    """Stores whose buckets hold one subscription, so that a few of them reach the next level."""
    return Stores(
        topics=cassandra_stores.CassandraTopicStore(cassandra),
        subscriptions=cassandra_stores.CassandraSubscriptionStore(cassandra, bucket_rows=1),
        notifications=cassandra_stores.CassandraNotificationStore(cassandra),
        outbox=cassandra_stores.CassandraOutboxStore(cassandra),
        archives=cassandra_stores.CassandraArchiveStore(cassandra, part_bytes=1_000, buckets_read=3),
        replays=cassandra_stores.CassandraReplayStore(cassandra),
        platforms=cassandra_stores.CassandraPlatformStore(cassandra, SEAL),
        mobile_endpoints=cassandra_stores.CassandraMobileEndpointStore(cassandra),
        sms=cassandra_stores.CassandraSmsStore(cassandra),
    )


@asynccontextmanager
async def open_stores(kind: str, directory: Path) -> AsyncIterator[Stores]:
    database = Database(directory, Clock())
    stores = Stores(
        topics=embedded_stores.EmbeddedTopicStore(database),
        subscriptions=embedded_stores.EmbeddedSubscriptionStore(database),
        notifications=embedded_stores.EmbeddedNotificationStore(database),
        outbox=embedded_stores.EmbeddedOutboxStore(database),
        archives=embedded_stores.EmbeddedArchiveStore(database),
        replays=embedded_stores.EmbeddedReplayStore(database),
        platforms=embedded_stores.EmbeddedPlatformStore(database, SEAL),
        mobile_endpoints=embedded_stores.EmbeddedMobileEndpointStore(database),
        sms=embedded_stores.EmbeddedSmsStore(database),
    )
    database.start(asyncio.get_running_loop())
    try:
        if kind == "embedded":
            yield stores
        else:
            announced = ("topics", "subscriptions")
            async with from_afar(CONTRACTS, vars(stores), directory / "socket", announced) as proxies:
                yield Stores(**proxies)
    finally:
        await database.close()


@asynccontextmanager
async def from_afar(
    contracts: Mapping[str, type[Any]], stores: Mapping[str, Any], socket: Path, announced: Sequence[str] = ()
) -> AsyncIterator[dict[str, Any]]:
    """The stores as another process has them, through RPC; changes of some are announced."""
    methods = {
        name: method for prefix, contract in contracts.items() for name, method in methods_of(contract, prefix).items()
    }
    server = Server(methods)
    for prefix, contract in contracts.items():
        server.answer(handlers_of(contract, prefix, stores[prefix]))
    for prefix in announced:
        announce(prefix, stores[prefix], server)
    await server.start(socket)
    client = RpcClient(socket, methods)
    await client.start()
    try:
        yield {prefix: remote(contract, prefix, client) for prefix, contract in contracts.items()}
    finally:
        await client.close()
        await server.close()


NOTIFICATION = Notification(
    id="n",
    topic_arn="arn:aws:sns:eu-west-1:111111111111:t",
    timestamp_ms=5,
    texts={"default": "text ☎"},
    attributes={"b": ("String", "2"), "a": ("Number", "1")},
)


async def change(stores: Stores, before: Subscription, **changes: Any) -> Subscription:
    after = replace(before, version=before.version + 1, **changes)
    assert await stores.subscriptions.replace(after, before.version, None)
    return after
