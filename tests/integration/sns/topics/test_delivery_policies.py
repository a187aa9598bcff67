"""Delivery policies of topics and subscriptions through botocore: refused and effective ones."""

from __future__ import annotations

import json

import pytest

from tests.integration.sns.sns_door import SnsDoor

spec = pytest.mark.spec
URL = "https://example.com/hook"
RETRY = {"minDelayTarget": 1, "maxDelayTarget": 20, "numRetries": 3}
TEXT, JSON, HTML = "text/plain", "application/json", "text/html"


def rule(name: str) -> pytest.MarkDecorator:
    return spec(f"sns-policy-http.{name}")


@rule("subscription-form")
@rule("phase-defaults")
@rule("sickly")
@rule("throttle")
async def test_how_a_policy_is_shown(sns: SnsDoor) -> None:
    own = {"healthyRetryPolicy": RETRY, "sicklyRetryPolicy": RETRY, "throttlePolicy": {"maxReceivesPerSecond": 9}}
    arn, _ = await sns.rig.confirmed(await sns.topic(), DeliveryPolicy=json.dumps(own))
    attributes = (await sns("GetSubscriptionAttributes", SubscriptionArn=arn))["Attributes"]
    assert attributes["EffectiveDeliveryPolicy"] == (
        '{"healthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":20,"numRetries":3,"numMaxDelayRetries":0,'
        '"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},"sicklyRetryPolicy":null,'
        '"throttlePolicy":{"maxReceivesPerSecond":9},"requestPolicy":{"headerContentType":"text/plain; charset=UTF-8"},'
        '"guaranteed":false}'
    )


@rule("inherits")
@rule("overrides")
@rule("removed")
async def test_which_policy_is_in_effect(sns: SnsDoor) -> None:
    seven = {"defaultHealthyRetryPolicy": {**RETRY, "numRetries": 7}}
    topic = await sns.topic(DeliveryPolicy=json.dumps({"http": seven}))
    arn, _ = await sns.rig.confirmed(topic)

    async def retries() -> int:
        attributes = (await sns("GetSubscriptionAttributes", SubscriptionArn=arn))["Attributes"]
        return int(json.loads(attributes["EffectiveDeliveryPolicy"])["healthyRetryPolicy"]["numRetries"])

    assert await retries() == 7
    await sns.set(arn, "DeliveryPolicy", json.dumps({"healthyRetryPolicy": {**RETRY, "numRetries": 9}}))
    assert await retries() == 9
    await sns.set(topic, "DeliveryPolicy", json.dumps({"http": {**seven, "disableSubscriptionOverrides": True}}))
    assert await retries() == 7
    await sns.set(topic, "DeliveryPolicy", "")
    assert await retries() == 9
    await sns.set(arn, "DeliveryPolicy", "")
    assert await retries() == 3
    await sns.set(topic, "DeliveryPolicy", json.dumps({"http": seven}))
    await sns("DeleteTopic", TopicArn=topic)
    assert await retries() == 3
