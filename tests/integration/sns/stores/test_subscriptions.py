"""The contract of the subscription store, for every driver."""

from __future__ import annotations

from msgspec.structs import replace

from cns.publishing.matching import SubscriptionMatcher
from cns.subscriptions.subscription import ConfirmationToken, SubscriptionCounts, SubscriptionState
from cns.topics.topic import Topic
from cns_common.clock import Clock
from cns_common.ids import uuid_text
from tests.integration.sns.stores.cns_stores import (
    ACCOUNT,
    NOTIFICATION,
    OTHER,
    REGION,
    Stores,
    subscription,
)
from tests.recorded_events import RecordedEvents


async def test_a_topic_has_one_subscription_for_a_protocol_and_endpoint(stores: Stores) -> None:
    topic = await stores.topic()
    first = await stores.enter(topic)
    assert await stores.enter(topic, owner=OTHER) == first
    assert await stores.enter(topic, protocol="http") != first
    assert await stores.enter(topic, "https://e/2") != first
    assert await stores.enter(await stores.topic("u")) != first
    assert await stores.counts(topic) == (0, 3, 0)


async def test_no_subscription_to_a_deleted_topic(stores: Stores) -> None:
    topic = await stores.topic()
    await stores.topics.delete(topic.arn)
    assert await stores.subscriptions.create(subscription(topic), None) is None
    await stores.topic()
    assert await stores.subscriptions.create(subscription(topic), None) is None


async def test_counts_follow_every_change(stores: Stores) -> None:
    topic = await stores.topic()
    pending = await stores.enter(topic, state=SubscriptionState.PENDING, expires_ms=10)
    assert (await stores.counts(topic), await stores.subscriptions.count_pending(ACCOUNT)) == ((1, 0, 0), 1)
    confirmed = replace(pending, state=SubscriptionState.CONFIRMED, expires_ms=0, version=2)
    assert await stores.subscriptions.replace(confirmed, 1, None)
    assert (await stores.counts(topic), await stores.subscriptions.count_pending(ACCOUNT)) == ((0, 1, 0), 0)
    removed = replace(confirmed, state=SubscriptionState.REMOVED, expires_ms=10, version=3)
    assert await stores.subscriptions.replace(removed, 2, None)
    assert await stores.counts(topic) == (0, 0, 1)
    assert await stores.subscriptions.remove(pending.arn)
    assert await stores.counts(topic) == (0, 0, 0)
    assert not await stores.subscriptions.remove(pending.arn)
    assert await stores.subscriptions.counts("absent") == SubscriptionCounts()


async def test_a_subscription_is_replaced_only_at_its_version(stores: Stores) -> None:
    topic = await stores.topic()
    before = await stores.enter(topic)
    after = replace(before, version=2, attributes={})
    token = ConfirmationToken("ab", before.arn, 10)
    assert not await stores.subscriptions.replace(after, 2, token)
    assert await stores.subscriptions.find_token("ab") is None
    assert await stores.subscriptions.replace(after, 1, token)
    assert await stores.subscriptions.find_token("ab") == token
    assert await stores.subscriptions.get([before.arn]) == [after]
    assert await stores.counts(topic) == (0, 1, 0)


async def test_only_confirmed_subscriptions_are_in_the_audience(stores: Stores) -> None:
    topic = await stores.topic()
    confirmed = [await stores.enter(topic, f"https://e/{number}") for number in range(5)]
    await stores.enter(topic, "https://p/", state=SubscriptionState.PENDING, expires_ms=10)
    await stores.enter(topic, "https://r/", state=SubscriptionState.REMOVED, expires_ms=10)
    ids = sorted(one.id for one in confirmed)
    assert (await stores.subscriptions.audience(topic.arn, "", 2, "")).ids == ids[:2]
    assert (await stores.subscriptions.audience(topic.arn, ids[1], 9, "")).ids == ids[2:]
    assert (await stores.subscriptions.audience(topic.arn, ids[4], 9, "")).ids == []


async def test_pages_of_an_audience(stores: Stores) -> None:
    topic = await stores.topic()
    arns = sorted([(await stores.enter(topic, f"https://e/{number}")).arn for number in range(5)])
    matching = SubscriptionMatcher(stores.subscriptions, Clock(), RecordedEvents())
    pages = [await matching.page(topic.arn, NOTIFICATION, "", 2)]
    while pages[-1].cursor:
        pages.append(await matching.page(topic.arn, NOTIFICATION, pages[-1].cursor, 2))
    assert [list(page.arns) for page in pages] == [arns[:2], arns[2:4], arns[4:]]
    assert (await matching.page(topic.arn, NOTIFICATION, "", 5)).cursor == ""
    assert await matching.pages(topic.arn, [NOTIFICATION] * 3, "", 2) == pages[:1] * 3


