"""Errors of SNS for missing members, and for ARNs of nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.sns.cns_support import ACCOUNT, REGION
from tests.integration.sns.sns_door import NO_TOPIC, STRANGER, Refusal, SnsDoor, denied, invalid, missing, null
from tests.marks import case

spec = pytest.mark.spec
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
SUBSCRIPTION = f"{TOPIC}:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55"
QUEUE = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
REQUIRED: dict[str, dict[str, Any]] = {
    "AddPermission": {"TopicArn": TOPIC, "Label": "l", "AWSAccountId": [ACCOUNT], "ActionName": ["Publish"]},
    "ConfirmSubscription": {"TopicArn": TOPIC},
    "CreateTopic": {"Name": "t"},
    "DeleteTopic": {"TopicArn": TOPIC},
    "GetDataProtectionPolicy": {"ResourceArn": TOPIC},
    "GetSubscriptionAttributes": {"SubscriptionArn": SUBSCRIPTION},
    "GetTopicAttributes": {"TopicArn": TOPIC},
    "ListSubscriptionsByTopic": {"TopicArn": TOPIC},
    "ListTagsForResource": {"ResourceArn": TOPIC},
    "PublishBatch": {"TopicArn": TOPIC},
    "PutDataProtectionPolicy": {"ResourceArn": TOPIC, "DataProtectionPolicy": "{}"},
    "RemovePermission": {"TopicArn": TOPIC, "Label": "l"},
    "SetSubscriptionAttributes": {"SubscriptionArn": SUBSCRIPTION, "AttributeName": "RawMessageDelivery"},
    "SetTopicAttributes": {"TopicArn": TOPIC, "AttributeName": "DisplayName"},
    "Subscribe": {"TopicArn": TOPIC, "Protocol": "sqs", "Endpoint": QUEUE},
    "TagResource": {"ResourceArn": TOPIC, "Tags": [{"Key": "k", "Value": "v"}]},
    "Unsubscribe": {"SubscriptionArn": SUBSCRIPTION},
    "UntagResource": {"ResourceArn": TOPIC, "TagKeys": ["k"]},
}
"""The members whose absence is an InvalidParameter error, by operation."""
VALIDATED: dict[str, dict[str, Any]] = {
    "ConfirmSubscription": {"Token": "t"},
    "PublishBatch": {"PublishBatchRequestEntries": [{"Id": "a", "Message": "m"}]},
}
"""Members that AWS's framework checks before the service, with an error text of its own."""
ON_TOPICS = [action for action, members in REQUIRED.items() if "TopicArn" in members and action != "DeleteTopic"]


@pytest.mark.parametrize(
    ("action", "name"),
    [
        pytest.param(action, name, marks=spec(f"sns.required-{name}"))
        for action, members in REQUIRED.items()
        for name in members
    ],
)
async def test_required_members(sns: SnsDoor, action: str, name: str) -> None:
    await sns.topic()
    members = {**REQUIRED[action], **VALIDATED.get(action, {})}
    del members[name]
    await sns.refuses(missing(name), action, **members)


BATCH = "publishBatchRequestEntries"
UNTYPED = {"a": {"StringValue": "v"}}


