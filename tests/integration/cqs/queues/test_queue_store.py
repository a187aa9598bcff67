"""The contract of the queue store: in the store host, from another process, and in Cassandra."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from cns_common.clock import Clock
from cns_common.rpc.protocol_proxy import announce, handlers_of, methods_of, remote
from cns_common.rpc.rpc import RpcClient, Server
from cns_common.sqlite.database import Database
from cqs.queues.model import Queue
from cqs.queues.names import QueueKey
from cqs.stores.cassandra.queues import CassandraQueueStore
from cqs.stores.contract import QueueStore
from cqs.stores.embedded.queues import REMEMBER_DELETED_MS, EmbeddedQueueStore
from lab.harness.keyspace import emptied

ACCOUNT, REGION = "000000000000", "us-east-1"
ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"


def queue(name: str = "q", queue_id: str = "1", **changes: object) -> Queue:
    made = Queue(
        id=queue_id,
        account=ACCOUNT,
        region=REGION,
        name=name,
        engine="embedded",
        created_ms=1,
        modified_ms=2,
        attributes={"DelaySeconds": "3"},
        tags={"tag": "\u00fc"},
        options={"BucketSize": "7"},
    )
    return replace(made, **changes)


def queue_with_redrive_policy(name: str) -> Queue:
    return queue(name, name, attributes={"RedrivePolicy": f'{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":1}}'})


@asynccontextmanager
async def open_store(kind: str, directory: Path) -> AsyncIterator[QueueStore]:
    database = Database(directory, Clock())
    store = EmbeddedQueueStore(database)
    database.start(asyncio.get_running_loop())
    if kind == "embedded":
        yield store
    else:
        methods = methods_of(QueueStore, "queues")
        server = Server(methods)
        server.answer(handlers_of(QueueStore, "queues", store))
        announce("queues", store, server)
        await server.start(directory / "socket")
        client = RpcClient(directory / "socket", methods)
        await client.start()
        yield remote(QueueStore, "queues", client)
        await client.close()
        await server.close()
    await database.close()


@pytest.fixture(params=["embedded", "remote"])
def kind(request: pytest.FixtureRequest) -> str:
    """The stores of a data directory."""
    kind: str = request.param
    return kind


@pytest.fixture(params=["embedded", "remote", "cassandra"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[QueueStore]:
    if request.param == "cassandra":
        async with emptied(request.getfixturevalue("cassandra_address")) as cassandra:
            yield CassandraQueueStore(cassandra)
    else:
        async with open_store(request.param, tmp_path) as store:
            yield store


async def test_create_keeps_the_first(store: QueueStore) -> None:
    assert await store.get(queue().key) is None
    assert await store.create(queue()) == queue()
    assert await store.create(queue(queue_id="2")) == queue()
    assert await store.get(queue().key) == queue()


async def test_survives_a_restart(kind: str, tmp_path: Path) -> None:
    async with open_store(kind, tmp_path) as store:
        await store.create(queue())
    async with open_store(kind, tmp_path) as store:
        assert await store.get(queue().key) == queue()


async def test_replace_only_the_expected_version(store: QueueStore) -> None:
    await store.create(queue())
    newer = queue(version=2, attributes={})
    assert not await store.replace(newer, 2)
    assert not await store.replace(replace(newer, id="other"), 1)
    assert await store.replace(newer, 1)
    assert not await store.replace(newer, 1)
    assert await store.get(queue().key) == newer
    assert not await store.replace(queue("absent"), 1)


async def test_delete(store: QueueStore) -> None:
    await store.create(queue())
    assert await store.deleted_at_ms(queue().key) == 0
    assert not await store.delete(queue(queue_id="other"), 1_000)
    assert await store.delete(queue(), 1_000)
    assert not await store.delete(queue(), 1_001)
    assert await store.get(queue().key) is None
    assert await store.deleted_at_ms(queue().key) == 1_000
    await store.create(queue(queue_id="2"))
    await store.delete(queue(queue_id="2"), 2_000)
    assert await store.deleted_at_ms(queue().key) == 2_000
    assert {gone.id for gone in await store.undropped()} == {"1", "2"}
    await store.forget_dropped("1")
    assert await store.undropped() == [queue(queue_id="2")]
    assert await store.deleted_at_ms(queue().key) == 2_000


async def test_old_deletions_are_forgotten_once_dropped(kind: str, tmp_path: Path) -> None:
    async with open_store(kind, tmp_path) as store:
        await check_old_deletions(store)


async def check_old_deletions(store: QueueStore) -> None:
    for queue_id in ("dropped", "undropped"):
        await store.create(queue(queue_id, queue_id))
        await store.delete(queue(queue_id, queue_id), 1_000)
    await store.forget_dropped("dropped")
    await store.create(queue("late", "late"))
    await store.delete(queue("late", "late"), 1_001 + REMEMBER_DELETED_MS)
    assert await store.deleted_at_ms(queue("dropped").key) == 0
    assert await store.deleted_at_ms(queue("undropped").key) == 1_000


async def test_list(store: QueueStore) -> None:
    names = ["B", "a", "a-1", "a_1", "b"]
    for name in reversed(names):
        await store.create(queue(name, name))
    await store.create(queue("a", "other account", account="111111111111"))
    await store.create(queue("a", "other region", region="eu-west-1"))
    assert await store.list_names(ACCOUNT, REGION, "", "", 10) == names
    assert await store.list_names(ACCOUNT, REGION, "a", "", 10) == ["a", "a-1", "a_1"]
    assert await store.list_names(ACCOUNT, REGION, "a", "a", 1) == ["a-1"]
    assert await store.list_names(ACCOUNT, REGION, "a", "a_1", 10) == []
    assert await store.list_names(ACCOUNT, REGION, "%", "", 10) == []


async def test_dead_letter_sources(store: QueueStore) -> None:
    for name in ("c", "a", "b"):
        await store.create(queue_with_redrive_policy(name))
    await store.create(queue("unrelated", "unrelated"))
    assert await store.dead_letter_sources(ARN, "", 10) == ["a", "b", "c"]
    assert await store.dead_letter_sources(ARN, "a", 1) == ["b"]
    assert await store.dead_letter_sources(ARN + "x", "", 10) == []
    await store.replace(queue("b", "b", version=2), 1)
    await store.delete(queue_with_redrive_policy("c"), 1)
    assert await store.dead_letter_sources(ARN, "", 10) == ["a"]


async def test_changes_are_announced_before_their_calls_return(store: QueueStore) -> None:
    told: list[QueueKey] = []
    store.changed.append(told.append)
    await store.create(queue())
    assert told == [queue().key]
    await store.replace(queue(version=2), 1)
    assert told == [queue().key] * 2
    await store.delete(queue(), 1)
    assert told == [queue().key] * 3
