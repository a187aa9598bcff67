"""Delivery policies of topics and subscriptions through botocore: refused and effective ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.sns.cns_support import ACCOUNT, queue_arn
from tests.integration.sns.sns_door import SnsDoor, invalid

spec = pytest.mark.spec
URL = "https://example.com/hook"
RETRY = {"minDelayTarget": 1, "maxDelayTarget": 20, "numRetries": 3}
TEXT, JSON, HTML = "text/plain", "application/json", "text/html"


def rule(name: str) -> pytest.MarkDecorator:
    return spec(f"sns-policy-http.{name}")


def retry_policy(**changes: Any) -> dict[str, Any]:
    """A valid retry policy with some members changed. None removes a member."""
    return {name: value for name, value in (RETRY | changes).items() if value is not None}


def topic_policy(retry: dict[str, Any]) -> str:
    return json.dumps({"http": {"defaultHealthyRetryPolicy": retry}})


def subscription_policy(retry: dict[str, Any]) -> str:
    return json.dumps({"healthyRetryPolicy": retry})


async def effective_policy(sns: SnsDoor, subscription: str) -> dict[str, Any]:
    attributes = (await sns("GetSubscriptionAttributes", SubscriptionArn=subscription))["Attributes"]
    policy: dict[str, Any] = json.loads(attributes["EffectiveDeliveryPolicy"])
    return policy


@rule("prefix")
async def test_a_retry_policy_is_refused_by_each_call(sns: SnsDoor) -> None:
    topic = await sns.topic()
    retry, complaint = retry_policy(numRetries=101), ".numRetries must be less than or equal to 100"
    text = f"DeliveryPolicy: http.defaultHealthyRetryPolicy{complaint}"
    change = {"AttributeName": "DeliveryPolicy", "AttributeValue": topic_policy(retry)}
    await sns.refuses(invalid(text), "SetTopicAttributes", TopicArn=topic, **change)
    at_creation = invalid(f"Attributes Reason: {text}")
    await sns.refuses(at_creation, "CreateTopic", Name="new", Attributes={"DeliveryPolicy": topic_policy(retry)})

    text = f"DeliveryPolicy: healthyRetryPolicy{complaint}"
    arn, _ = await sns.rig.confirmed(topic)
    change = {"AttributeName": "DeliveryPolicy", "AttributeValue": subscription_policy(retry)}
    await sns.refuses(invalid(text), "SetSubscriptionAttributes", SubscriptionArn=arn, **change)
    members = {"TopicArn": topic, "Protocol": "https", "Endpoint": URL + "/new"}
    at_creation = invalid(f"Attributes Reason: {text}")
    await sns.refuses(at_creation, "Subscribe", **members, Attributes={"DeliveryPolicy": subscription_policy(retry)})


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
    topic = await sns.topic(DeliveryPolicy=topic_policy(retry_policy(numRetries=7)))
    arn, _ = await sns.rig.confirmed(topic)
    change = {"SubscriptionArn": arn, "AttributeName": "DeliveryPolicy"}

    async def retries() -> int:
        number: int = (await effective_policy(sns, arn))["healthyRetryPolicy"]["numRetries"]
        return number

    assert await retries() == 7
    await sns("SetSubscriptionAttributes", **change, AttributeValue=subscription_policy(retry_policy(numRetries=9)))
    assert await retries() == 9
    closed = {"defaultHealthyRetryPolicy": retry_policy(numRetries=7), "disableSubscriptionOverrides": True}
    await sns.set(topic, "DeliveryPolicy", json.dumps({"http": closed}))
    assert await retries() == 7
    await sns.set(topic, "DeliveryPolicy", "")
    assert await retries() == 9
    await sns("SetSubscriptionAttributes", **change, AttributeValue="")
    assert await retries() == 3


@rule("other-protocols")
async def test_queues_have_none(sns: SnsDoor) -> None:
    topic = await sns.topic()
    policy = subscription_policy(RETRY)
    complaint = "DeliveryPolicy: can only be set for HTTP and HTTPS subscriptions"
    members = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT)}
    at_creation = invalid(f"Attributes Reason: {complaint}")
    await sns.refuses(at_creation, "Subscribe", **members, Attributes={"DeliveryPolicy": policy})
    arn = await sns.rig.queue_subscription(topic)
    change = {"SubscriptionArn": arn, "AttributeName": "DeliveryPolicy", "AttributeValue": policy}
    await sns.refuses(invalid(complaint), "SetSubscriptionAttributes", **change)