@pytest.mark.parametrize(
    ("action", "members", "path"),
    [
        case(("sns.null-message", "sns-publish.message"), "Publish", {"TopicArn": TOPIC}, "message"),
        case("sns.null-message", "Publish", {}, "message"),
        case("sns.null-token", "ConfirmSubscription", {"TopicArn": TOPIC}, "token"),
        case(
            "sns.null-data-type",
            "Publish",
            {"TopicArn": TOPIC, "Message": "m", "MessageAttributes": UNTYPED},
            "messageAttributes.a.member.dataType",
        ),
        case(
            ("sns.null-entries", "sns-batch.empty"),
            "PublishBatch",
            {"TopicArn": TOPIC, "PublishBatchRequestEntries": []},
            BATCH,
        ),
        case(("sns.null-entries", "sns-batch.empty"), "PublishBatch", {"TopicArn": TOPIC}, BATCH),
        case(
            "sns.null-entry-member",
            "PublishBatch",
            {"TopicArn": TOPIC, "PublishBatchRequestEntries": [{"Id": "a", "Message": "m"}, {"Id": "b"}]},
            f"{BATCH}.2.member.message",
        ),
        case(
            "sns.null-entry-member",
            "PublishBatch",
            {"TopicArn": TOPIC, "PublishBatchRequestEntries": [{"Message": "m"}]},
            f"{BATCH}.1.member.id",
        ),
        case(
            ("sns.null-data-type", "sns-batch.bad-attribute"),
            "PublishBatch",
            {
                "TopicArn": TOPIC,
                "PublishBatchRequestEntries": [{"Id": "a", "Message": "m", "MessageAttributes": UNTYPED}],
            },
            f"{BATCH}.1.member.messageAttributes.a.member.dataType",
        ),
        case(
            "sns.null-tag-member", "TagResource", {"ResourceArn": TOPIC, "Tags": [{"Key": "k"}]}, "tags.1.member.value"
        ),
        case(
            "sns.null-tag-member",
            "CreateTopic",
            {"Name": "t", "Tags": [{"Key": "k", "Value": "v"}, {"Value": "v"}]},
            "tags.2.member.key",
        ),
    ],
)
async def test_members_missed_by_the_framework(sns: SnsDoor, action: str, members: dict[str, Any], path: str) -> None:
    await sns.topic()
    await sns.refuses(null(path), action, **members)


# -- ARNs -------------------------------------------------------------------------------------------------------------


def elements(parameter: str, number: int) -> Refusal:
    return invalid(f"{parameter} Reason: An ARN must have at least 6 elements, not {number}")


@pytest.mark.parametrize(
    "action", [action for action in REQUIRED if action not in ("CreateTopic", "ConfirmSubscription")]
)
@pytest.mark.parametrize(
    ("arn", "number"),
    [
        ("x", 1),
        ("arn:aws:sns:eu-west-1:111111111111", 5),
    ],
)
@spec("sns.arn-parts")
async def test_arns_of_too_few_parts(sns: SnsDoor, action: str, arn: str, number: int) -> None:
    members = REQUIRED[action] | VALIDATED.get(action, {})
    (parameter,) = members.keys() & {"TopicArn", "SubscriptionArn", "ResourceArn"}
    await sns.refuses(elements(parameter, number), action, **{**members, parameter: arn})


@pytest.mark.parametrize("action", [*ON_TOPICS, "Publish"])
@pytest.mark.parametrize(
    "arn",
    [
        case("sns.arn-region", TOPIC.replace(REGION, "us-east-1")),
        case("sns.arn-service", TOPIC.replace(":sns:", ":sqs:")),
    ],
)
async def test_arns_of_elsewhere(sns: SnsDoor, action: str, arn: str) -> None:
    members = REQUIRED.get(action, {"Message": "m"}) | VALIDATED.get(action, {})
    refusal = invalid("Topic" if action == "ConfirmSubscription" else "TopicArn")
    await sns.refuses(refusal, action, **{**members, "TopicArn": arn})


@spec("sns.arn-absent-topic")
@pytest.mark.parametrize("action", [*(action for action in ON_TOPICS if action != "ConfirmSubscription"), "Publish"])
async def test_arns_of_no_topic(sns: SnsDoor, action: str) -> None:
    members = REQUIRED.get(action, {"Message": "m", "TopicArn": TOPIC}) | VALIDATED.get(action, {})
    await sns.refuses(NO_TOPIC, action, **members)


@spec("sns.arn-absent-subscription")
@pytest.mark.parametrize("action", ["GetSubscriptionAttributes", "SetSubscriptionAttributes"])
async def test_arns_of_no_subscription(sns: SnsDoor, action: str) -> None:
    await sns.refuses(Refusal(404, "NotFound", "Subscription does not exist"), action, **REQUIRED[action])


@pytest.mark.parametrize(
    "exists",
    [
        case("sns.arn-other-account", True),
        case("sns.arn-absent-elsewhere", False),
    ],
)
@pytest.mark.parametrize("action", [*(action for action in ON_TOPICS if action != "ConfirmSubscription"), "Publish"])
async def test_topics_of_another_account(sns: SnsDoor, action: str, exists: bool) -> None:
    if exists:
        await sns.topic()
    members = REQUIRED.get(action, {"Message": "m", "TopicArn": TOPIC}) | VALIDATED.get(action, {})
    shown = "Publish" if action == "PublishBatch" else action
    await sns.refuses(denied(shown, TOPIC), action, STRANGER, **members)
