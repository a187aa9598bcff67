"""ArchivePolicy, ReplayPolicy and related attributes through the API: accepted and returned values, and errors."""

from __future__ import annotations

import json

import pytest

from cns.delivery.envelope import timestamp_text
from cns_common.durations import DAY_MS
from tests.integration.sns.cns_support import ACCOUNT, Rig, invalid, queue_arn
from tests.marks import case

spec = pytest.mark.spec
MONTH = '{"MessageRetentionPeriod":30}'
DIFFERENT = invalid("Attributes Reason: Subscription already exists with different attributes")


@pytest.fixture(params=["t", "t.fifo"])
def name(request: pytest.FixtureRequest) -> str:
    """A standard topic (archives there are our extension), and a FIFO topic."""
    return str(request.param)


async def archiving_topic(rig: Rig, name: str = "t", policy: str = MONTH) -> str:
    return await rig.topic(name, ArchivePolicy=policy, **_kind(name))


def _kind(name: str) -> dict[str, str]:
    return {"FifoTopic": "true"} if name.endswith(".fifo") else {}


async def shown(rig: Rig, topic: str) -> dict[str, str]:
    attributes: dict[str, str] = (await rig("GetTopicAttributes", TopicArn=topic))["Attributes"]
    return {key: text for key, text in attributes.items() if key in ("ArchivePolicy", "BeginningArchiveTime")}


def window(rig: Rig, start_ms: int = 0, **more: str) -> str:
    """A replay's policy that begins so long after now."""
    start = timestamp_text(rig.clock.now_ms() + start_ms)
    return json.dumps({"PointType": "Timestamp", "StartingPoint": start, **more})


# -- archives ---------------------------------------------------------------------------------------------------------


@spec("archive.policy", "archive.beginning", "archive.fifo-only")
async def test_an_archive_is_shown_with_its_beginning(rig: Rig, name: str) -> None:
    topic = await rig.topic(name, **_kind(name))
    assert await shown(rig, topic) == {}
    before = timestamp_text(rig.clock.now_ms())
    policy = '{ "MessageRetentionPeriod" : "7" }'
    await rig.set(topic, "ArchivePolicy", policy)
    first = await shown(rig, topic)
    assert first["ArchivePolicy"] == policy
    assert before <= first["BeginningArchiveTime"] <= timestamp_text(rig.clock.now_ms())
    await rig.set(topic, "ArchivePolicy", MONTH)
    assert (await shown(rig, topic))["BeginningArchiveTime"] == first["BeginningArchiveTime"]
    rig.clock.advance(31 * DAY_MS)
    beginning = (await shown(rig, topic))["BeginningArchiveTime"]
    assert first["BeginningArchiveTime"] < beginning <= timestamp_text(rig.clock.now_ms() - 30 * DAY_MS)


@spec("archive.off", "archive.off-deletes")
@pytest.mark.parametrize("off", ["{}", ""])
async def test_an_archive_switched_off_and_on_begins_anew(rig: Rig, name: str, off: str) -> None:
    topic = await archiving_topic(rig, name)
    first = await shown(rig, topic)
    await rig.set(topic, "ArchivePolicy", off)
    assert await shown(rig, topic) == {}
    rig.clock.advance(10)
    await rig.set(topic, "ArchivePolicy", MONTH)
    assert (await shown(rig, topic))["BeginningArchiveTime"] > first["BeginningArchiveTime"]


@spec("archive.create-again")
@pytest.mark.parametrize("policy", [MONTH, '{"MessageRetentionPeriod":7}', "{}"])
async def test_creating_again_with_an_archive_policy_is_refused(rig: Rig, name: str, policy: str) -> None:
    topic = await archiving_topic(rig, name)
    assert await rig.topic(name, **_kind(name)) == topic
    assert await rig.refusal("CreateTopic", Name=name, Attributes={"ArchivePolicy": policy, **_kind(name)}) == invalid(
        "Attributes Reason: Topic already exists with different attributes"
    )
    await rig.set(topic, "ArchivePolicy", "{}")
    assert await archiving_topic(rig, name, "{}") == topic


@spec("archive.topic-not-deleted", "sns-error.InvalidState")
async def test_a_topic_with_an_archive_is_not_deleted(rig: Rig, name: str) -> None:
    topic = await archiving_topic(rig, name)
    text = "Invalid state: Cannot delete a topic with an ArchivePolicy"
    assert await rig.refusal("DeleteTopic", TopicArn=topic) == ("InvalidState", text)
    assert (await shown(rig, topic))["ArchivePolicy"] == MONTH
    await rig.set(topic, "ArchivePolicy", "{}")
    await rig("DeleteTopic", TopicArn=topic)


