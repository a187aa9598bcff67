"""What CNS's stores promise, kept by the embedded ones and by the same from afar."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cns.model import Notification
from cns.stores.contract import NotificationStore, SubscriptionStore, TopicStore
from cns.stores.embedded import EmbeddedNotificationStore, EmbeddedSubscriptionStore, EmbeddedTopicStore, schema
from cns.subscription import State, Subscription, SubscriptionCounts, Token
from cns.topic import Topic
from common.clock import Clock
from common.ids import hex_id, uuid_text
from common.rpc import Client, Server
from common.rpc_contract import announce, handlers_of, methods_of, remote
from common.sqlite import Database

ACCOUNT, OTHER = "111111111111", "222222222222"
REGION = "eu-west-1"
CONTRACTS: dict[str, type[Any]] = {
    "topics": TopicStore,
    "subscriptions": SubscriptionStore,
    "notifications": NotificationStore,
}


@dataclass
class Stores:
    topics: TopicStore
    subscriptions: SubscriptionStore
    notifications: NotificationStore

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
        "state": State.CONFIRMED,
        "created_ms": 1,
        "attributes": {"RawMessageDelivery": "true"},
    }
    return Subscription(**(values | changes))


@asynccontextmanager
async def open_stores(kind: str, directory: Path) -> AsyncIterator[Stores]:
    database = Database(directory, Clock())
    keepers: dict[str, Any] = {
        "topics": EmbeddedTopicStore(database),
        "subscriptions": EmbeddedSubscriptionStore(database),
        "notifications": EmbeddedNotificationStore(database),
    }
    database.start(asyncio.get_running_loop())
    try:
        if kind == "embedded":
            yield Stores(**keepers)
        else:
            async with link(keepers, directory / "socket") as stores:
                yield stores
    finally:
        await database.close()


@asynccontextmanager
async def link(keepers: dict[str, Any], path: Path) -> AsyncIterator[Stores]:
    methods = {name: method for prefix, kept in CONTRACTS.items() for name, method in methods_of(kept, prefix).items()}
    server = Server(methods)
    for prefix, keeper in keepers.items():
        server.answer(handlers_of(CONTRACTS[prefix], prefix, keeper))
    for prefix in ("topics", "subscriptions"):
        announce(prefix, keepers[prefix], server)
    await server.start(path)
    client = Client(path, methods)
    await client.start()
    try:
        yield Stores(**{prefix: remote(contract, prefix, client) for prefix, contract in CONTRACTS.items()})
    finally:
        await client.close()
        await server.close()


@pytest.fixture(params=["embedded", "remote"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    async with open_stores(request.param, tmp_path) as stores:
        yield stores


# -- topics -----------------------------------------------------------------------------------------------------------


async def test_a_topic_is_made_once(stores: Stores) -> None:
    first = await stores.topic()
    assert await stores.topic() == first
    assert await stores.topics.get(first.arn) == first
    assert await stores.topics.get(first.arn + "x") is None
    assert await stores.topics.count(ACCOUNT) == 1


async def test_a_topic_is_replaced_by_who_knows_its_version(stores: Stores) -> None:
    topic = await stores.topic()
    changed = replace(topic, version=2, attributes={"DisplayName": "d"}, tags={"k": "v"})
    assert await stores.topics.replace(changed, 1)
    assert not await stores.topics.replace(replace(topic, version=2), 1)
    assert not await stores.topics.replace(replace(changed, id="another"), 2)
    assert await stores.topics.get(topic.arn) == changed


async def test_a_topic_goes_at_once_and_its_subscriptions_by_and_by(stores: Stores) -> None:
    topic = await stores.topic()
    left = [await stores.enter(topic, f"https://e/{number}") for number in range(5)]
    assert await stores.topics.delete(topic.arn)
    assert not await stores.topics.delete(topic.arn)
    assert await stores.topics.get(topic.arn) is None
    assert await stores.topics.count(ACCOUNT) == 0
    assert await stores.subscriptions.get([left[0].arn]) == left[:1]

    again = await stores.topic()
    assert await stores.subscriptions.confirmed_ids(topic.arn, "", 10) == []
    assert await stores.subscriptions.page_of_topic(topic.arn, "", 10) == []
    fresh = await stores.enter(again, "https://e/0")
    assert fresh.id != left[0].id
    assert [await stores.subscriptions.sweep(0, 3) for _ in range(3)] == [3, 3, 0]
    assert await stores.subscriptions.get([one.arn for one in left]) == []
    assert await stores.subscriptions.get([fresh.arn]) == [fresh]
    assert await stores.counts(again) == (0, 1, 0)


async def test_topics_are_listed_by_account_and_region_in_their_order(stores: Stores) -> None:
    for name in ("c", "a", "b"):
        await stores.topic(name)
    await stores.topic("x", OTHER)
    await stores.topics.create(Topic(id="1", account=ACCOUNT, region="us-east-1", name="y", created_ms=1))
    first = await stores.topics.list_arns(ACCOUNT, REGION, "", 2)
    assert [arn[-1] for arn in first] == ["a", "b"]
    assert [arn[-1] for arn in await stores.topics.list_arns(ACCOUNT, REGION, first[-1], 2)] == ["c"]


async def test_changes_of_topics_are_told(stores: Stores) -> None:
    told: list[str] = []
    stores.topics.changed.append(told.append)
    topic = await stores.topic()
    await stores.topics.replace(replace(topic, version=2), 1)
    await stores.topics.delete(topic.arn)
    assert told == [topic.arn] * 3


# -- subscriptions ----------------------------------------------------------------------------------------------------


async def test_a_topic_has_one_subscription_for_a_protocol_and_endpoint(stores: Stores) -> None:
    topic = await stores.topic()
    first = await stores.enter(topic)
    assert await stores.enter(topic, owner=OTHER) == first
    assert await stores.enter(topic, protocol="http") != first
    assert await stores.enter(topic, "https://e/2") != first
    assert await stores.enter(await stores.topic("u")) != first
    assert await stores.counts(topic) == (0, 3, 0)


async def test_no_subscription_to_a_topic_that_is_gone(stores: Stores) -> None:
    topic = await stores.topic()
    await stores.topics.delete(topic.arn)
    assert await stores.subscriptions.create(subscription(topic), None) is None
    await stores.topic()
    assert await stores.subscriptions.create(subscription(topic), None) is None


async def test_counts_follow_every_change(stores: Stores) -> None:
    topic = await stores.topic()
    pending = await stores.enter(topic, state=State.PENDING, expires_ms=10)
    assert (await stores.counts(topic), await stores.subscriptions.count_pending(ACCOUNT)) == ((1, 0, 0), 1)
    confirmed = replace(pending, state=State.CONFIRMED, expires_ms=0, version=2)
    assert await stores.subscriptions.replace(confirmed, 1, None)
    assert (await stores.counts(topic), await stores.subscriptions.count_pending(ACCOUNT)) == ((0, 1, 0), 0)
    removed = replace(confirmed, state=State.REMOVED, expires_ms=10, version=3)
    assert await stores.subscriptions.replace(removed, 2, None)
    assert await stores.counts(topic) == (0, 0, 1)
    assert await stores.subscriptions.remove(pending.arn)
    assert await stores.counts(topic) == (0, 0, 0)
    assert not await stores.subscriptions.remove(pending.arn)
    assert await stores.subscriptions.counts("absent") == SubscriptionCounts()


async def test_a_subscription_is_replaced_by_who_knows_its_version(stores: Stores) -> None:
    topic = await stores.topic()
    before = await stores.enter(topic)
    after = replace(before, version=2, attributes={})
    token = Token("ab", before.arn, 10)
    assert not await stores.subscriptions.replace(after, 2, token)
    assert await stores.subscriptions.find_token("ab") is None
    assert await stores.subscriptions.replace(after, 1, token)
    assert await stores.subscriptions.find_token("ab") == token
    assert await stores.subscriptions.get([before.arn]) == [after]
    assert await stores.counts(topic) == (0, 1, 0)


async def test_only_the_confirmed_are_delivered_to(stores: Stores) -> None:
    topic = await stores.topic()
    confirmed = [await stores.enter(topic, f"https://e/{number}") for number in range(5)]
    await stores.enter(topic, "https://p/", state=State.PENDING, expires_ms=10)
    await stores.enter(topic, "https://r/", state=State.REMOVED, expires_ms=10)
    ids = sorted(one.id for one in confirmed)
    assert await stores.subscriptions.confirmed_ids(topic.arn, "", 2) == ids[:2]
    assert await stores.subscriptions.confirmed_ids(topic.arn, ids[1], 9) == ids[2:]
    assert await stores.subscriptions.confirmed_ids(topic.arn, ids[4], 9) == []


async def test_lists_by_topic_and_by_owner(stores: Stores) -> None:
    topic = await stores.topic()
    mine = [await stores.enter(topic, f"https://e/{number}", state=State(number)) for number in range(3)]
    other = await stores.enter(topic, "https://o/", owner=OTHER)
    elsewhere = await stores.topics.create(Topic(id="1", account=OTHER, region="us-east-1", name="y", created_ms=1))
    await stores.enter(elsewhere)
    mine.sort(key=lambda one: one.id)
    everyone = sorted([*mine, other], key=lambda one: one.id)
    assert await stores.subscriptions.page_of_topic(topic.arn, "", 9) == everyone
    assert await stores.subscriptions.page_of_topic(topic.arn, everyone[0].id, 2) == everyone[1:3]
    assert await stores.subscriptions.page_of_owner(ACCOUNT, REGION, "", 2) == mine[:2]
    assert await stores.subscriptions.page_of_owner(ACCOUNT, REGION, mine[1].id, 2) == mine[2:]


async def test_many_are_found_at_once(stores: Stores) -> None:
    topic = await stores.topic()
    entered = [await stores.enter(topic, f"https://e/{number}") for number in range(3)]
    wanted = [entered[2].arn, f"{topic.arn}:{uuid_text()}", entered[0].arn, entered[1].arn.replace(":t:", ":u:")]
    assert await stores.subscriptions.get(wanted) == [entered[2], entered[0]]
    assert await stores.subscriptions.get([]) == []


async def test_expired_subscriptions_and_tokens_are_swept(stores: Stores) -> None:
    topic = await stores.topic()
    entered = []
    for number, state in enumerate((State.PENDING, State.REMOVED, State.CONFIRMED, State.PENDING)):
        expires_ms = 0 if state is State.CONFIRMED else 10 + number
        draft = subscription(topic, f"https://e/{number}", state=state, expires_ms=expires_ms)
        await stores.subscriptions.create(draft, Token(f"a{number}", draft.arn, 10 + number))
        entered.append(draft)
    told: list[str] = []
    stores.subscriptions.changed.append(told.append)
    assert await stores.subscriptions.sweep(9, 10) == 0
    assert await stores.subscriptions.sweep(11, 10) == 4
    assert set(told) == {entered[0].arn, entered[1].arn}
    assert await stores.counts(topic) == (1, 1, 0)
    assert await stores.subscriptions.count_pending(ACCOUNT) == 1
    assert await stores.subscriptions.find_token("a1") is None
    assert await stores.subscriptions.find_token("a2") is not None
    assert await stores.subscriptions.sweep(1_000, 1) == 1
    assert await stores.subscriptions.sweep(1_000, 10) == 2
    assert await stores.subscriptions.sweep(1_000, 10) == 0
    assert [one.state for one in await stores.subscriptions.page_of_topic(topic.arn, "", 9)] == [State.CONFIRMED]


async def test_tokens_outlive_their_subscription(stores: Stores) -> None:
    topic = await stores.topic()
    draft = subscription(topic)
    await stores.subscriptions.create(draft, Token("ab", draft.arn, 10))
    await stores.subscriptions.remove(draft.arn)
    assert await stores.subscriptions.find_token("ab") == Token("ab", draft.arn, 10)


async def test_no_token_is_stored_for_a_subscription_that_was_there(stores: Stores) -> None:
    topic = await stores.topic()
    await stores.enter(topic)
    again = subscription(topic)
    await stores.subscriptions.create(again, Token("ab", again.arn, 10))
    assert await stores.subscriptions.find_token("ab") is None


async def test_changes_of_subscriptions_are_told(stores: Stores) -> None:
    topic = await stores.topic()
    told: list[str] = []
    stores.subscriptions.changed.append(told.append)
    entered = await stores.enter(topic)
    await stores.subscriptions.replace(replace(entered, version=2), 1, None)
    await stores.subscriptions.remove(entered.arn)
    assert told == [entered.arn] * 3


# -- notifications ----------------------------------------------------------------------------------------------------

NOTIFICATION = Notification(
    id="n",
    topic_arn="arn:aws:sns:eu-west-1:111111111111:t",
    timestamp_ms=5,
    texts={"default": "text ☎"},
    attributes={"b": ("String", "2"), "a": ("Number", "1")},
)


async def test_a_notification_stays_while_it_is_referred_to(stores: Stores) -> None:
    await stores.notifications.put(NOTIFICATION, 1, 100)
    assert await stores.notifications.get("n") == NOTIFICATION
    await stores.notifications.refer("n", 3)
    await stores.notifications.refer("n", -3)
    assert await stores.notifications.get("n") == NOTIFICATION
    await stores.notifications.refer("n", -1)
    assert await stores.notifications.get("n") is None
    await stores.notifications.refer("n", -1)


async def test_a_repeated_put_only_adds_references(stores: Stores) -> None:
    await stores.notifications.put(NOTIFICATION, 1, 100)
    await stores.notifications.put(NOTIFICATION, 1, 100)
    await stores.notifications.refer("n", -1)
    assert await stores.notifications.get("n") == NOTIFICATION


async def test_what_was_left_over_is_swept(stores: Stores) -> None:
    for number in range(3):
        await stores.notifications.put(replace(NOTIFICATION, id=str(number)), 1, 100 + number)
    assert await stores.notifications.sweep(99, 10) == 0
    assert await stores.notifications.sweep(101, 1) == 1
    assert await stores.notifications.sweep(101, 10) == 1
    assert await stores.notifications.get("2") is not None


# -- on disk ----------------------------------------------------------------------------------------------------------


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    async with open_stores("embedded", tmp_path) as stores:
        topic = await stores.topic()
        entered = await stores.enter(topic)
        await stores.notifications.put(NOTIFICATION, 1, 100)
    async with open_stores("embedded", tmp_path) as stores:
        assert await stores.topics.get(topic.arn) == topic
        assert await stores.subscriptions.get([entered.arn]) == [entered]
        assert await stores.notifications.get("n") == NOTIFICATION
        assert await stores.counts(topic) == (0, 1, 0)


def steps_of(database: Database, statement: str) -> list[str]:
    """What SQLite plans to do for it."""
    bindings = (0,) if "?1" in statement else (0,) * statement.count("?")
    return [str(row[-1]) for row in database.connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)]


async def test_no_statement_scans_a_table(tmp_path: Path) -> None:
    """So each takes about the same time at any number of rows."""
    database = Database(tmp_path, Clock())
    database.create(schema.TABLES)
    statements = {
        name: text
        for name, text in vars(schema).items()
        if not name.startswith("_") and isinstance(text, str) and text.startswith(("SELECT", "UPDATE", "DELETE"))
    }
    scanning = {
        name
        for name, statement in statements.items()
        if any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in steps_of(database, statement))
    }
    assert len(statements) > 20
    assert scanning == {"FIND_DROPPED", "SWEEPABLE"}  # they look whether there is any deleted topic
    database.start(asyncio.get_running_loop())
    await database.close()
