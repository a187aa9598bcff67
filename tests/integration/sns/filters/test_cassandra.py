"""What the stores in Cassandra promise about filters beyond their contract: changes while publishing, and crashes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from cns.publishing.matching import SubscriptionMatcher
from cns.stores.cassandra import CassandraSubscriptionStore, filter_log
from cns.stores.cassandra.records import IndexedSubscription, SubscriptionRecords
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_common.cassandra.session import Cassandra, CassandraAddress
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from tests.integration.sns.filters.test_matching import BLUE, RED, coloured, matched, matching_of
from tests.integration.sns.stores.cns_stores import Stores, change, open_cassandra, subscription
from tests.recorded_events import RecordedEvents

Step = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture
async def stores(cassandra_address: CassandraAddress) -> AsyncIterator[Stores]:
    async with open_cassandra(cassandra_address) as stores:
        yield stores


@pytest.fixture
async def session(cassandra_address: CassandraAddress) -> AsyncIterator[Cassandra]:
    """Another process's."""
    session = await Cassandra.open(cassandra_address)
    yield session
    await session.close()


def interrupt(target: Any, name: str, before: Step) -> None:
    """Let something happen just before the next call of a method."""
    method = getattr(target, name)

    async def interrupted(*arguments: Any) -> Any:
        setattr(target, name, method)
        await before()
        return await method(*arguments)

    setattr(target, name, interrupted)


async def die() -> None:
    raise StoreUnavailable("the writer died")


async def both_know(stores: Stores, topic: Topic, *matchings: SubscriptionMatcher) -> None:
    """Make them hold the topic's filters."""
    await stores.enter(topic, "https://other/", attributes=BLUE)
    for matching in matchings:
        assert await matched(matching, topic, "red") == []


# -- changes between the reads of a publish ---------------------------------------------------------------------------


async def test_one_that_gets_a_filter_between_the_reads_is_not_missed(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic)
    reader = CassandraSubscriptionStore(session)
    matching = SubscriptionMatcher(reader, Clock(), RecordedEvents())

    async def filter_it() -> None:
        await change(stores, one, attributes=RED)

    interrupt(reader._topic_index, "ids", filter_it)
    assert await matched(matching, topic, "red") == [one.id]
    assert await matched(matching, topic, "blue") == []


async def test_those_that_have_just_got_a_filter_are_in_one_page_each(stores: Stores) -> None:
    """They are among the ids of the others, and fill the pages read of those."""
    topic = await stores.topic()
    entered = [await stores.enter(topic, f"https://e/{number}") for number in range(8)]
    *others, plain, last = sorted(entered, key=lambda one: one.id)
    for one in others:
        await change(stores, one, attributes=BLUE)
    await change(stores, last, attributes=RED)
    for n in (1, 2, 4):
        assert await matched(matching_of(stores), topic, "red", n) == [plain.id, last.id]
        assert await matched(matching_of(stores), topic, "blue", n) == [one.id for one in (*others, plain)]


