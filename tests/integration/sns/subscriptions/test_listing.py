"""Subscriptions in lists and attributes, through the API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.limits import Quotas
from cns_common.clock import Clock
from tests.integration.sns.cns_support import ACCOUNT, Rig, invalid, open_rig, queue_arn

UUID = "6ab180b4-f6c7-4ab5-8747-757d1d466e12"
NO_SUBSCRIPTION = ("NotFound", "Subscription does not exist")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, Clock(), Quotas(pending_subscriptions=300)) as rig:
        yield rig


@pytest.mark.spec("subscription-attr.redrive-removed", "subscription-attr.read-only")
async def test_attributes_are_set_one_by_one(rig: Rig) -> None:
    topic = await rig.topic()
    arn = await rig.queue_subscription(topic)
    redrive = json.dumps({"deadLetterTargetArn": queue_arn(ACCOUNT, "dead")}, separators=(",", ":"))
    changes = {"RawMessageDelivery": "true", "RedrivePolicy": redrive}
    for name, text in changes.items():
        members = {"SubscriptionArn": arn, "AttributeName": name, "AttributeValue": text}
        await rig("SetSubscriptionAttributes", **members)
    assert changes.items() <= (await rig.attributes(arn)).items()
    await rig("SetSubscriptionAttributes", SubscriptionArn=arn, AttributeName="RedrivePolicy", AttributeValue="")
    assert "RedrivePolicy" not in await rig.attributes(arn)
    assert await rig.refusal(
        "SetSubscriptionAttributes", SubscriptionArn=arn, AttributeName="fake", AttributeValue="x"
    ) == invalid("AttributeName")
    absent = f"{topic}:{UUID}"
    assert (
        await rig.refusal("SetSubscriptionAttributes", SubscriptionArn=absent, AttributeName="fake") == NO_SUBSCRIPTION
    )


async def test_the_effective_delivery_policy_of_the_topic(rig: Rig) -> None:
    topic = await rig.topic()
    arn, _ = await rig.confirmed(topic)
    retries = {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 7}
    policy = json.dumps({"http": {"defaultHealthyRetryPolicy": retries}})
    await rig("SetTopicAttributes", TopicArn=topic, AttributeName="DeliveryPolicy", AttributeValue=policy)
    assert '"numRetries":7' in (await rig.attributes(arn))["EffectiveDeliveryPolicy"]
    await rig("DeleteTopic", TopicArn=topic)
    assert '"numRetries":3' in (await rig.attributes(arn))["EffectiveDeliveryPolicy"]


@pytest.mark.spec("subscribing.credentials-masked")
async def test_passwords_are_masked(rig: Rig) -> None:
    topic = await rig.topic()
    arn, _ = await rig.pending(topic, "https://user:secret@example.com/")
    shown = "https://user:****@example.com/"
    assert (await rig.attributes(arn))["Endpoint"] == shown
    for page in (await rig("ListSubscriptions"), await rig("ListSubscriptionsByTopic", TopicArn=topic)):
        assert [member["Endpoint"] for member in page["Subscriptions"]] == [shown]
    (stored,) = await rig.subscriptions.get([arn])
    assert stored.endpoint == "https://user:secret@example.com/"


@pytest.mark.spec("subscription-attr.raw")
async def test_raw_delivery_is_off_unless_it_is_set(rig: Rig) -> None:
    arn = await rig.queue_subscription(await rig.topic())
    assert (await rig.attributes(arn))["RawMessageDelivery"] == "false"
    members = {"SubscriptionArn": arn, "AttributeName": "RawMessageDelivery", "AttributeValue": "TRUE"}
    await rig("SetSubscriptionAttributes", **members)
    assert (await rig.attributes(arn))["RawMessageDelivery"] == "true"
