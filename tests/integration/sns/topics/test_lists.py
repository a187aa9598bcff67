"""Lists of topics and subscriptions through botocore: pages, tokens and members."""

from __future__ import annotations

import json

import pytest

from tests.integration.sns.cns_support import ACCOUNT, call, queue_arn
from tests.integration.sns.sns_door import STRANGER, SnsDoor, invalid

spec = pytest.mark.spec


@spec("sns-topic.list", "sns-list.page", "sns-list.token", "sns-list.first")
async def test_topics_come_in_pages(sns: SnsDoor) -> None:
    arns = {await sns.topic(f"t{number}") for number in range(101)}
    await sns("CreateTopic", STRANGER, Name="other")
    await sns.rig.by(call(ACCOUNT, "us-east-1"), "CreateTopic", Name="elsewhere")
    first = await sns("ListTopics")
    assert await sns("ListTopics", NextToken="") == first
    rest = await sns("ListTopics", NextToken=first["NextToken"])
    pages = [[topic["TopicArn"] for topic in page["Topics"]] for page in (first, rest)]
    assert [len(page) for page in pages] == [100, 1]
    assert {*pages[0], *pages[1]} == arns
    assert "NextToken" not in rest


@spec("sns-list.page", "sns-list.token", "sns-list.pending")
@pytest.mark.parametrize("action", ["ListSubscriptions", "ListSubscriptionsByTopic"])
async def test_subscriptions_come_in_pages(sns: SnsDoor, topic: str, action: str) -> None:
    for number in range(101):
        await sns.rig.queue_subscription(topic, f"q{number}")
    await sns.rig.pending(topic)
    members = {"TopicArn": topic} if action == "ListSubscriptionsByTopic" else {}
    first = await sns(action, **members)
    rest = await sns(action, **members, NextToken=first["NextToken"])
    assert [len(page["Subscriptions"]) for page in (first, rest)] == [100, 2]
    assert "NextToken" not in rest
    arns = [one["SubscriptionArn"] for one in [*first["Subscriptions"], *rest["Subscriptions"]]]
    assert (len(set(arns)), arns.count("PendingConfirmation")) == (102, 1)


@spec("sns-list.bad-token")
@pytest.mark.parametrize("action", ["ListTopics", "ListSubscriptions", "ListSubscriptionsByTopic"])
async def test_invalid_tokens(sns: SnsDoor, action: str) -> None:
    members = {"TopicArn": await sns.topic()} if action == "ListSubscriptionsByTopic" else {}
    await sns.refuses(invalid("NextToken Reason: invalid"), action, **members, NextToken="?")


@spec("sns.order-list-member")
async def test_a_listed_subscription(sns: SnsDoor, topic: str) -> None:
    arn = await sns.rig.queue_subscription(topic)
    for action, members in (("ListSubscriptions", {}), ("ListSubscriptionsByTopic", {"TopicArn": topic})):
        reply = await sns.reply(action, **members)
        (member,) = reply.xml().findall(f"{action}Result/Subscriptions/member")
        assert [(element.tag, element.text) for element in member] == [
            ("Owner", ACCOUNT),
            ("Protocol", "sqs"),
            ("Endpoint", queue_arn(ACCOUNT)),
            ("SubscriptionArn", arn),
            ("TopicArn", topic),
        ]


@spec("sns.order-subscription")
async def test_the_attributes_of_a_subscription(sns: SnsDoor) -> None:
    given = {
        "RawMessageDelivery": "true",
        "FilterPolicy": json.dumps({"a": ["b"]}),
        "DeliveryPolicy": json.dumps({"throttlePolicy": {"maxReceivesPerSecond": 9}}),
    }
    arn, _ = await sns.rig.confirmed(await sns.topic(), **given)
    reply = await sns.reply("GetSubscriptionAttributes", SubscriptionArn=arn)
    assert reply.texts("GetSubscriptionAttributesResult/Attributes/entry/key") == [
        "SubscriptionPrincipal",
        "Owner",
        "RawMessageDelivery",
        "FilterPolicy",
        "TopicArn",
        "Endpoint",
        "EffectiveDeliveryPolicy",
        "DeliveryPolicy",
        "FilterPolicyScope",
        "Protocol",
        "PendingConfirmation",
        "ConfirmationWasAuthenticated",
        "SubscriptionArn",
    ]
