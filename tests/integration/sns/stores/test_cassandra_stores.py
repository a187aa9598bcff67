"""The stores in Cassandra beyond their contracts: races between processes, and crashes."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from cns.stores.cassandra import CassandraSubscriptionStore, CassandraTopicStore
from cns.stores.cassandra import schema as cassandra_schema
from cns.stores.cassandra.records import IndexedSubscription, SubscriptionRecords
from cns.stores.cassandra.topic_index import TopicIndex, level_for
from cns.subscriptions.subscription import ConfirmationToken, IndexState, SubscriptionState
from cns.topics.topic import Topic, TopicCounts
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Statement
from cqs.stores.cassandra import schema as queue_schema
from cqs.stores.cassandra.queues import CassandraQueueStore
from lab.harness.keyspace import emptied
from tests.integration.cqs.queues.test_queue_store import queue, queue_with_redrive_policy
from tests.integration.sns.stores.cns_stores import ACCOUNT, NOTIFICATION, REGION, Stores, subscription

FAR_MS = 10**15


@pytest.fixture
def stores(cassandra_stores: Stores) -> Stores:
    return cassandra_stores


# -- two processes ----------------------------------------------------------------------------------------------------


async def test_of_two_topic_creations_one_wins(stores: Stores, session: Cassandra) -> None:
    other = CassandraTopicStore(session)
    drafts = [Topic(id=str(n), account=ACCOUNT, region=REGION, name="t", created_ms=n) for n in range(6)]
    created = await asyncio.gather(*[(stores.topics, other)[n % 2].create(draft) for n, draft in enumerate(drafts)])
    assert len({topic.id for topic in created}) == 1
    assert await other.get(created[0].arn) == created[0]
    assert await other.count(ACCOUNT) == TopicCounts(1, 0)
    assert await other.list_arns(ACCOUNT, REGION, "", 9) == [created[0].arn]


async def test_of_two_subscriptions_of_an_endpoint_one_wins(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    other = CassandraSubscriptionStore(session)
    drafts = [subscription(topic) for _ in range(6)]
    created = await asyncio.gather(
        *[(stores.subscriptions, other)[n % 2].create(draft, None) for n, draft in enumerate(drafts)]
    )
    (winner,) = {one.id for one in created if one is not None}
    assert (await other.audience(topic.arn, "", 9, "")).ids == [winner]
    assert [one.id for one in await other.get([draft.arn for draft in drafts])] == [winner]
    assert await stores.counts(topic) == (0, 1, 0)


async def test_of_two_queue_creations_one_wins(cassandra_address: CassandraAddress, session: Cassandra) -> None:
    async with emptied(cassandra_address) as cassandra:
        both = (CassandraQueueStore(cassandra), CassandraQueueStore(session))
        created = await asyncio.gather(*[both[n % 2].create(queue(queue_id=str(n))) for n in range(6)])
        assert len({one.id for one in created}) == 1
        assert await both[0].list_names(queue().account, queue().region, "", "", 9) == ["q"]


# -- levels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subscriptions", "level"), [(0, 0), (3, 0), (4, 1), (67, 1), (68, 2), (1091, 2), (1092, 3), (10**9, 3)]
)
def test_the_level_of_the_next_subscription(subscriptions: int, level: int) -> None:
    assert level_for(subscriptions, 4) == level


async def test_pages_go_through_all_levels_in_the_order_of_ids(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    entered = sorted([(await stores.enter(topic, f"https://e/{number}")).id for number in range(20)])
    ((topic_id, level),) = await session.run(cassandra_schema.LEVEL_OF_TOPIC, topic.arn)
    assert (topic_id, level) == (topic.id, 2)
    for n in (1, 7, 19, 20, 30):
        pages = [(await stores.subscriptions.audience(topic.arn, "", n, "")).ids]
        while len(pages[-1]) == n:
            pages.append((await stores.subscriptions.audience(topic.arn, pages[-1][-1], n, "")).ids)
        assert [one for page in pages for one in page] == entered
    await stores.topics.delete(topic.arn)
    assert await stores.subscriptions.sweep(0, 1_000) == 21
    assert await session.run_schema("SELECT * FROM topic_subscriptions LIMIT 1") == []
    assert await session.run_schema("SELECT * FROM owner_subscriptions LIMIT 1") == []


# -- crashes ----------------------------------------------------------------------------------------------------------


async def test_an_incomplete_subscription_is_completed(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    halfway = subscription(topic)
    records = SubscriptionRecords(session)
    await records.insert(IndexedSubscription(halfway, 0))
    assert await records.claim(halfway) is None
    assert (await stores.subscriptions.audience(topic.arn, "", 9, "")).ids == []
    assert await stores.enter(topic) == halfway
    assert (await stores.subscriptions.audience(topic.arn, "", 9, "")).ids == [halfway.id]
    assert await stores.subscriptions.page_of_owner(ACCOUNT, REGION, "", 9) == [halfway]


async def test_the_claim_of_a_missing_subscription_is_taken_over(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    gone = await stores.enter(topic)
    await session.run_conditional(cassandra_schema.REMOVE_SUBSCRIPTION, gone.id, 1)
    assert await stores.subscriptions.page_of_topic(topic.arn, "", 9) == []
    assert await stores.subscriptions.page_of_owner(ACCOUNT, REGION, "", 9) == []
    assert (await stores.subscriptions.audience(topic.arn, "", 9, "")).ids == []  # the list removed the entry
    fresh = await stores.enter(topic)
    assert fresh.id != gone.id
    assert await stores.subscriptions.page_of_topic(topic.arn, "", 9) == [fresh]


async def test_a_late_removal_of_a_state_keeps_a_newer_one(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic)
    for version, state in ((2, SubscriptionState.REMOVED), (3, SubscriptionState.CONFIRMED)):
        expires_ms = FAR_MS if state is SubscriptionState.REMOVED else 0
        changed = replace(one, version=version, state=state, expires_ms=expires_ms)
        assert await stores.subscriptions.replace(changed, version - 1, None)
    late = replace(one, version=2, state=SubscriptionState.REMOVED)
    await TopicIndex(session).remove_other_states(late, 0, IndexState.CONFIRMED)
    assert (await stores.subscriptions.audience(topic.arn, "", 9, "")).ids == [one.id]


async def test_an_incomplete_deletion_has_no_effect(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic)
    await session.run(cassandra_schema.MARK_DROPPED, topic.id, topic.arn, 0)
    assert await stores.subscriptions.sweep(0, 9) == 0
    assert await stores.subscriptions.get([one.arn]) == [one]

    queues = CassandraQueueStore(session)
    created = await queues.create(queue())
    await session.run(queue_schema.MARK_UNDROPPED, created.id, msgspec.msgpack.encode(created))
    await queues._delete(queue(queue_id="another"), 1)
    assert await queues.undropped() == [queue(queue_id="another")]
    assert await queues.get(created.key) == created


async def test_lists_skip_dangling_entries(stores: Stores, session: Cassandra) -> None:
    queues = CassandraQueueStore(session)
    for number in range(5):
        await session.run(queue_schema.ENTER_NAME, queue().account, queue().region, f"a{number}", "lost")
        await session.run(
            queue_schema.ENTER_SOURCE,
            queue_with_redrive_policy("x").attributes["RedrivePolicy"][24:-22],
            "b",
            "lost",
            1,
        )
        await session.run(cassandra_schema.ENTER_TOPIC, ACCOUNT, REGION, f"arn:aws:sns:{REGION}:{ACCOUNT}:a", "lost")
    await queues.create(queue("b", "b"))
    topic = await stores.topic("b")
    assert await queues.list_names(queue().account, queue().region, "", "", 1) == ["b"]
    assert await stores.topics.list_arns(ACCOUNT, REGION, "", 1) == [topic.arn]


# -- times to live ----------------------------------------------------------------------------------------------------


async def test_tokens_and_notifications_expire(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    draft = subscription(topic)
    await stores.subscriptions.create(draft, ConfirmationToken("ab", draft.arn, 10))
    await stores.notifications.put(NOTIFICATION, 1, NOTIFICATION.timestamp_ms + 60_000)
    lives = {
        "SELECT TTL(expires_ms) FROM subscription_tokens": 3 * 86_400,
        "SELECT TTL(record) FROM notifications": 60 + 86_400,
        "SELECT TTL(change) FROM notification_references": 60 + 86_400,
    }
    for query, life_s in lives.items():
        ((found_s,),) = await session.run(Statement(query))
        assert life_s - 60 < found_s <= life_s
