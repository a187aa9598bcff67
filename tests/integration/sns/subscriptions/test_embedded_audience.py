"""The audience cache of the embedded store is never stale."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cns.stores.embedded import EmbeddedSubscriptionStore, EmbeddedTopicStore, schema
from cns.subscriptions.subscription import SubscriptionState
from cns.topics.topic import Topic
from cns_common.clock import Clock
from cns_common.sqlite.database import Database
from lab.harness.waiting import PATIENCE_S
from tests.integration.sns.stores.cns_stores import CONTRACTS, Stores, subscription


class CountingStores(Stores):
    """Stores on a database of their own that count reads of ids."""

    database: Database
    reads = 0

    async def ids(self, topic: Topic, n: int = 9) -> list[str]:
        return (await self.subscriptions.audience(topic.arn, "", n, "")).ids


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[CountingStores]:
    database = Database(tmp_path, Clock())
    absent: dict[str, Any] = dict.fromkeys(CONTRACTS)
    topics, subscriptions = EmbeddedTopicStore(database), EmbeddedSubscriptionStore(database)
    stores = CountingStores(**absent | {"topics": topics, "subscriptions": subscriptions})
    stores.database = database

    def count(_cursor: object, statement: str, _bindings: object) -> bool:
        stores.reads += statement == schema.CONFIRMED_IDS
        return True

    database.reader.exec_trace = count
    database.start(asyncio.get_running_loop())
    yield stores
    await database.close()


async def test_an_audience_is_read_once_until_a_write(stores: CountingStores) -> None:
    topic, other = await stores.topic(), await stores.topic("u")
    one = await stores.enter(topic)
    assert [await stores.ids(topic) for _ in range(3)] == [[one.id]] * 3
    assert stores.reads == 1
    assert await stores.ids(other) == []
    assert await stores.ids(topic, 1) == [one.id], "another page"
    assert stores.reads == 3
    two = await stores.enter(topic, "https://e/2")
    assert await stores.ids(topic) == sorted([one.id, two.id])
    assert await stores.subscriptions.replace(
        replace(one, state=SubscriptionState.REMOVED, expires_ms=10, version=2), 1, None
    )
    assert await stores.ids(topic) == [two.id]
    assert await stores.subscriptions.remove(two.arn)
    assert await stores.ids(topic) == []


@pytest.mark.parametrize("committed", [False, True])
async def test_a_read_during_a_commit_is_not_cached(
    stores: CountingStores, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read may be from before or after the commit, which runs in its thread."""
    monkeypatch.setattr("cns_common.sqlite.database.COMMIT_ON_LOOP_S", 0.0)
    topic = await stores.topic()
    assert await stores.ids(topic) == []
    may_commit, committing = threading.Event(), threading.Event()
    commit = stores.database._commit

    def commit_slowly() -> Exception | None:
        if committed:
            commit_only(stores.database)
        committing.set()
        may_commit.wait(PATIENCE_S)
        return commit()

    stores.database._commit = commit_slowly  # type: ignore[method-assign]
    creation: Awaitable[Any] = asyncio.ensure_future(stores.subscriptions.create(subscription(topic), None))
    await asyncio.to_thread(committing.wait, 10)
    during = await stores.ids(topic)
    assert len(during) == committed
    stores.database._commit = commit  # type: ignore[method-assign]
    may_commit.set()
    created = await creation
    assert await stores.ids(topic) == [created.id]


def commit_only(database: Database) -> None:
    """Commit before the store does. Its own commit then finds an empty transaction."""
    database.connection.execute("COMMIT")
    database.connection.execute("BEGIN")
