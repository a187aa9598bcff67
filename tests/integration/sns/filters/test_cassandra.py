"""Filters in the stores in Cassandra: changes while publishing, and crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cns.publishing.matching import SubscriptionMatcher
from cns.stores.cassandra import CassandraSubscriptionStore, filter_log
from cns.stores.cassandra.records import IndexedSubscription, SubscriptionRecords
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from tests.integration.sns.filters.test_matching import BLUE, RED, matched, matcher_for, notification_of
from tests.integration.sns.stores.cns_stores import Stores, change, subscription
from tests.recorded_events import RecordedEvents

Step = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture
def stores(cassandra_stores: Stores) -> Stores:
    return cassandra_stores


def run_before(target: Any, name: str, before: Step) -> None:
    """Run a step just before the next call of a method."""
    method = getattr(target, name)

    async def call_after_step(*arguments: Any) -> Any:
        setattr(target, name, method)
        await before()
        return await method(*arguments)

    setattr(target, name, call_after_step)


def matcher_elsewhere(session: Cassandra) -> SubscriptionMatcher:
    """The matcher of another process."""
    return SubscriptionMatcher(CassandraSubscriptionStore(session), Clock(), RecordedEvents())


async def fail_write() -> None:
    raise StoreUnavailable("the writer died")


async def load_filters(stores: Stores, topic: Topic, *matchers: SubscriptionMatcher) -> None:
    """Load the topic's filters into the matchers' caches."""
    await stores.enter(topic, "https://other/", attributes=BLUE)
    for matcher in matchers:
        assert await matched(matcher, topic, "red") == []


# -- changes between the reads of a publish ---------------------------------------------------------------------------


async def test_a_filter_added_between_the_reads_is_applied(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic)
    reader = CassandraSubscriptionStore(session)
    matcher = SubscriptionMatcher(reader, Clock(), RecordedEvents())

    async def set_filter() -> None:
        await change(stores, one, attributes=RED)

    run_before(reader._topic_index, "ids", set_filter)
    assert await matched(matcher, topic, "red") == [one.id]
    assert await matched(matcher, topic, "blue") == []


async def test_newly_filtered_subscriptions_are_in_one_page_each(stores: Stores) -> None:
    """Their ids are still among the unfiltered ones, and fill the pages read there."""
    topic = await stores.topic()
    entered = [await stores.enter(topic, f"https://e/{number}") for number in range(8)]
    *others, plain, last = sorted(entered, key=lambda one: one.id)
    for one in others:
        await change(stores, one, attributes=BLUE)
    await change(stores, last, attributes=RED)
    for n in (1, 2, 4):
        assert await matched(matcher_for(stores), topic, "red", n) == [plain.id, last.id]
        assert await matched(matcher_for(stores), topic, "blue", n) == [one.id for one in (*others, plain)]


async def test_a_filter_removed_between_the_reads_is_not_applied(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    reader = CassandraSubscriptionStore(session)
    matcher = SubscriptionMatcher(reader, Clock(), RecordedEvents())

    async def remove_filter() -> None:
        await change(stores, one, attributes={})

    assert await matched(matcher, topic, "red") == [one.id]
    run_before(reader._topic_index, "ids", remove_filter)
    assert await matched(matcher, topic, "red") == [one.id]
    assert await matched(matcher, topic, "none") == [one.id]


async def test_a_change_seen_by_another_publish_is_not_hidden(stores: Stores, session: Cassandra) -> None:
    """The first publish has read the ids when the second learns that a filtered subscription became unfiltered."""
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    reader = CassandraSubscriptionStore(session)
    matcher = SubscriptionMatcher(reader, Clock(), RecordedEvents())
    assert await matched(matcher, topic, "red") == [one.id]
    audience = reader.audience

    async def slow(*arguments: Any) -> Any:
        reader.audience = audience  # type: ignore[method-assign]
        answer = await audience(*arguments)
        await change(stores, one, attributes={})
        assert await matched(matcher, topic, "blue") == [one.id]
        return answer

    reader.audience = slow  # type: ignore[assignment, method-assign]
    assert await matched(matcher, topic, "blue") == [one.id]


async def test_publishes_while_filters_change_reach_exactly_the_matches(stores: Stores, session: Cassandra) -> None:
    """Half of the subscriptions change between states that accept red, the others between states that do not."""
    topic = await stores.topic()
    reds = [await stores.enter(topic, f"https://r/{number}") for number in range(3)]
    blues = [await stores.enter(topic, f"https://b/{number}", attributes=BLUE) for number in range(3)]
    matchers = [matcher_for(stores), matcher_elsewhere(session)]
    done = False

    async def change_repeatedly(one: Subscription, forms: list[dict[str, Any]]) -> None:
        for number in range(12):
            one = await change(stores, one, **forms[number % len(forms)])

    async def publish(matcher: SubscriptionMatcher) -> int:
        published = 0
        while not done:
            found = await matched(matcher, topic, "red", 2)
            assert found == sorted(one.id for one in reds)
            published += 1
        return published

    wide = {"FilterPolicy": '{"colour":["red","green"]}'}
    publishing = [asyncio.create_task(publish(matcher)) for matcher in matchers for _ in range(2)]
    await asyncio.gather(
        *[change_repeatedly(one, [{"attributes": RED}, {"attributes": wide}, {"attributes": {}}]) for one in reds],
        *[
            change_repeatedly(
                one,
                [
                    {"state": SubscriptionState.REMOVED, "expires_ms": 10**15},
                    {"state": SubscriptionState.CONFIRMED, "expires_ms": 0},
                    {"attributes": {"FilterPolicy": '{"colour":["green"]}'}},
                ],
            )
            for one in blues
        ],
    )
    done = True
    assert min(await asyncio.gather(*publishing)) > 0


# -- crashes ----------------------------------------------------------------------------------------------------------


async def test_a_logged_change_applies_when_its_record_is_written(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    known, fresh = matcher_for(stores), matcher_elsewhere(session)
    assert await matched(known, topic, "red") == [one.id]

    async def check_matches() -> None:
        for matcher in (known, fresh):
            assert await matched(matcher, topic, "red") == [one.id]
            assert await matched(matcher, topic, "blue") == []

    run_before(stores.subscriptions._records, "replace", check_matches)  # type: ignore[attr-defined]
    await change(stores, one, attributes=BLUE)
    for matcher in (known, fresh):
        assert await matched(matcher, topic, "red") == []
        assert await matched(matcher, topic, "blue") == [one.id]


async def test_a_change_that_was_only_logged_has_no_effect(stores: Stores) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    matcher = matcher_for(stores)
    assert await matched(matcher, topic, "red") == [one.id]
    run_before(stores.subscriptions._records, "replace", fail_write)  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable):
        await change(stores, one, attributes={})
    for each in (matcher, matcher_for(stores)):
        assert await matched(each, topic, "red") == [one.id]
        assert await matched(each, topic, "blue") == []
    await change(stores, one, attributes=BLUE)
    assert await matched(matcher, topic, "blue") == [one.id]


async def test_a_stale_index_entry_does_not_count(stores: Stores) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic)
    two = await stores.enter(topic, "https://e/2", attributes=RED)
    index = stores.subscriptions._topic_index  # type: ignore[attr-defined]
    for before, attributes in ((one, RED), (two, {})):
        run_before(index, "remove_other_states", fail_write)
        with pytest.raises(StoreUnavailable):
            await change(stores, before, attributes=attributes)
    for matcher in (matcher_for(stores), matcher_for(stores)):
        assert await matched(matcher, topic, "red") == sorted([one.id, two.id])
        assert await matched(matcher, topic, "blue") == [two.id]


async def test_an_incomplete_filtered_subscription_is_completed(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    matcher = matcher_for(stores)
    await load_filters(stores, topic, matcher)
    incomplete = subscription(topic, attributes=RED)
    records = SubscriptionRecords(session)
    await records.insert(IndexedSubscription(incomplete, 0))
    assert await records.claim(incomplete) is None
    assert await matched(matcher, topic, "red") == []
    assert await stores.enter(topic, attributes=RED) == incomplete
    assert await matched(matcher, topic, "red") == [incomplete.id]


async def test_a_change_whose_log_entry_was_overwritten_applies(
    stores: Stores, session: Cassandra, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log entry is overwritten before its record changes, and a reader starts in between."""
    monkeypatch.setattr(filter_log, "RING_ENTRIES", 4)
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    two = await stores.enter(topic, "https://e/2", attributes=BLUE)
    fresh = matcher_elsewhere(session)

    async def overflow_log() -> None:
        nonlocal two
        for _ in range(5):
            two = await change(stores, two, attributes=RED)
            two = await change(stores, two, attributes=BLUE)
        assert await matched(fresh, topic, "red") == [one.id]

    run_before(stores.subscriptions._records, "replace", overflow_log)  # type: ignore[attr-defined]
    await change(stores, one, attributes=BLUE)
    assert await matched(fresh, topic, "red") == []


async def test_concurrent_changes_of_a_process_share_log_entries(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    drafts = [subscription(topic, f"https://e/{number}", attributes=RED) for number in range(40)]
    await asyncio.gather(*[stores.subscriptions.create(draft, None) for draft in drafts])
    answer = await stores.subscriptions.audience(topic.arn, "", 9, f"{topic.id}:0")
    assert {each.id for each in answer.changes} == {draft.id for draft in drafts}
    assert int(answer.log.partition(":")[2]) < 20
    page = await matcher_for(stores).page(topic.arn, notification_of("red"), "", 100)
    assert len(page.arns) == 40


async def test_two_processes_log_concurrently(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    both = (stores.subscriptions, CassandraSubscriptionStore(session))
    drafts = [subscription(topic, f"https://e/{number}", attributes=RED) for number in range(20)]
    matcher = matcher_for(stores)
    assert await matched(matcher, topic, "red") == []
    await asyncio.gather(*[both[number % 2].create(draft, None) for number, draft in enumerate(drafts)])
    assert await matched(matcher, topic, "red") == sorted(draft.id for draft in drafts)
