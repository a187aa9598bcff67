"""Topics through the API: creating, describing, changing, sharing, tagging, listing and deleting them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.limits import Quotas
from cns_common.clock import Clock
from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, Rig, call, invalid, open_rig

NOT_FOUND = ("NotFound", "Topic does not exist")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, Clock(), Quotas(topics=300)) as rig:
        yield rig


def refused(account: str, action: str, resource: str) -> tuple[str, str]:
    return (
        "AuthorizationError",
        f"User: arn:aws:iam::{account}:root is not authorized to perform: SNS:{action} on resource: {resource} "
        f"because no resource-based policy allows the SNS:{action} action",
    )


async def test_creating_again_finds_the_same_topic(rig: Rig) -> None:
    arn = await rig.topic(DisplayName="d")
    assert arn == f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
    assert await rig.topic() == arn
    assert await rig.topic(DisplayName="d", FifoTopic="false") == arn


async def test_creating_again_with_something_else(rig: Rig) -> None:
    tags = [{"Key": "a", "Value": "1"}]
    await rig("CreateTopic", Name="t", Attributes={"DisplayName": "d"}, Tags=tags)
    assert await rig.refusal("CreateTopic", Name="t", Attributes={"DisplayName": "e"}) == invalid(
        "Attributes Reason: Topic already exists with different attributes"
    )
    assert await rig.refusal("CreateTopic", Name="t", Tags=[*tags, {"Key": "b", "Value": "2"}]) == invalid(
        "Tags Reason: Topic already exists with different tags"
    )
    assert await rig("CreateTopic", Name="t", Tags=tags)
    assert await rig("CreateTopic", Name="t", Tags=[])


@pytest.mark.parametrize(
    ("params", "refusal"),
    [
        ({}, invalid("Name Reason: no value for required parameter")),
        ({"Name": "a b"}, invalid("Topic Name")),
        ({"Name": "t", "Attributes": {"Fake": "1"}}, invalid("Attributes Reason: Unknown attribute Fake")),
        (
            {"Name": "t", "DataProtectionPolicy": "{}"},
            invalid("DataProtectionPolicy Reason: Data protection functionality is not supported in this region"),
        ),
        (
            {"Name": "t", "Tags": [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]},
            invalid("Duplicated keys are not allowed."),
        ),
        (
            {"Name": "t", "Tags": [{"Key": str(n), "Value": ""} for n in range(51)]},
            ("TagLimitExceeded", "Could not complete request: tag quota of per resource exceeded"),
        ),
    ],
)
async def test_topics_refused(rig: Rig, params: dict[str, object], refusal: tuple[str, str]) -> None:
    assert await rig.refusal("CreateTopic", **params) == refusal


async def test_topic_quota(tmp_path: Path) -> None:
    async with open_rig(tmp_path, Clock(), Quotas(topics=1)) as rig:
        await rig.topic("a")
        await rig.topic("a")
        assert await rig.refusal("CreateTopic", Name="b") == ("TopicLimitExceeded", "Topic limit exceeded")
        await rig.by(call(OTHER), "CreateTopic", Name="b")
        await rig("DeleteTopic", TopicArn=f"arn:aws:sns:{REGION}:{ACCOUNT}:a")
        await rig.topic("b")


@pytest.mark.parametrize(
    "action",
    ["GetTopicAttributes", "ListSubscriptionsByTopic", "DeleteTopic", "SetTopicAttributes", "RemovePermission"],
)
async def test_arns_are_checked_before_anything(rig: Rig, action: str) -> None:
    rest = {"AttributeName": "DisplayName", "Label": "l"}
    assert await rig.refusal(action, **rest) == invalid("TopicArn Reason: no value for required parameter")
    assert await rig.refusal(action, TopicArn="x", **rest) == invalid(
        "TopicArn Reason: An ARN must have at least 6 elements, not 1"
    )
    elsewhere = f"arn:aws:sns:us-east-1:{ACCOUNT}:t"
    assert await rig.refusal(action, TopicArn=elsewhere, **rest) == invalid("TopicArn")
    absent = f"arn:aws:sns:{REGION}:{ACCOUNT}:absent"
    if action == "DeleteTopic":
        assert await rig(action, TopicArn=absent) == {}
    else:
        assert await rig.refusal(action, TopicArn=absent, **rest) == NOT_FOUND


async def test_attributes_are_set_one_by_one(rig: Rig) -> None:
    arn = await rig.topic()
    for name, text in {"DisplayName": "Ops", "SignatureVersion": "2", "DeliveryPolicy": "{}"}.items():
        await rig("SetTopicAttributes", TopicArn=arn, AttributeName=name, AttributeValue=text)
    described = (await rig("GetTopicAttributes", TopicArn=arn))["Attributes"]
    assert (described["DisplayName"], described["SignatureVersion"], described["DeliveryPolicy"]) == ("Ops", "2", "{}")
    await rig("SetTopicAttributes", TopicArn=arn, AttributeName="DeliveryPolicy", AttributeValue="")
    await rig("SetTopicAttributes", TopicArn=arn, AttributeName="DisplayName")
    described = (await rig("GetTopicAttributes", TopicArn=arn))["Attributes"]
    assert described["DisplayName"] == "" and "DeliveryPolicy" not in described
    assert await rig.refusal("SetTopicAttributes", TopicArn=arn, AttributeName="Owner", AttributeValue="x") == invalid(
        "AttributeName"
    )


async def test_the_counts_of_subscriptions(rig: Rig) -> None:
    topic = await rig.topic()
    await rig.queue_subscription(topic)
    await rig.pending(topic, "https://example.com/1")
    described = (await rig("GetTopicAttributes", TopicArn=topic))["Attributes"]
    counts = [described[f"Subscriptions{state}"] for state in ("Pending", "Confirmed", "Deleted")]
    assert counts == ["1", "1", "0"]


async def test_a_deleted_topic_is_gone_at_once(rig: Rig) -> None:
    topic = await rig.topic(DisplayName="d")
    old = await rig.queue_subscription(topic)
    await rig("DeleteTopic", TopicArn=topic)
    await rig("DeleteTopic", TopicArn=topic)
    assert await rig.refusal("GetTopicAttributes", TopicArn=topic) == NOT_FOUND
    assert await rig.refusal("Publish", TopicArn=topic, Message="m") == NOT_FOUND
    assert (await rig("GetSubscriptionAttributes", SubscriptionArn=old))["Attributes"]["SubscriptionArn"] == old

    assert await rig.topic() == topic
    assert (await rig("GetTopicAttributes", TopicArn=topic))["Attributes"]["DisplayName"] == ""
    assert (await rig("ListSubscriptionsByTopic", TopicArn=topic))["Subscriptions"] == []
    assert await rig.queue_subscription(topic) != old
    await rig.subscriptions.sweep(0, 10)
    assert await rig.refusal("GetSubscriptionAttributes", SubscriptionArn=old) == (
        "NotFound",
        "Subscription does not exist",
    )


async def test_lists_come_in_pages_of_a_hundred(rig: Rig) -> None:
    arns = sorted([await rig.topic(f"t{number}") for number in range(201)])
    await rig.by(call(OTHER), "CreateTopic", Name="other")
    await rig.by(call(ACCOUNT, "us-east-1"), "CreateTopic", Name="elsewhere")
    listed, sizes, token = [], [], ""
    while token is not None:
        page = await rig("ListTopics", NextToken=token)
        listed += [topic["TopicArn"] for topic in page["Topics"]]
        sizes.append(len(page["Topics"]))
        token = page["NextToken"]
    assert (listed, sizes) == (arns, [100, 100, 1])
    assert await rig.refusal("ListTopics", NextToken="?") == invalid("NextToken Reason: invalid")


# -- sharing ----------------------------------------------------------------------------------------------------------


async def test_another_account_needs_a_grant(rig: Rig) -> None:
    topic = await rig.topic()
    other = call(OTHER)
    for action in ("Publish", "GetTopicAttributes", "DeleteTopic", "Subscribe", "ListSubscriptionsByTopic"):
        params = {"Message": "m", "Protocol": "sqs", "Endpoint": f"arn:aws:sqs:{REGION}:{OTHER}:q"}
        assert await rig.refusal(action, other, TopicArn=topic, **params) == refused(OTHER, action, topic)
    await rig(
        "AddPermission", TopicArn=topic, Label="l", AWSAccountId=[OTHER], ActionName=["Publish", "GetTopicAttributes"]
    )
    await rig.by(other, "Publish", TopicArn=topic, Message="m")
    assert (await rig.by(other, "GetTopicAttributes", TopicArn=topic))["Attributes"]["Owner"] == ACCOUNT
    assert await rig.refusal("DeleteTopic", other, TopicArn=topic) == refused(OTHER, "DeleteTopic", topic)
    await rig("RemovePermission", TopicArn=topic, Label="l")
    assert await rig.refusal("Publish", other, TopicArn=topic, Message="m") == refused(OTHER, "Publish", topic)
    await rig("RemovePermission", TopicArn=topic, Label="l")


async def test_permissions_refused(rig: Rig) -> None:
    topic = await rig.topic()
    grant = {"TopicArn": topic, "Label": "l", "AWSAccountId": [OTHER], "ActionName": ["Publish"]}
    await rig("AddPermission", **grant)
    await rig("AddPermission", **grant)
    assert await rig.refusal("AddPermission", **{**grant, "ActionName": ["Subscribe"]}) == invalid(
        "Statement already exists"
    )
    assert await rig.refusal("AddPermission", **{**grant, "Label": "m", "ActionName": ["*"]}) == invalid(
        "Policy statement action out of service scope!"
    )
    assert await rig.refusal("AddPermission", **{**grant, "Label": "m", "AWSAccountId": ["1"]}) == invalid(
        "A provided account ID is not valid"
    )
    assert await rig.refusal("AddPermission", TopicArn=topic, Label="l", AWSAccountId=[OTHER]) == invalid(
        "ActionName Reason: no value for required parameter"
    )


async def test_a_deny_holds_for_the_owner_too(rig: Rig) -> None:
    topic = await rig.topic()
    policy = {"Statement": {"Effect": "Deny", "Principal": "*", "Action": "sns:Publish", "Resource": topic}}
    await rig("SetTopicAttributes", TopicArn=topic, AttributeName="Policy", AttributeValue=json.dumps(policy))
    code, text = await rig.refusal("Publish", TopicArn=topic, Message="m")
    assert (code, text) == (
        "AuthorizationError",
        f"User: arn:aws:iam::{ACCOUNT}:root is not authorized to perform: SNS:Publish on resource: {topic} "
        "with an explicit deny in a resource-based policy",
    )
    await rig.by(call(OTHER, enforced=False), "Publish", TopicArn=topic, Message="m")


async def test_condition_keys_for_protocol_endpoint_and_tags(rig: Rig) -> None:
    topic = await rig.topic()
    await rig("TagResource", ResourceArn=topic, Tags=[{"Key": "team", "Value": "ops"}])
    condition = {
        "StringEquals": {"sns:Protocol": "https", "aws:ResourceTag/team": "ops"},
        "StringLike": {"sns:Endpoint": "https://example.com/*"},
    }
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sns:Subscribe", "Resource": topic}
    policy = json.dumps({"Statement": [{**statement, "Condition": condition}]})
    await rig("SetTopicAttributes", TopicArn=topic, AttributeName="Policy", AttributeValue=policy)
    members = {"TopicArn": topic, "Protocol": "https"}
    await rig.by(call(OTHER), "Subscribe", **members, Endpoint="https://example.com/a")
    assert (await rig.refusal("Subscribe", call(OTHER), **members, Endpoint="https://example.org/a"))[0] == (
        "AuthorizationError"
    )


async def test_without_auth_every_account_is_allowed(rig: Rig) -> None:
    topic = await rig.topic()
    other = call(OTHER, enforced=False)
    await rig.by(other, "Publish", TopicArn=topic, Message="m")
    await rig.by(other, "TagResource", ResourceArn=topic, Tags=[{"Key": "k", "Value": "v"}])
    await rig.by(other, "DeleteTopic", TopicArn=topic)


# -- tags -------------------------------------------------------------------------------------------------------------


async def test_tags(rig: Rig) -> None:
    topic = await rig.topic()
    await rig("TagResource", ResourceArn=topic, Tags=[{"Key": "b", "Value": "1"}, {"Key": "a", "Value": "2"}])
    await rig("TagResource", ResourceArn=topic, Tags=[{"Key": "b", "Value": "3"}])
    assert (await rig("ListTagsForResource", ResourceArn=topic))["Tags"] == [
        {"Key": "b", "Value": "3"},
        {"Key": "a", "Value": "2"},
    ]
    await rig("UntagResource", ResourceArn=topic, TagKeys=["b", "absent"])
    assert (await rig("ListTagsForResource", ResourceArn=topic))["Tags"] == [{"Key": "a", "Value": "2"}]


@pytest.mark.parametrize("action", ["TagResource", "UntagResource", "ListTagsForResource"])
async def test_tags_refused(rig: Rig, action: str) -> None:
    params = {"Tags": [{"Key": "k", "Value": "v"}], "TagKeys": ["k"]}
    absent = f"arn:aws:sns:{REGION}:{ACCOUNT}:absent"
    assert await rig.refusal(action, ResourceArn=absent, **params) == ("ResourceNotFound", "Resource does not exist")
    assert await rig.refusal(action, ResourceArn="x", **params) == invalid(
        "ResourceArn Reason: An ARN must have at least 6 elements, not 1"
    )
    topic = await rig.topic()
    assert await rig.refusal(action, call(OTHER), ResourceArn=topic, **params) == refused(OTHER, action, topic)


# -- races ------------------------------------------------------------------------------------------------------------


async def test_concurrent_changes_are_all_kept(rig: Rig) -> None:
    topic = await rig.topic()
    tags = [{"Key": str(number), "Value": ""} for number in range(10)]
    await asyncio.gather(*[rig("TagResource", ResourceArn=topic, Tags=[tag]) for tag in tags])
    assert len((await rig("ListTagsForResource", ResourceArn=topic))["Tags"]) == 10


async def test_concurrent_creations_make_one_topic(rig: Rig) -> None:
    arns = await asyncio.gather(*[rig.topic() for _ in range(5)])
    assert len(set(arns)) == 1
    assert len((await rig("ListTopics"))["Topics"]) == 1
