"""Matching notifications with filters, over every driver of the subscription store."""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import Any

import pytest
from msgspec.structs import replace

from cns.notification import Notification
from cns.publishing.filter_changes import Audience
from cns.publishing.matching import SubscriptionMatcher
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from lab.harness.waiting import PATIENCE_S
from tests.integration.sns.stores.cns_stores import NOTIFICATION, Stores, change, subscription
from tests.recorded_events import RecordedEvents

RED = {"FilterPolicy": '{"colour":["red"]}'}
RED_TOO = {"FilterPolicy": '{"colour":["red","pink"]}'}
BLUE = {"FilterPolicy": '{"colour":["blue"]}'}
FAR_MS = 10**15


def matcher_for(stores: Stores, filters_held_max: int = 100) -> SubscriptionMatcher:
    """A process's matcher over these stores."""
    return SubscriptionMatcher(stores.subscriptions, Clock(), RecordedEvents(), filters_held_max)


def notification_of(colour: str) -> Notification:
    return replace(NOTIFICATION, attributes={"colour": ("String", colour)})


async def matched(matcher: SubscriptionMatcher, topic: Topic, colour: str, n: int = 100) -> list[str]:
    """The ids of the matches, of all pages."""
    notification = notification_of(colour)
    page = await matcher.page(topic.arn, notification, "", n)
    arns = list(page.arns)
    while page.cursor:
        page = await matcher.page(topic.arn, notification, page.cursor, n)
        arns += page.arns
    assert arns == sorted(set(arns))
    return [arn.rpartition(":")[2] for arn in arns]


async def test_filtered_and_unfiltered_matches_come_in_the_order_of_ids(stores: Stores) -> None:
    topic = await stores.topic()
    entered = [
        await stores.enter(topic, f"https://e/{number}", attributes=({}, RED, BLUE)[number % 3]) for number in range(15)
    ]
    wanted = sorted(one.id for one in entered if one.attributes != BLUE)
    matcher = matcher_for(stores)
    for n in (1, 5, 12, 100):
        assert await matched(matcher, topic, "red", n) == wanted
    assert await matched(matcher_for(stores), topic, "none") == sorted(one.id for one in entered if not one.attributes)


async def test_few_matches_of_many_filters_are_in_the_first_page(stores: Stores) -> None:
    topic = await stores.topic()
    many = [
        subscription(topic, f"https://e/{number}", attributes=RED if number % 30 == 0 else BLUE)
        for number in range(240)
    ]
    for start in range(0, len(many), 40):
        await asyncio.gather(*[stores.subscriptions.create(one, None) for one in many[start : start + 40]])
    page = await matcher_for(stores).page(topic.arn, notification_of("red"), "", 100)
    assert len(page.arns) == 8
    assert page.cursor == ""


async def test_a_change_takes_effect_at_the_next_publish(stores: Stores) -> None:
    topic = await stores.topic()
    matcher, other = matcher_for(stores), matcher_for(stores)

    async def who(colour: str) -> list[str]:
        found = await matched(matcher, topic, colour)
        assert await matched(other, topic, colour) == found
        return found

    one = await stores.enter(topic)
    assert await who("red") == [one.id]
    one = await change(stores, one, attributes=RED)
    assert (await who("red"), await who("blue")) == ([one.id], [])
    one = await change(stores, one, attributes=BLUE)
    assert (await who("red"), await who("blue")) == ([], [one.id])
    one = await change(stores, one, attributes={})
    assert (await who("red"), await who("blue")) == ([one.id], [one.id])
    one = await change(stores, one, attributes=RED)
    two = await stores.enter(topic, "https://e/2", attributes=RED, state=SubscriptionState.PENDING, expires_ms=FAR_MS)
    assert await who("red") == [one.id]
    two = await change(stores, two, state=SubscriptionState.CONFIRMED, expires_ms=0)
    assert await who("red") == sorted([one.id, two.id])
    one = await change(stores, one, state=SubscriptionState.REMOVED, expires_ms=FAR_MS)
    assert (await who("red"), await who("blue")) == ([two.id], [])
    one = await change(stores, one, state=SubscriptionState.CONFIRMED, expires_ms=0)
    assert await who("red") == sorted([one.id, two.id])
    await stores.subscriptions.remove(one.arn)
    assert await who("red") == [two.id]
    await stores.topics.delete(topic.arn)
    assert await who("red") == []
    topic = await stores.topic()
    three = await stores.enter(topic, "https://e/2", attributes=BLUE)
    assert (await who("red"), await who("blue")) == ([], [three.id])


