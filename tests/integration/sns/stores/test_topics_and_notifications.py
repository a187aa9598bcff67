"""The contract of the topic and notification stores, for every driver, and tests of the data on disk."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from cns.stores.embedded import archive_schema, schema
from cns.topics.topic import Topic, TopicCounts
from cns_common.clock import Clock
from cns_common.sqlite.database import Database
from tests.integration.sns.stores.cns_stores import (
    ACCOUNT,
    NOTIFICATION,
    OTHER,
    REGION,
    Stores,
    open_stores,
)


async def test_a_topic_is_created_once(stores: Stores) -> None:
    first = await stores.topic()
    assert await stores.topic() == first
    assert await stores.topics.get(first.arn) == first
    assert await stores.topics.get(first.arn + "x") is None
    assert await stores.topics.count(ACCOUNT) == TopicCounts(1, 0)


async def test_a_topic_is_replaced_only_at_its_version(stores: Stores) -> None:
    topic = await stores.topic()
    changed = replace(topic, version=2, attributes={"DisplayName": "d"}, tags={"k": "v"})
    assert await stores.topics.replace(changed, 1)
    assert not await stores.topics.replace(replace(topic, version=2), 1)
    assert not await stores.topics.replace(replace(changed, id="another"), 2)
    assert await stores.topics.get(topic.arn) == changed


async def test_a_deleted_topic_is_gone_and_its_subscriptions_are_swept(stores: Stores) -> None:
    topic = await stores.topic()
    left = [await stores.enter(topic, f"https://e/{number}") for number in range(5)]
    assert await stores.topics.delete(topic.arn)
    assert not await stores.topics.delete(topic.arn)
    assert await stores.topics.get(topic.arn) is None
    assert await stores.topics.count(ACCOUNT) == TopicCounts()
    assert await stores.subscriptions.get([left[0].arn]) == left[:1]

    again = await stores.topic()
    assert (await stores.subscriptions.audience(topic.arn, "", 10, "")).ids == []
    assert await stores.subscriptions.page_of_topic(topic.arn, "", 10) == []
    fresh = await stores.enter(again, "https://e/0")
    assert fresh.id != left[0].id
    assert [await stores.subscriptions.sweep(0, 3) for _ in range(3)] == [3, 3, 0]
    assert await stores.subscriptions.get([one.arn for one in left]) == []
    assert await stores.subscriptions.get([fresh.arn]) == [fresh]
    assert await stores.counts(again) == (0, 1, 0)


async def test_topics_are_listed_by_account_and_region_in_order(stores: Stores) -> None:
    for name in ("c", "a", "b"):
        await stores.topic(name)
    await stores.topic("x", OTHER)
    await stores.topics.create(Topic(id="1", account=ACCOUNT, region="us-east-1", name="y", created_ms=1))
    first = await stores.topics.list_arns(ACCOUNT, REGION, "", 2)
    assert [arn[-1] for arn in first] == ["a", "b"]
    assert [arn[-1] for arn in await stores.topics.list_arns(ACCOUNT, REGION, first[-1], 2)] == ["c"]
    assert [arn[-1] for arn in await stores.topics.list_arns(OTHER, REGION, "", 9)] == ["x"]


async def test_changes_of_topics_are_announced(stores: Stores) -> None:
    changes: list[str] = []
    stores.topics.changed.append(changes.append)
    topic = await stores.topic()
    await stores.topics.replace(replace(topic, version=2), 1)
    await stores.topics.delete(topic.arn)
    assert changes == [topic.arn] * 3


# -- notifications ----------------------------------------------------------------------------------------------------


async def test_a_notification_is_read_before_its_commit_ends(swept_stores: Stores) -> None:
    """A worker may get the job of a publish and read its notification before the store has answered the publish."""
    putting = asyncio.ensure_future(swept_stores.notifications.put(NOTIFICATION, 1, 100))
    await asyncio.sleep(0)
    assert await swept_stores.notifications.get("n") == NOTIFICATION
    await putting


async def test_a_notification_stays_while_it_is_referred_to(stores: Stores) -> None:
    await stores.notifications.put(NOTIFICATION, 1, 100)
    assert await stores.notifications.get("n") == NOTIFICATION
    await stores.notifications.add_references("n", 3)
    await stores.notifications.add_references("n", -3)
    assert await stores.notifications.get("n") == NOTIFICATION
    await stores.notifications.add_references("n", -1)
    assert await stores.notifications.get("n") is None
    await stores.notifications.add_references("n", -1)


async def test_a_repeated_put_only_adds_references(stores: Stores) -> None:
    await stores.notifications.put(NOTIFICATION, 1, 100)
    await stores.notifications.put(NOTIFICATION, 1, 100)
    await stores.notifications.add_references("n", -1)
    assert await stores.notifications.get("n") == NOTIFICATION


async def test_unreferenced_notifications_are_swept(swept_stores: Stores) -> None:
    stores = swept_stores
    for number in range(3):
        await stores.notifications.put(replace(NOTIFICATION, id=str(number)), 1, 100 + number)
    assert await stores.notifications.sweep(99, 10) == 0
    assert await stores.notifications.sweep(101, 1) == 1
    assert await stores.notifications.sweep(101, 10) == 1
    assert await stores.notifications.get("2") is not None


# -- on disk ----------------------------------------------------------------------------------------------------------


async def test_a_restart_keeps_everything(tmp_path: Path) -> None:
    async with open_stores("embedded", tmp_path) as stores:
        topic = await stores.topic()
        entered = await stores.enter(topic)
        await stores.notifications.put(NOTIFICATION, 1, 100)
    async with open_stores("embedded", tmp_path) as stores:
        assert await stores.topics.get(topic.arn) == topic
        assert await stores.subscriptions.get([entered.arn]) == [entered]
        assert await stores.notifications.get("n") == NOTIFICATION
        assert await stores.counts(topic) == (0, 1, 0)


OLDER = {
    "topic_counts": "CREATE TABLE topic_counts(key INTEGER PRIMARY KEY, pending INTEGER NOT NULL DEFAULT 0,"
    " confirmed INTEGER NOT NULL DEFAULT 0, removed INTEGER NOT NULL DEFAULT 0)",
    "sns_accounts": "CREATE TABLE sns_accounts(account TEXT PRIMARY KEY, topics INTEGER NOT NULL DEFAULT 0,"
    " pending INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID",
}
"""The tables of the version before filters and FIFO topics."""


async def test_a_directory_from_before_filters_opens(tmp_path: Path) -> None:
    async with open_stores("embedded", tmp_path) as stores:
        topic = await stores.topic()
        entered = await stores.enter(topic)
    database = Database(tmp_path, Clock())
    for table, text in OLDER.items():
        columns = ", ".join(column.split()[0] for column in text.partition("(")[2].split(", "))
        rows = database.connection.execute(f"SELECT {columns} FROM {table}").fetchall()
        database.connection.execute(f"DROP TABLE {table}")
        database.connection.execute(text)
        database.connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    database.connection.execute("DROP TABLE filter_changes")
    database.connection.execute("DROP INDEX subscriptions_filtered")
    database.start(asyncio.get_running_loop())
    await database.close()

    async with open_stores("embedded", tmp_path) as stores:
        assert (await stores.subscriptions.audience(topic.arn, "", 9, "")).ids == [entered.id]
        assert (await stores.counts(topic), await stores.topics.count(ACCOUNT)) == ((0, 1, 0), TopicCounts(1, 0))
        filtered = replace(entered, version=2, attributes={"FilterPolicy": '{"a":["b"]}'})
        assert await stores.subscriptions.replace(filtered, 1, None)
        assert (await stores.subscriptions.audience(topic.arn, "", 9, "")).ids == []
        assert await stores.subscriptions.page_of_filtered(topic.arn, "", 9) == [filtered]


@pytest.mark.parametrize(("tables", "at_least"), [(schema, 20), (archive_schema, 10)], ids=["topics", "archives"])
async def test_no_statement_scans_a_table(tmp_path: Path, tables: ModuleType, at_least: int) -> None:
    """So the cost of each statement does not depend on the number of rows."""
    database = Database(tmp_path, Clock())
    database.create_tables(tables.TABLES)
    statements = {
        name: text
        for name, text in vars(tables).items()
        if not name.startswith("_") and isinstance(text, str) and text.startswith(("SELECT", "UPDATE", "DELETE"))
    }
    scanning = {
        name
        for name, statement in statements.items()
        if any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in steps_of(database, statement))
    }
    assert len(statements) > at_least
    assert scanning == {"FIND_DROPPED", "SWEEPABLE"}  # both look for what was deleted
    database.start(asyncio.get_running_loop())
    await database.close()


def steps_of(database: Database, statement: str) -> list[str]:
    """The steps of SQLite's plan for a statement."""
    bindings = (0,) if "?1" in statement else (0,) * statement.count("?")
    return [str(row[-1]) for row in database.connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)]
