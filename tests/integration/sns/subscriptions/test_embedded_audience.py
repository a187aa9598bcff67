"""The audience that the embedded store remembers is the one it has."""

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
from tests.integration.sns.stores.cns_stores import Stores, subscription


class Kept(Stores):
    """Stores on a database of their own, whose reads of ids are counted."""

    database: Database
    reads = 0

    async def ids(self, topic: Topic, n: int = 9) -> list[str]:
        return (await self.subscriptions.audience(topic.arn, "", n, "")).ids


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    database = Database(tmp_path, Clock())
    absent: Any = None
    kept = Kept(
        topics=EmbeddedTopicStore(database),
        subscriptions=EmbeddedSubscriptionStore(database),
        notifications=absent,
        outbox=absent,
        archives=absent,
        replays=absent,
    )
    kept.database = database

    def count(_cursor: object, statement: str, _bindings: object) -> bool:
        kept.reads += statement == schema.CONFIRMED_IDS
        return True

    database.reader.exec_trace = count
    database.start(asyncio.get_running_loop())
    yield kept
    await database.close()


async def test_it_is_read_once_until_something_is_written(kept: Kept) -> None:
    topic, other = await kept.topic(), await kept.topic("u")
    one = await kept.enter(topic)
    assert [await kept.ids(topic) for _ in range(3)] == [[one.id]] * 3
    assert kept.reads == 1
    assert await kept.ids(other) == []
    assert await kept.ids(topic, 1) == [one.id], "another page"
    assert kept.reads == 3
    two = await kept.enter(topic, "https://e/2")
    assert await kept.ids(topic) == sorted([one.id, two.id])
    assert await kept.subscriptions.replace(
        replace(one, state=SubscriptionState.REMOVED, expires_ms=10, version=2), 1, None
    )
    assert await kept.ids(topic) == [two.id]
    assert await kept.subscriptions.remove(two.arn)
    assert await kept.ids(topic) == []


async def test_a_topic_made_anew_has_none_of_the_former(kept: Kept) -> None:
    topic = await kept.topic()
    one = await kept.enter(topic)
    assert await kept.ids(topic) == [one.id]
    await kept.topics.delete(topic.arn)
    assert await kept.ids(topic) == []
    await kept.topic()
    assert await kept.ids(topic) == []


async def test_one_with_a_filter_is_none_of_them(kept: Kept) -> None:
    topic = await kept.topic()
    one = await kept.enter(topic)
    assert await kept.ids(topic) == [one.id]
    filtered = replace(one, attributes={"FilterPolicy": '{"a": [1]}'}, version=2)
    assert await kept.subscriptions.replace(filtered, 1, None)
    assert await kept.ids(topic) == []
    assert (await kept.subscriptions.audience(topic.arn, "", 9, "")).log


@pytest.mark.parametrize("committed", [False, True])
async def test_what_is_read_during_a_commit_is_not_remembered(kept: Kept, committed: bool) -> None:
    """It may be from before it, or after it."""
    topic = await kept.topic()
    assert await kept.ids(topic) == []
    held, seen = threading.Event(), threading.Event()
    commit = kept.database._commit

    def slowly() -> None:
        if committed:
            commit_only(kept.database)
        seen.set()
        held.wait(10)
        commit()

    kept.database._commit = slowly  # type: ignore[method-assign]
    entering: Awaitable[Any] = asyncio.ensure_future(kept.subscriptions.create(subscription(topic), None))
    await asyncio.to_thread(seen.wait, 10)
    during = await kept.ids(topic)
    assert len(during) == committed
    kept.database._commit = commit  # type: ignore[method-assign]
    held.set()
    entered = await entering
    assert await kept.ids(topic) == [entered.id]


def commit_only(database: Database) -> None:
    """As the store does, which is then told nothing of it yet; a second commit finds nothing to do."""
    database.connection.execute("COMMIT")
    database.connection.execute("BEGIN")