async def test_a_matcher_behind_the_log_reads_all_filters_again(stores: Stores) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    matcher = matcher_for(stores)
    assert await matched(matcher, topic, "red") == [one.id]
    place = (await stores.subscriptions.audience(topic.arn, "", 9, "")).log
    for number in range(2, 1_100):
        one = await change(stores, one, attributes=(RED, BLUE)[number % 2])
        if number % 50 == 0 and (await stores.subscriptions.audience(topic.arn, "", 9, place)).reload_all:
            break
    else:
        pytest.fail("the log is without end")
    two = await stores.enter(topic, "https://e/2", attributes=RED)
    wanted = [two.id, one.id] if one.attributes == RED else [two.id]
    assert await matched(matcher, topic, "red") == sorted(wanted)


async def test_filters_of_topics_are_evicted(stores: Stores) -> None:
    topics = [await stores.topic(name) for name in "abc"]
    entered = [
        [(await stores.enter(topic, f"https://e/{number}", attributes=RED)).id for number in range(3)]
        for topic in topics
    ]
    matcher = matcher_for(stores, 4)
    found = await asyncio.gather(*[matched(matcher, topic, "red", 1) for topic in topics])
    assert found == [sorted(ids) for ids in entered]
    for _ in range(2):
        for topic, ids in zip(topics, entered, strict=True):
            assert await matched(matcher, topic, "red") == sorted(ids)

    async def read(*_: Any) -> list[Subscription]:
        raise StoreUnavailable("read again")

    stores.subscriptions.page_of_filtered = read  # type: ignore[assignment, method-assign]
    assert await matched(matcher, topics[2], "red") == sorted(entered[2])
    with pytest.raises(StoreUnavailable):  # the topic's filters were evicted from the cache
        await matched(matcher, topics[0], "red")


async def test_concurrent_publishes_read_the_filters_once(stores: Stores) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    read = stores.subscriptions.page_of_filtered
    reads = []

    async def count(*arguments: Any) -> list[Subscription]:
        reads.append(arguments)
        return await read(*arguments)

    stores.subscriptions.page_of_filtered = count  # type: ignore[assignment, method-assign]
    matcher = matcher_for(stores)
    found = await asyncio.gather(*[matched(matcher, topic, "red") for _ in range(5)])
    assert found == [[one.id]] * 5
    assert [after for _, after, _ in reads] == ["", one.id]


class ChangingStore:
    """A subscription store in which a filter changes during each read of an audience."""

    def __init__(self, stores: Stores, subscription: Subscription) -> None:
        self._stores = stores
        self._subscription = subscription
        self._attributes = cycle([{}, RED, RED_TOO])
        self.get = stores.subscriptions.get
        self.page_of_filtered = stores.subscriptions.page_of_filtered

    async def audience(self, topic_arn: str, after: str, n: int, since: str) -> Audience:
        found = await self._stores.subscriptions.audience(topic_arn, after, n, since)
        self._subscription = await change(self._stores, self._subscription, attributes=next(self._attributes))
        return found


@pytest.mark.parametrize("n", [1, 100])
async def test_constant_filter_changes_do_not_delay_a_publish(stores: Stores, n: int) -> None:
    """A subscription that matches before and after each change gets every message."""
    topic = await stores.topic()
    entered = [await stores.enter(topic, f"https://e/{number}", attributes=RED) for number in range(4)]
    everything = await stores.enter(topic, "https://e/everything")
    store = ChangingStore(stores, entered[0])
    matcher = SubscriptionMatcher(store, Clock(), RecordedEvents())  # type: ignore[arg-type]  # it needs no other method
    async with asyncio.timeout(PATIENCE_S):  # ends a test that hangs
        for _ in range(4):
            assert await matched(matcher, topic, "red", n) == sorted(one.id for one in [*entered, everything])
