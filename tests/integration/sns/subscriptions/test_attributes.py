"""Attributes of subscriptions through the API: refused values, and the error texts of both calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.limits import Quotas
from cns_common.clock import Clock
from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, Rig, invalid, open_rig, queue_arn


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, Clock(), Quotas()) as rig:
        yield rig


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        pytest.param(
            "RawMessageDelivery",
            "x",
            "RawMessageDelivery: Invalid value [x]. Must be true or false.",
            marks=pytest.mark.spec("subscription-attr.raw"),
        ),
        pytest.param(
            "RedrivePolicy",
            '{"deadLetterTargetArn":"fake"}',
            "RedrivePolicy: deadLetterTargetArn is an invalid arn",
            marks=pytest.mark.spec("subscription-attr.redrive-arn"),
        ),
        pytest.param(
            "RedrivePolicy",
            "{}",
            "RedrivePolicy: Missing deadLetterTargetArn attribute",
            marks=pytest.mark.spec("subscription-attr.redrive-arn"),
        ),
        *(
            pytest.param(
                "RedrivePolicy",
                f'{{"deadLetterTargetArn":"{arn}"}}',
                f"RedrivePolicy: deadLetterTargetArn must be {complaint}",
                marks=pytest.mark.spec("subscription-attr.redrive-arn"),
            )
            for arn, complaint in (
                (f"arn:aws:sns:{REGION}:{ACCOUNT}:t", "a SQS queue"),
                (f"arn:aws:sqs:mars-1:{ACCOUNT}:q", "in the same region as the subscription"),
            )
        ),
        pytest.param(
            "RedrivePolicy",
            f'{{"deadLetterTargetArn":"{queue_arn(ACCOUNT)}","maxReceiveCount":5}}',
            "RedrivePolicy: invalid JSON. Attribute maxReceiveCount is unknown.",
            marks=pytest.mark.spec("subscription-attr.redrive-arn"),
        ),
        pytest.param(
            "RedrivePolicy",
            "{invalidjson}",
            "RedrivePolicy: failed to parse JSON. Unexpected character ('i' (code 105)): was expecting double-quote to "
            "start field name\n at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: "
            "1, column: 2]",
            marks=pytest.mark.spec("subscription-attr.redrive-json"),
        ),
        pytest.param("Owner", OTHER, "AttributeName", marks=pytest.mark.spec("subscription-attr.read-only")),
        pytest.param(
            "ReplayStatus", "Completed", "AttributeName", marks=pytest.mark.spec("subscription-attr.read-only")
        ),
        pytest.param("fake", "1", "AttributeName", marks=pytest.mark.spec("subscription-attr.read-only")),
    ],
)
@pytest.mark.spec("subscription-attr.prefix")
async def test_attributes_are_refused_at_both_calls(rig: Rig, name: str, text: str, complaint: str) -> None:
    topic = await rig.topic()
    params = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT)}
    assert await rig.refusal("Subscribe", **params, Attributes={name: text}) == invalid(
        f"Attributes Reason: {complaint}"
    )
    arn = await rig.queue_subscription(topic)
    members = {"SubscriptionArn": arn, "AttributeName": name, "AttributeValue": text}
    assert await rig.refusal("SetSubscriptionAttributes", **members) == invalid(complaint)


@pytest.mark.spec("subscription-attr.raw")
async def test_raw_delivery_is_off_unless_it_is_set(rig: Rig) -> None:
    arn = await rig.queue_subscription(await rig.topic())
    assert (await rig.attributes(arn))["RawMessageDelivery"] == "false"
    members = {"SubscriptionArn": arn, "AttributeName": "RawMessageDelivery", "AttributeValue": "TRUE"}
    await rig("SetSubscriptionAttributes", **members)
    assert (await rig.attributes(arn))["RawMessageDelivery"] == "true"


@pytest.mark.spec("subscription-attr.redrive-fifo")
@pytest.mark.parametrize(
    ("queue", "dead", "complaint"),
    [
        ("q.fifo", "d.fifo", ""),
        ("q", "d", ""),
        ("q.fifo", "d", "must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic."),
        ("q", "d.fifo", "must use a Standard queue as DLQ for a Standard Subscription to a FIFO Topic."),
    ],
)
async def test_dead_letters_of_a_fifo_topic(rig: Rig, queue: str, dead: str, complaint: str) -> None:
    topic = await rig.topic("t.fifo", FifoTopic="true")
    policy = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": queue_arn(ACCOUNT, dead)})}
    if not complaint:
        arn = await rig.queue_subscription(topic, queue, **policy)
        assert dead in (await rig.attributes(arn))["RedrivePolicy"]
        return
    params = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT, queue)}
    assert await rig.refusal("Subscribe", **params, Attributes=policy) == invalid(
        f"Attributes Reason: RedrivePolicy: {complaint}"
    )
    arn = await rig.queue_subscription(topic, queue)
    assert await rig.refusal(
        "SetSubscriptionAttributes",
        SubscriptionArn=arn,
        AttributeName="RedrivePolicy",
        AttributeValue=policy["RedrivePolicy"],
    ) == invalid(f"RedrivePolicy: {complaint}")
