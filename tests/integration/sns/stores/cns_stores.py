"""CNS's stores: embedded in a directory, the same through RPC, and in Cassandra."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cns.notification import Notification
from cns.stores.cassandra import (
    CassandraArchiveStore,
    CassandraNotificationStore,
    CassandraOutboxStore,
    CassandraReplayStore,
    CassandraSubscriptionStore,
    CassandraTopicStore,
)
from cns.stores.contract import ArchiveStore, NotificationStore, OutboxStore, ReplayStore, SubscriptionStore, TopicStore
from cns.stores.embedded import (
    EmbeddedArchiveStore,
    EmbeddedNotificationStore,
    EmbeddedOutboxStore,
    EmbeddedReplayStore,
    EmbeddedSubscriptionStore,
    EmbeddedTopicStore,
)
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cns_common.ids import hex_id, uuid_text
from cns_common.rpc.protocol_proxy import announce, handlers_of, methods_of, remote
from cns_common.rpc.rpc import Client, Server
from cns_common.sqlite.database import Database
from lab.harness.keyspace import emptied

ACCOUNT, OTHER = "111111111111", "222222222222"
REGION = "eu-west-1"
CONTRACTS: dict[str, type[Any]] = {
    "topics": TopicStore,
    "subscriptions": SubscriptionStore,
    "notifications": NotificationStore,
    "outbox": OutboxStore,
    "archives": ArchiveStore,
    "replays": ReplayStore,
}


@dataclass
class Stores:
    topics: TopicStore
    subscriptions: SubscriptionStore
    notifications: NotificationStore
    outbox: OutboxStore
    archives: ArchiveStore
    replays: ReplayStore

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
    """Open stores whose buckets hold one subscription, so that a few of them reach the next level."""
    async with emptied(address) as cassandra:
        yield Stores(
            topics=CassandraTopicStore(cassandra),
            subscriptions=CassandraSubscriptionStore(cassandra, bucket_rows=1),
            notifications=CassandraNotificationStore(cassandra),
            outbox=CassandraOutboxStore(cassandra),
            archives=CassandraArchiveStore(cassandra, part_bytes=1_000, buckets_read=3),
            replays=CassandraReplayStore(cassandra),
        )


@asynccontextmanager
async def open_stores(kind: str, directory: Path) -> AsyncIterator[Stores]:
    database = Database(directory, Clock())
    stores: dict[str, Any] = {
        "topics": EmbeddedTopicStore(database),
        "subscriptions": EmbeddedSubscriptionStore(database),
        "notifications": EmbeddedNotificationStore(database),
        "outbox": EmbeddedOutboxStore(database),
        "archives": EmbeddedArchiveStore(database),
        "replays": EmbeddedReplayStore(database),
    }
    database.start(asyncio.get_running_loop())
    try:
        if kind == "embedded":
            yield Stores(**stores)
        else:
            async with open_remote(stores, directory / "socket") as remote_stores:
                yield remote_stores
    finally:
        await database.close()


@asynccontextmanager
async def open_remote(stores: dict[str, Any], path: Path) -> AsyncIterator[Stores]:
    methods = {
        name: method for prefix, contract in CONTRACTS.items() for name, method in methods_of(contract, prefix).items()
    }
    server = Server(methods)
    for prefix, store in stores.items():
        server.answer(handlers_of(CONTRACTS[prefix], prefix, store))
    for prefix in ("topics", "subscriptions"):
        announce(prefix, stores[prefix], server)
    await server.start(path)
    client = Client(path, methods)
    await client.start()
    try:
        yield Stores(**{prefix: remote(contract, prefix, client) for prefix, contract in CONTRACTS.items()})
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