async def test_one_that_loses_its_filter_between_the_reads_is_not_missed(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    reader = CassandraSubscriptionStore(session)
    matching = SubscriptionMatcher(reader, Clock(), RecordedEvents())

    async def free_it() -> None:
        await change(stores, one, attributes={})

    assert await matched(matching, topic, "red") == [one.id]
    interrupt(reader._topic_index, "ids", free_it)
    assert await matched(matching, topic, "red") == [one.id]
    assert await matched(matching, topic, "none") == [one.id]


async def test_another_publish_that_learns_of_a_change_does_not_hide_it(stores: Stores, session: Cassandra) -> None:
    """The first has read the ids, the second learns that one of the filtered is among them now."""
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    reader = CassandraSubscriptionStore(session)
    matching = SubscriptionMatcher(reader, Clock(), RecordedEvents())
    assert await matched(matching, topic, "red") == [one.id]
    audience = reader.audience

    async def slow(*arguments: Any) -> Any:
        reader.audience = audience  # type: ignore[method-assign]
        answer = await audience(*arguments)
        await change(stores, one, attributes={})
        assert await matched(matching, topic, "blue") == [one.id]
        return answer

    reader.audience = slow  # type: ignore[assignment, method-assign]
    assert await matched(matching, topic, "blue") == [one.id]


async def test_publishes_while_filters_change_miss_nobody_and_reach_nobody_else(
    stores: Stores, session: Cassandra
) -> None:
    """Half of the subscriptions go through all the forms that let red through, the others through those that do not."""
    topic = await stores.topic()
    reds = [await stores.enter(topic, f"https://r/{number}") for number in range(3)]
    blues = [await stores.enter(topic, f"https://b/{number}", attributes=BLUE) for number in range(3)]
    matchings = [
        matching_of(stores),
        SubscriptionMatcher(CassandraSubscriptionStore(session), Clock(), RecordedEvents()),
    ]
    done = False

    async def churn(one: Subscription, forms: list[dict[str, Any]]) -> None:
        for number in range(12):
            one = await change(stores, one, **forms[number % len(forms)])

    async def publish(matching: SubscriptionMatcher) -> int:
        published = 0
        while not done:
            found = await matched(matching, topic, "red", 2)
            assert found == sorted(one.id for one in reds)
            published += 1
        return published

    wide = {"FilterPolicy": '{"colour":["red","green"]}'}
    publishing = [asyncio.create_task(publish(matching)) for matching in matchings for _ in range(2)]
    await asyncio.gather(
        *[churn(one, [{"attributes": RED}, {"attributes": wide}, {"attributes": {}}]) for one in reds],
        *[
            churn(
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


# -- what a crash leaves ----------------------------------------------------------------------------------------------


async def test_a_change_that_was_logged_and_comes_late_is_not_missed(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    known, fresh = (
        matching_of(stores),
        SubscriptionMatcher(CassandraSubscriptionStore(session), Clock(), RecordedEvents()),
    )
    assert await matched(known, topic, "red") == [one.id]

    async def look() -> None:
        for matching in (known, fresh):
            assert await matched(matching, topic, "red") == [one.id]
            assert await matched(matching, topic, "blue") == []

    interrupt(stores.subscriptions._records, "replace", look)  # type: ignore[attr-defined]
    await change(stores, one, attributes=BLUE)
    for matching in (known, fresh):
        assert await matched(matching, topic, "red") == []
        assert await matched(matching, topic, "blue") == [one.id]


async def test_a_change_that_was_only_logged_changes_nothing(stores: Stores) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    matching = matching_of(stores)
    assert await matched(matching, topic, "red") == [one.id]
    interrupt(stores.subscriptions._records, "replace", die)  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable):
        await change(stores, one, attributes={})
    for each in (matching, matching_of(stores)):
        assert await matched(each, topic, "red") == [one.id]
        assert await matched(each, topic, "blue") == []
    await change(stores, one, attributes=BLUE)
    assert await matched(matching, topic, "blue") == [one.id]


async def test_a_change_whose_old_entry_stayed_is_as_its_record_says(stores: Stores) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic)
    two = await stores.enter(topic, "https://e/2", attributes=RED)
    index = stores.subscriptions._topic_index  # type: ignore[attr-defined]
    for before, attributes in ((one, RED), (two, {})):
        interrupt(index, "remove_other_states", die)
        with pytest.raises(StoreUnavailable):
            await change(stores, before, attributes=attributes)
    for matching in (matching_of(stores), matching_of(stores)):
        assert await matched(matching, topic, "red") == sorted([one.id, two.id])
        assert await matched(matching, topic, "blue") == [two.id]


async def test_a_filtered_subscription_that_was_entered_halfway_is_completed(
    stores: Stores, session: Cassandra
) -> None:
    topic = await stores.topic()
    matching = matching_of(stores)
    await both_know(stores, topic, matching)
    halfway = subscription(topic, attributes=RED)
    records = SubscriptionRecords(session)
    await records.insert(IndexedSubscription(halfway, 0))
    assert await records.claim(halfway) is None
    assert await matched(matching, topic, "red") == []
    assert await stores.enter(topic, attributes=RED) == halfway
    assert await matched(matching, topic, "red") == [halfway.id]


async def test_a_writer_that_the_log_has_left_behind_is_heard_of(
    stores: Stores, session: Cassandra, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry is gone from the ring before its record changes, and a reader begins in between."""
    monkeypatch.setattr(filter_log, "RING_ENTRIES", 4)
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    two = await stores.enter(topic, "https://e/2", attributes=BLUE)
    fresh = SubscriptionMatcher(CassandraSubscriptionStore(session), Clock(), RecordedEvents())

    async def overtake() -> None:
        nonlocal two
        for _ in range(5):
            two = await change(stores, two, attributes=RED)
            two = await change(stores, two, attributes=BLUE)
        assert await matched(fresh, topic, "red") == [one.id]

    interrupt(stores.subscriptions._records, "replace", overtake)  # type: ignore[attr-defined]
    await change(stores, one, attributes=BLUE)
    assert await matched(fresh, topic, "red") == []


async def test_changes_of_a_process_at_once_share_entries(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    drafts = [subscription(topic, f"https://e/{number}", attributes=RED) for number in range(40)]
    await asyncio.gather(*[stores.subscriptions.create(draft, None) for draft in drafts])
    answer = await stores.subscriptions.audience(topic.arn, "", 9, f"{topic.id}:0")
    assert {each.id for each in answer.changes} == {draft.id for draft in drafts}
    assert int(answer.log.partition(":")[2]) < 20
    page = await matching_of(stores).page(topic.arn, coloured("red"), "", 100)
    assert len(page.arns) == 40


async def test_two_processes_log_at_once(stores: Stores, session: Cassandra) -> None:
    topic = await stores.topic()
    both = (stores.subscriptions, CassandraSubscriptionStore(session))
    drafts = [subscription(topic, f"https://e/{number}", attributes=RED) for number in range(20)]
    matching = matching_of(stores)
    assert await matched(matching, topic, "red") == []
    await asyncio.gather(*[both[number % 2].create(draft, None) for number, draft in enumerate(drafts)])
    assert await matched(matching, topic, "red") == sorted(draft.id for draft in drafts)
