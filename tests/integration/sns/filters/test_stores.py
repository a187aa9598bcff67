"""The contract of the subscription store about filters, for every driver."""

from __future__ import annotations

from msgspec.structs import replace

from cns.subscriptions.subscription import SubscriptionState
from cns.topics.topic import Topic
from tests.integration.sns.stores.cns_stores import ACCOUNT, OTHER, Stores, change, subscription

RED = {"FilterPolicy": '{"colour":["red"]}'}
BLUE = {"FilterPolicy": '{"colour":["blue"]}'}
FAR_MS = 10**15


async def audience(stores: Stores, topic: Topic) -> tuple[list[str], list[str]]:
    """The ids of unfiltered and of filtered subscriptions."""
    unfiltered = (await stores.subscriptions.audience(topic.arn, "", 99, "")).ids
    return unfiltered, [one.id for one in await stores.subscriptions.page_of_filtered(topic.arn, "", 99)]


async def test_filtered_subscriptions_are_not_among_the_unfiltered(stores: Stores) -> None:
    topic = await stores.topic()
    everything = await stores.enter(topic, "https://e/1")
    red = await stores.enter(topic, "https://e/2", attributes=RED)
    await stores.enter(topic, "https://e/3", attributes=RED, state=SubscriptionState.PENDING, expires_ms=FAR_MS)
    assert await audience(stores, topic) == ([everything.id], [red.id])
    assert (await stores.counts(topic)) == (1, 2, 0)
    assert len(await stores.subscriptions.page_of_topic(topic.arn, "", 9)) == 3


async def test_filter_policies_are_counted_at_every_change(stores: Stores) -> None:
    topic = await stores.topic()

    async def filter_counts() -> tuple[int, int]:
        counts = await stores.subscriptions.counts(topic.arn)
        return counts.filter_policies, await stores.subscriptions.count_filter_policies(ACCOUNT)

    one = await stores.enter(topic, "https://e/1", attributes=RED, state=SubscriptionState.PENDING, expires_ms=10)
    two = await stores.enter(topic, "https://e/2", attributes=RED)
    await stores.enter(topic, "https://e/3", attributes=RED, owner=OTHER)
    assert await filter_counts() == (3, 2)
    two = await change(stores, two, attributes={})
    assert await filter_counts() == (2, 1)
    two = await change(stores, two, attributes=BLUE)
    two = await change(stores, two, attributes=RED)
    assert await filter_counts() == (3, 2)
    assert await stores.subscriptions.sweep(20, 10) == 1
    assert await stores.subscriptions.get([one.arn]) == []
    assert await filter_counts() == (2, 1)
    await stores.subscriptions.remove(two.arn)
    assert await filter_counts() == (1, 0)
    assert await stores.subscriptions.count_filter_policies("000000000000") == 0


async def test_the_log_has_only_changes_of_filters(stores: Stores) -> None:
    topic = await stores.topic()
    everything = await stores.enter(topic, "https://e/1")
    assert (await stores.subscriptions.audience(topic.arn, "", 9, "")).log == ""
    one = await stores.enter(topic, "https://e/2", attributes=RED)
    place = (await stores.subscriptions.audience(topic.arn, "", 9, "")).log

    async def named() -> list[str]:
        nonlocal place
        answer = await stores.subscriptions.audience(topic.arn, "", 9, place)
        assert not answer.reload_all
        assert bool(answer.changes) == (answer.log != place)
        place = answer.log
        return [each.id for each in answer.changes]

    assert await named() == []
    await change(stores, everything, attributes={})
    one = await change(stores, one, attributes={**RED, "RawMessageDelivery": "true"})
    assert await named() == []
    one = await change(stores, one, attributes=BLUE)
    assert await named() == [one.id]
    one = await change(stores, one, attributes={})
    one = await change(stores, one, attributes=RED)
    assert set(await named()) == {one.id}
    one = await change(stores, one, state=SubscriptionState.REMOVED, expires_ms=FAR_MS)
    assert await named() == [one.id]
    one = await change(stores, one, attributes=BLUE)
    assert await named() == []
    one = await change(stores, one, state=SubscriptionState.CONFIRMED, expires_ms=0)
    assert await named() == [one.id]
    await stores.subscriptions.remove(one.arn)
    assert await named() == [one.id]


async def test_a_position_before_the_log_is_reported(stores: Stores) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    place = (await stores.subscriptions.audience(topic.arn, "", 9, "")).log
    await stores.topics.delete(topic.arn)
    again = await stores.topic()
    assert (await stores.subscriptions.audience(topic.arn, "", 9, place)).log == ""
    await stores.enter(again, attributes=RED)
    answer = await stores.subscriptions.audience(topic.arn, "", 9, place)
    assert answer.reload_all
    assert one.id not in (await audience(stores, again))[1]


async def test_a_subscription_is_found_by_topic_protocol_and_endpoint(stores: Stores) -> None:
    topic = await stores.topic()
    one = await stores.enter(topic, attributes=RED)
    assert await stores.subscriptions.find_same_endpoint(subscription(topic)) == one
    assert await stores.subscriptions.find_same_endpoint(subscription(topic, "https://other/")) is None
    assert await stores.subscriptions.find_same_endpoint(subscription(replace(topic, id="another"))) is None
