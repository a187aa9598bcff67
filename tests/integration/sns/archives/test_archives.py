"""ArchivePolicy and ReplayPolicy on the wire: accepted and returned values, and errors."""

from __future__ import annotations

import json

import pytest

from cns.delivery.envelope import timestamp_text
from cns_common.durations import DAY_MS
from tests.integration.sns.cns_support import ACCOUNT, queue_arn
from tests.integration.sns.sns_door import Refusal, SnsDoor, invalid

spec = pytest.mark.spec
MONTH = '{"MessageRetentionPeriod":30}'


async def fifo(sns: SnsDoor, **attributes: str) -> str:
    return await sns.topic("t.fifo", FifoTopic="true", **attributes)


@spec("archive.policy")
@pytest.mark.parametrize("days", ["1", "365", '"30"'])
async def test_periods(sns: SnsDoor, days: str) -> None:
    topic = await fifo(sns, ArchivePolicy=f'{{"MessageRetentionPeriod": {days}}}')
    assert (await sns.attributes(topic))["ArchivePolicy"] == f'{{"MessageRetentionPeriod": {days}}}'


@spec("archive.refused")
async def test_a_policy_is_refused_by_each_call(sns: SnsDoor) -> None:
    policy, complaint = '{"MessageRetentionPeriod":366}', "MessageRetentionPeriod value is invalid"
    at_creation = invalid(f"Attributes Reason: ArchivePolicy: {complaint}")
    members = {"FifoTopic": "true", "ArchivePolicy": policy}
    await sns.refuses(at_creation, "CreateTopic", Name="t.fifo", Attributes=members)
    change = {"AttributeName": "ArchivePolicy", "AttributeValue": policy}
    at_set = invalid(f"ArchivePolicy: {complaint}")
    await sns.refuses(at_set, "SetTopicAttributes", TopicArn=await fifo(sns), **change)


@spec("archive.topic-not-deleted", "sns-error.InvalidState")
async def test_a_topic_with_an_archive_is_not_deleted(sns: SnsDoor) -> None:
    text = "Invalid state: Cannot delete a topic with an ArchivePolicy"
    for topic in (await fifo(sns, ArchivePolicy=MONTH), await sns.topic(ArchivePolicy=MONTH)):
        await sns.refuses(Refusal(400, "InvalidState", text), "DeleteTopic", TopicArn=topic)
        assert (await sns.attributes(topic))["ArchivePolicy"] == MONTH
        await sns.set(topic, "ArchivePolicy", "{}")
        await sns("DeleteTopic", TopicArn=topic)


@spec("replay.form")
async def test_a_replay_is_refused_by_each_call(sns: SnsDoor) -> None:
    policy, complaint = '{"PointType":"Timestamp"}', "JSON is missing required fields"
    topic = await fifo(sns, ArchivePolicy=MONTH)
    arn = await sns.rig.queue_subscription(topic, "q.fifo")
    change = {"SubscriptionArn": arn, "AttributeName": "ReplayPolicy", "AttributeValue": policy}
    await sns.refuses(invalid(f"ReplayPolicy: {complaint}"), "SetSubscriptionAttributes", **change)
    members = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT, "r.fifo")}
    at_creation = invalid(f"Attributes Reason: ReplayPolicy: {complaint}")
    await sns.refuses(at_creation, "Subscribe", **members, Attributes={"ReplayPolicy": policy})


@spec("archive.retention", "replay.too-early")
async def test_archived_messages_expire(sns: SnsDoor) -> None:
    topic = await fifo(sns, ArchivePolicy=MONTH)
    arn = await sns.rig.queue_subscription(topic, "q.fifo")
    began_ms = sns.rig.clock.now_ms()
    sns.rig.clock.advance(31 * DAY_MS)
    change = {"SubscriptionArn": arn, "AttributeName": "ReplayPolicy", "AttributeValue": since(began_ms + 1_000)}
    too_early = invalid("ReplayPolicy: Invalid StartingPoint value")
    await sns.refuses(too_early, "SetSubscriptionAttributes", **change)
    await sns("SetSubscriptionAttributes", **{**change, "AttributeValue": since(began_ms + DAY_MS + 60_000)})


@spec("replay.most", "sns-error.ReplayLimitExceeded")
async def test_ten_replays_of_a_topic_at_once(sns: SnsDoor) -> None:
    topic = await fifo(sns, ArchivePolicy=MONTH)
    arns = [await sns.rig.queue_subscription(topic, f"q{number}.fifo") for number in range(11)]
    changes = [
        {"SubscriptionArn": arn, "AttributeName": "ReplayPolicy", "AttributeValue": since(sns.rig.clock.now_ms())}
        for arn in arns
    ]
    for change in changes[:10] * 2:  # a second time it is no other replay
        await sns("SetSubscriptionAttributes", **change)
    text = "The request has exceeded the maximum number of concurrent message replays."
    full = Refusal(403, "ReplayLimitExceeded", text)
    await sns.refuses(full, "SetSubscriptionAttributes", **changes[10])
    await sns("SetSubscriptionAttributes", **{**changes[0], "AttributeValue": ""})
    await sns("SetSubscriptionAttributes", **changes[10])


def since(start_ms: int) -> str:
    return json.dumps({"PointType": "Timestamp", "StartingPoint": timestamp_text(start_ms)})