# -- replays ----------------------------------------------------------------------------------------------------------


async def replay_of(rig: Rig, subscription: str) -> dict[str, str]:
    attributes = await rig.attributes(subscription)
    return {key: text for key, text in attributes.items() if key in ("ReplayPolicy", "ReplayStatus")}


@spec("replay.policy", "replay.pending")
async def test_a_replay_is_returned_until_it_is_removed(rig: Rig, name: str) -> None:
    arn = await rig.queue_subscription(await archiving_topic(rig, name), name.replace("t", "q"))
    assert await replay_of(rig, arn) == {}
    policy = window(rig)
    await rig.set(arn, "ReplayPolicy", policy)
    assert await replay_of(rig, arn) == {"ReplayPolicy": policy, "ReplayStatus": "Pending"}
    for _ in range(2):
        await rig.set(arn, "ReplayPolicy", "")
        assert await replay_of(rig, arn) == {}


@spec("replay.at-subscribe")
async def test_a_replay_policy_at_subscribe(rig: Rig) -> None:
    topic, policy = await archiving_topic(rig), window(rig)
    arn = await rig.queue_subscription(topic, ReplayPolicy=policy)
    assert (await replay_of(rig, arn))["ReplayStatus"] == "Pending"
    assert await rig.queue_subscription(topic, ReplayPolicy=policy) == arn
    assert await rig.queue_subscription(topic) == arn
    for other in (window(rig, EndingPoint="2100-01-01T00:00:00Z"), ""):
        assert await rig.refused_subscribe(topic, queue_arn(ACCOUNT), ReplayPolicy=other) == DIFFERENT
    assert len(await rig.replays.active()) == 1


@pytest.mark.parametrize("start_ms", [case("replay.too-early", -1_000), case("replay.too-late", 60_000)])
async def test_a_window_outside_the_archive(rig: Rig, start_ms: int) -> None:
    complaint = "ReplayPolicy: Invalid StartingPoint value"
    topic = await archiving_topic(rig)
    arn, policy = await rig.queue_subscription(topic), window(rig, start_ms)
    assert await rig.refused_set(arn, "ReplayPolicy", policy) == invalid(complaint)
    refusal = await rig.refused_subscribe(topic, queue_arn(ACCOUNT, "another"), ReplayPolicy=policy)
    assert refusal == invalid(f"Attributes Reason: {complaint}")
    assert len(await rig.listed(topic)) == 1


@spec("archive.retention", "replay.too-early")
async def test_archived_messages_expire(rig: Rig) -> None:
    arn = await rig.queue_subscription(await archiving_topic(rig))
    rig.clock.advance(31 * DAY_MS)
    too_early = invalid("ReplayPolicy: Invalid StartingPoint value")
    assert await rig.refused_set(arn, "ReplayPolicy", window(rig, 1_000 - 31 * DAY_MS)) == too_early
    await rig.set(arn, "ReplayPolicy", window(rig, 60_000 - 30 * DAY_MS))


@spec("replay.no-archive")
async def test_a_topic_without_archive_has_no_replays(rig: Rig) -> None:
    arn = await rig.queue_subscription(await rig.topic())
    await rig.set(arn, "ReplayPolicy", "")
    refusal = invalid("ReplayPolicy: Topic does not have an ArchivePolicy")
    assert await rig.refused_set(arn, "ReplayPolicy", window(rig)) == refusal


@spec("replay.most", "sns-error.ReplayLimitExceeded")
async def test_ten_replays_of_a_topic_at_once(rig: Rig) -> None:
    topic, policy = await archiving_topic(rig, "t.fifo"), window(rig)
    arns = [await rig.queue_subscription(topic, f"q{number}.fifo") for number in range(11)]
    for arn in arns[:10] * 2:  # a second time it is no other replay
        await rig.set(arn, "ReplayPolicy", policy)
    text = "The request has exceeded the maximum number of concurrent message replays."
    assert await rig.refused_set(arns[10], "ReplayPolicy", policy) == ("ReplayLimitExceeded", text)
    await rig.set(arns[0], "ReplayPolicy", "")
    await rig.set(arns[10], "ReplayPolicy", policy)


async def test_a_replay_is_deleted_with_its_subscription_or_topic(rig: Rig) -> None:
    topic = await archiving_topic(rig)
    one, _ = [await rig.queue_subscription(topic, queue, ReplayPolicy=window(rig)) for queue in "ab"]
    await rig("Unsubscribe", SubscriptionArn=one)
    assert len(await rig.replays.active()) == 1
    await rig.set(topic, "ArchivePolicy", "{}")
    await rig("DeleteTopic", TopicArn=topic)
    assert await rig.replays.of_topic(topic) == await rig.replays.active() == []
