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
PERIOD = "MessageRetentionPeriod value is invalid"
MISSING = "JSON is missing required fields"


async def fifo(sns: SnsDoor, **attributes: str) -> str:
    return await sns.topic("t.fifo", FifoTopic="true", **attributes)


@spec("archive.policy")
@pytest.mark.parametrize("days", ["1", "365", '"30"'])
async def test_periods(sns: SnsDoor, days: str) -> None:
    topic = await fifo(sns, ArchivePolicy=f'{{"MessageRetentionPeriod": {days}}}')
    assert (await sns.attributes(topic))["ArchivePolicy"] == f'{{"MessageRetentionPeriod": {days}}}'


@spec("archive.refused")
@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        *((f'{{"MessageRetentionPeriod":{days}}}', PERIOD) for days in ("0", "366", "-1", '"x"', '""')),
        ('{"Days":5}', MISSING),
        ("x", "Unable to parse JSON"),
    ],
)
async def test_policies_refused(sns: SnsDoor, policy: str, complaint: str) -> None:
    at_creation = invalid(f"Attributes Reason: ArchivePolicy: {complaint}")
    members = {"FifoTopic": "true", "ArchivePolicy": policy}
    await sns.refuses(at_creation, "CreateTopic", Name="t.fifo", Attributes=members)
    change = {"AttributeName": "ArchivePolicy", "AttributeValue": policy}
    at_set = invalid(f"ArchivePolicy: {complaint}")
    await sns.refuses(at_set, "SetTopicAttributes", TopicArn=await fifo(sns), **change)


@spec("archive.beginning", "archive.off")
async def test_the_beginning_of_an_archive_is_returned(sns: SnsDoor) -> None:
    topic = await fifo(sns)
    assert "BeginningArchiveTime" not in await sns.attributes(topic)
    await sns.set(topic, "ArchivePolicy", MONTH)
    shown = await sns.attributes(topic)
    assert shown["BeginningArchiveTime"] <= timestamp_text(sns.rig.clock.now_ms())
    await sns.set(topic, "ArchivePolicy", "{}")
    assert {"ArchivePolicy", "BeginningArchiveTime"}.isdisjoint(await sns.attributes(topic))


@spec("archive.topic-not-deleted", "sns-error.InvalidState")
async def test_a_topic_with_an_archive_is_not_deleted(sns: SnsDoor) -> None:
    topic = await fifo(sns, ArchivePolicy=MONTH)
    text = "Invalid state: Cannot delete a topic with an ArchivePolicy"
    await sns.refuses(Refusal(400, "InvalidState", text), "DeleteTopic", TopicArn=topic)
    assert (await sns.attributes(topic))["ArchivePolicy"] == MONTH


@spec("replay.form")
@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ("x", "Unable to parse JSON"),
        ("[]", MISSING),
        ('{"PointType":"Offset","StartingPoint":"2026-01-01T00:00:00Z"}', "Invalid PointType"),
        ('{"PointType":"Timestamp"}', MISSING),
        ('{"PointType":"Timestamp","StartingPoint":"yesterday"}', "Invalid StartingPoint value"),
        (
            '{"PointType":"Timestamp","StartingPoint":"2026-01-01T00:00:00Z","EndingPoint":"x"}',
            "Invalid EndingPoint value",
        ),
        (
            '{"PointType":"Timestamp","StartingPoint":"2026-01-01T00:00:00Z","EndingPoint":"2026-01-01T00:00:00Z"}',
            "Invalid EndingPoint value",
        ),
    ],
)
async def test_replays_refused(sns: SnsDoor, policy: str, complaint: str) -> None:
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
    for change in changes[:10]:
        await sns("SetSubscriptionAttributes", **change)
    text = "The request has exceeded the maximum number of concurrent message replays."
    full = Refusal(403, "ReplayLimitExceeded", text)
    await sns.refuses(full, "SetSubscriptionAttributes", **changes[10])


def since(start_ms: int) -> str:
    return json.dumps({"PointType": "Timestamp", "StartingPoint": timestamp_text(start_ms)})