async def test_lists_by_topic_and_by_owner(stores: Stores) -> None:
    topic = await stores.topic()
    mine = [await stores.enter(topic, f"https://e/{number}", state=SubscriptionState(number)) for number in range(3)]
    other = await stores.enter(topic, "https://o/", owner=OTHER)
    elsewhere = await stores.topics.create(Topic(id="1", account=OTHER, region="us-east-1", name="y", created_ms=1))
    await stores.enter(elsewhere)
    mine.sort(key=lambda one: one.id)
    everyone = sorted([*mine, other], key=lambda one: one.id)
    assert await stores.subscriptions.page_of_topic(topic.arn, "", 9) == everyone
    assert await stores.subscriptions.page_of_topic(topic.arn, everyone[0].id, 2) == everyone[1:3]
    assert await stores.subscriptions.page_of_owner(ACCOUNT, REGION, "", 2) == mine[:2]
    assert await stores.subscriptions.page_of_owner(ACCOUNT, REGION, mine[1].id, 2) == mine[2:]


async def test_subscriptions_are_found_by_arn(stores: Stores) -> None:
    topic = await stores.topic()
    entered = [await stores.enter(topic, f"https://e/{number}") for number in range(3)]
    wanted = [entered[2].arn, f"{topic.arn}:{uuid_text()}", entered[0].arn, entered[1].arn.replace(":t:", ":u:")]
    assert await stores.subscriptions.get(wanted) == [entered[2], entered[0]]
    assert await stores.subscriptions.get([]) == []


async def test_expired_subscriptions_are_swept(stores: Stores) -> None:
    topic = await stores.topic()
    first = await stores.enter(topic, "https://1/", state=SubscriptionState.PENDING, expires_ms=10)
    later = await stores.enter(topic, "https://2/", state=SubscriptionState.REMOVED, expires_ms=11)
    await stores.enter(topic, "https://3/")
    assert await stores.subscriptions.sweep(9, 10) == 0
    renewed = replace(later, expires_ms=86_400_012, version=2)
    assert await stores.subscriptions.replace(renewed, 1, None)
    assert await stores.subscriptions.sweep(11, 10) == 1
    assert await stores.subscriptions.get([first.arn, later.arn]) == [renewed]
    assert await stores.subscriptions.count_pending(ACCOUNT) == 0
    assert await stores.subscriptions.sweep(86_400_011, 10) == 0
    assert await stores.subscriptions.sweep(86_400_012, 10) == 1
    assert await stores.subscriptions.sweep(86_400_012, 10) == 0
    assert await stores.counts(topic) == (0, 1, 0)
    assert await stores.enter(topic, "https://1/") != first


async def test_expired_subscriptions_and_tokens_are_swept(swept_stores: Stores) -> None:
    stores = swept_stores
    topic = await stores.topic()
    entered = []
    for number, state in enumerate(
        (SubscriptionState.PENDING, SubscriptionState.REMOVED, SubscriptionState.CONFIRMED, SubscriptionState.PENDING)
    ):
        expires_ms = 0 if state is SubscriptionState.CONFIRMED else 10 + number
        draft = subscription(topic, f"https://e/{number}", state=state, expires_ms=expires_ms)
        await stores.subscriptions.create(draft, ConfirmationToken(f"a{number}", draft.arn, 10 + number))
        entered.append(draft)
    changes: list[str] = []
    stores.subscriptions.changed.append(changes.append)
    assert await stores.subscriptions.sweep(9, 10) == 0
    assert await stores.subscriptions.sweep(11, 10) == 4
    assert set(changes) == {entered[0].arn, entered[1].arn}
    assert await stores.counts(topic) == (1, 1, 0)
    assert await stores.subscriptions.count_pending(ACCOUNT) == 1
    assert await stores.subscriptions.find_token("a1") is None
    assert await stores.subscriptions.find_token("a2") is not None
    assert await stores.subscriptions.sweep(1_000, 1) == 1
    assert await stores.subscriptions.sweep(1_000, 10) == 2
    assert await stores.subscriptions.sweep(1_000, 10) == 0
    assert [one.state for one in await stores.subscriptions.page_of_topic(topic.arn, "", 9)] == [
        SubscriptionState.CONFIRMED
    ]


async def test_tokens_outlive_their_subscription(stores: Stores) -> None:
    topic = await stores.topic()
    draft = subscription(topic)
    await stores.subscriptions.create(draft, ConfirmationToken("ab", draft.arn, 10))
    await stores.subscriptions.remove(draft.arn)
    assert await stores.subscriptions.find_token("ab") == ConfirmationToken("ab", draft.arn, 10)


async def test_no_token_is_stored_for_an_existing_subscription(stores: Stores) -> None:
    topic = await stores.topic()
    await stores.enter(topic)
    again = subscription(topic)
    await stores.subscriptions.create(again, ConfirmationToken("ab", again.arn, 10))
    assert await stores.subscriptions.find_token("ab") is None


async def test_changes_of_subscriptions_are_announced(stores: Stores) -> None:
    topic = await stores.topic()
    changes: list[str] = []
    stores.subscriptions.changed.append(changes.append)
    entered = await stores.enter(topic)
    await stores.subscriptions.replace(replace(entered, version=2), 1, None)
    await stores.subscriptions.remove(entered.arn)
    assert changes == [entered.arn] * 3
