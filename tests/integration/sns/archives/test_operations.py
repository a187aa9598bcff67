"""ArchivePolicy, ReplayPolicy and related attributes through the API: accepted and returned values, and errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.delivery.envelope import timestamp_text
from cns.limits import Quotas
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from tests.integration.sns.cns_support import ACCOUNT, Rig, invalid, open_rig, queue_arn
from tests.marks import case

MONTH = '{"MessageRetentionPeriod":30}'


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, Clock(), Quotas(topic_replays=2)) as rig:
        yield rig


@pytest.fixture(params=["t", "t.fifo"])
def name(request: pytest.FixtureRequest) -> str:
    """A standard topic (archives there are our extension), and a FIFO topic."""
    return str(request.param)


async def archiving_topic(rig: Rig, name: str) -> str:
    return await rig.topic(name, ArchivePolicy=MONTH, **_kind(name))


def _kind(name: str) -> dict[str, str]:
    return {"FifoTopic": "true"} if name.endswith(".fifo") else {}


async def set_topic(rig: Rig, topic: str, policy: str) -> None:
    await rig("SetTopicAttributes", TopicArn=topic, AttributeName="ArchivePolicy", AttributeValue=policy)


async def shown(rig: Rig, topic: str) -> dict[str, str]:
    attributes: dict[str, str] = (await rig("GetTopicAttributes", TopicArn=topic))["Attributes"]
    return {key: text for key, text in attributes.items() if key in ("ArchivePolicy", "BeginningArchiveTime")}


def window(rig: Rig, start_ms: int = 0, **more: str) -> str:
    start = timestamp_text(rig.clock.now_ms() + start_ms)
    return json.dumps({"PointType": "Timestamp", "StartingPoint": start, **more})


# -- archives ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("archive.policy", "archive.beginning", "archive.fifo-only")
async def test_an_archive_is_shown_with_its_beginning(rig: Rig, name: str) -> None:
    topic = await rig.topic(name, **_kind(name))
    assert await shown(rig, topic) == {}
    before = timestamp_text(rig.clock.now_ms())
    policy = '{ "MessageRetentionPeriod" : "7" }'
    await set_topic(rig, topic, policy)
    first = await shown(rig, topic)
    assert first["ArchivePolicy"] == policy
    assert before <= first["BeginningArchiveTime"] <= timestamp_text(rig.clock.now_ms())
    await set_topic(rig, topic, MONTH)
    assert (await shown(rig, topic))["BeginningArchiveTime"] == first["BeginningArchiveTime"]
    rig.clock.advance(31 * DAY_MS)
    beginning = (await shown(rig, topic))["BeginningArchiveTime"]
    assert first["BeginningArchiveTime"] < beginning <= timestamp_text(rig.clock.now_ms() - 30 * DAY_MS)


@pytest.mark.spec("archive.off", "archive.off-deletes")
@pytest.mark.parametrize("off", ["{}", ""])
async def test_an_archive_switched_off_and_on_begins_anew(rig: Rig, name: str, off: str) -> None:
    topic = await archiving_topic(rig, name)
    first = await shown(rig, topic)
    await set_topic(rig, topic, off)
    assert await shown(rig, topic) == {}
    rig.clock.advance(10)
    await set_topic(rig, topic, MONTH)
    assert (await shown(rig, topic))["BeginningArchiveTime"] > first["BeginningArchiveTime"]


@pytest.mark.spec("archive.create-again")
@pytest.mark.parametrize("policy", [MONTH, '{"MessageRetentionPeriod":7}', "{}"])
async def test_creating_again_with_an_archive_policy_is_refused(rig: Rig, name: str, policy: str) -> None:
    topic = await archiving_topic(rig, name)
    assert await rig.topic(name, **_kind(name)) == topic
    assert await rig.refusal("CreateTopic", Name=name, Attributes={"ArchivePolicy": policy, **_kind(name)}) == invalid(
        "Attributes Reason: Topic already exists with different attributes"
    )
    await set_topic(rig, topic, "{}")
    assert await rig.topic(name, **{"ArchivePolicy": "{}", **_kind(name)}) == topic


# -- replays ----------------------------------------------------------------------------------------------------------


async def set_replay(rig: Rig, subscription: str, policy: str) -> None:
    change = {"AttributeName": "ReplayPolicy", "AttributeValue": policy}
    await rig("SetSubscriptionAttributes", SubscriptionArn=subscription, **change)


async def refused(rig: Rig, subscription: str, policy: str) -> tuple[str, str]:
    change = {"AttributeName": "ReplayPolicy", "AttributeValue": policy}
    return await rig.refusal("SetSubscriptionAttributes", SubscriptionArn=subscription, **change)


async def replay_of(rig: Rig, subscription: str) -> dict[str, str]:
    attributes = await rig.attributes(subscription)
    return {key: text for key, text in attributes.items() if key in ("ReplayPolicy", "ReplayStatus")}


@pytest.mark.spec("replay.policy", "replay.pending")
async def test_a_replay_is_returned_until_it_is_removed(rig: Rig, name: str) -> None:
    arn = await rig.queue_subscription(await archiving_topic(rig, name), "q.fifo" if name.endswith(".fifo") else "q")
    assert await replay_of(rig, arn) == {}
    policy = window(rig)
    await set_replay(rig, arn, policy)
    assert await replay_of(rig, arn) == {"ReplayPolicy": policy, "ReplayStatus": "Pending"}
    await set_replay(rig, arn, "")
    await set_replay(rig, arn, "")
    assert await replay_of(rig, arn) == {}


@pytest.mark.spec("replay.at-subscribe")
async def test_a_replay_policy_at_subscribe(rig: Rig) -> None:
    topic = await archiving_topic(rig, "t")
    policy = window(rig)
    arn = await rig.queue_subscription(topic, ReplayPolicy=policy)
    assert (await replay_of(rig, arn))["ReplayStatus"] == "Pending"
    assert await rig.queue_subscription(topic, ReplayPolicy=policy) == arn
    assert await rig.queue_subscription(topic) == arn
    assert len(await rig.replays.active()) == 1
    for other in (window(rig, EndingPoint="2100-01-01T00:00:00Z"), ""):
        members = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT)}
        assert await rig.refusal("Subscribe", **members, Attributes={"ReplayPolicy": other}) == invalid(
            "Attributes Reason: Subscription already exists with different attributes"
        )
    assert len(await rig.replays.active()) == 1


@pytest.mark.parametrize(
    "start_ms",
    [
        case("replay.too-early", -1_000),
        case("replay.too-late", 60_000),
    ],
)
async def test_a_window_outside_the_archive(rig: Rig, start_ms: int) -> None:
    complaint = "Invalid StartingPoint value"
    topic = await archiving_topic(rig, "t")
    arn = await rig.queue_subscription(topic)
    assert await refused(rig, arn, window(rig, start_ms)) == invalid(f"ReplayPolicy: {complaint}")
    members = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT, "another")}
    assert await rig.refusal("Subscribe", **members, Attributes={"ReplayPolicy": window(rig, start_ms)}) == invalid(
        f"Attributes Reason: ReplayPolicy: {complaint}"
    )
    assert len(await rig.listed(topic)) == 1


@pytest.mark.spec("replay.no-archive")
async def test_a_topic_without_archive_has_no_replays(rig: Rig) -> None:
    arn = await rig.queue_subscription(await rig.topic())
    await set_replay(rig, arn, "")
    assert await refused(rig, arn, window(rig)) == invalid("ReplayPolicy: Topic does not have an ArchivePolicy")


async def test_a_replay_is_deleted_with_its_subscription(rig: Rig) -> None:
    arn = await rig.queue_subscription(await archiving_topic(rig, "t"))
    await set_replay(rig, arn, window(rig))
    await rig("Unsubscribe", SubscriptionArn=arn)
    assert await rig.replays.active() == []


async def test_replays_are_deleted_with_their_topic(rig: Rig) -> None:
    topic = await rig.topic(ArchivePolicy=json.dumps({"MessageRetentionPeriod": 1}))
    subscription = await rig.queue_subscription(topic)
    start = timestamp_text(rig.clock.now_ms())
    policy = json.dumps({"PointType": "Timestamp", "StartingPoint": start})
    await rig(
        "SetSubscriptionAttributes", SubscriptionArn=subscription, AttributeName="ReplayPolicy", AttributeValue=policy
    )
    assert await rig.replays.of_topic(topic)
    await rig("SetTopicAttributes", TopicArn=topic, AttributeName="ArchivePolicy", AttributeValue="{}")
    await rig("DeleteTopic", TopicArn=topic)
    assert await rig.replays.of_topic(topic) == []
    assert await rig.replays.active() == []
