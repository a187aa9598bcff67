"""Topic policies and the statements of AddPermission, through botocore."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, queue_arn
from tests.integration.sns.sns_door import NO_TOPIC, STRANGER, Refusal, SnsDoor, denied, invalid, refused
from tests.marks import case

spec = pytest.mark.spec
OUT_OF_SCOPE = "Policy statement action out of service scope!"
NO_ACCOUNT = "A provided account ID is not valid"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
BATCH = [{"Id": "a", "Message": "m"}]


def statement(**changes: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": "*", "Action": "sns:Publish", "Resource": TOPIC, **changes}


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


# -- effects of policies ----------------------------------------------------------------------------------------------


@spec("sns-policy.default-grants-nobody", "sns-policy.no-grant", "sns-policy.batch", "sns-error.AuthorizationError")
async def test_the_default_policy_denies_other_accounts(sns: SnsDoor, topic: str) -> None:
    await sns.refuses(denied("Publish", topic), "Publish", STRANGER, TopicArn=topic, Message="m")
    batch = {"TopicArn": topic, "PublishBatchRequestEntries": BATCH}
    await sns.refuses(denied("Publish", topic), "PublishBatch", STRANGER, **batch)
    await sns.refuses(denied("GetTopicAttributes", topic), "GetTopicAttributes", STRANGER, TopicArn=topic)


@spec("sns-policy.everyone", "sns-policy.batch", "sns-policy.unsigned")
async def test_a_policy_can_allow_all_signed_callers(sns: SnsDoor) -> None:
    topic = await sns.topic(Policy=document(statement()))
    assert (await sns("Publish", STRANGER, TopicArn=topic, Message="m"))["MessageId"]
    answer = await sns("PublishBatch", STRANGER, TopicArn=topic, PublishBatchRequestEntries=BATCH)
    assert len(answer["Successful"]) == 1
    await sns.refuses(denied("DeleteTopic", topic), "DeleteTopic", STRANGER, TopicArn=topic)
    unsigned = await sns.send("GET", "/", query=f"Action=Publish&Version=2010-03-31&TopicArn={topic}&Message=m")
    assert refused(unsigned).code == "MissingAuthenticationToken"


@spec("sns-policy.deny", "sns-policy.owner")
async def test_a_deny_overrides_every_allow(sns: SnsDoor) -> None:
    topic = await sns.topic(Policy=document(statement(), statement(Effect="Deny")))
    text = (
        f"User: arn:aws:iam::{ACCOUNT}:root is not authorized to perform: SNS:Publish on resource: {topic} "
        "with an explicit deny in a resource-based policy"
    )
    await sns.refuses(Refusal(403, "AuthorizationError", text), "Publish", TopicArn=topic, Message="m")
    assert await sns.attributes(topic), "actions in no statement are for the owner only"


@spec("sns-policy.protocol-endpoint", "sns-policy.tags")
async def test_condition_keys(sns: SnsDoor) -> None:
    condition = {
        "StringEquals": {"sns:Protocol": "sqs", "aws:ResourceTag/team": "ops"},
        "StringLike": {"sns:Endpoint": "*:orders"},
    }
    topic = await sns.topic(Policy=document(statement(Action="sns:Subscribe", Condition=condition)))
    members = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(OTHER, "orders")}
    refusal = denied("Subscribe", topic)
    await sns.refuses(refusal, "Subscribe", STRANGER, **members)
    await sns("TagResource", ResourceArn=topic, Tags=[{"Key": "team", "Value": "ops"}])
    assert await sns("Subscribe", STRANGER, **members)
    await sns.refuses(refusal, "Subscribe", STRANGER, **{**members, "Endpoint": queue_arn(OTHER, "other")})
    http = {"TopicArn": topic, "Protocol": "https", "Endpoint": "https://example.com/:orders"}
    await sns.refuses(refusal, "Subscribe", STRANGER, **http)


# -- AddPermission, RemovePermission ----------------------------------------------------------------------------------


def grant(topic: str, **changes: Any) -> dict[str, Any]:
    return {"TopicArn": topic, "Label": "l", "AWSAccountId": [OTHER], "ActionName": ["Publish"], **changes}


async def statements(sns: SnsDoor, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await sns.attributes(topic))["Policy"])["Statement"]
    return found


@spec("sns-permission.statement", "sns-permission.one-or-list", "sns-permission.default-kept")
@spec("sns.accounts-and-actions")
async def test_a_grant_is_a_statement(sns: SnsDoor, topic: str) -> None:
    await sns("AddPermission", **grant(topic))
    both = {"AWSAccountId": [OTHER, "333333333333"], "ActionName": ["Publish", "Subscribe"]}
    await sns("AddPermission", **grant(topic, Label="m", **both))
    default, one, many = await statements(sns, topic)
    assert default["Sid"] == "__default_statement_ID"
    root = f"arn:aws:iam::{OTHER}:root"
    assert one == {
        "Sid": "l",
        "Effect": "Allow",
        "Principal": {"AWS": root},
        "Action": "SNS:Publish",
        "Resource": topic,
    }
    assert many["Principal"] == {"AWS": [root, "arn:aws:iam::333333333333:root"]}
    assert many["Action"] == ["SNS:Publish", "SNS:Subscribe"]


@spec("sns-permission.grants", "sns-permission.remove", "sns-permission.remove-absent", "sns.arn-other-account")
async def test_a_grant_holds_until_it_is_removed(sns: SnsDoor, topic: str) -> None:
    await sns("AddPermission", **grant(topic))
    assert await sns("Publish", STRANGER, TopicArn=topic, Message="m")
    await sns.refuses(denied("DeleteTopic", topic), "DeleteTopic", STRANGER, TopicArn=topic)
    for _ in range(2):
        await sns("RemovePermission", TopicArn=topic, Label="l")
        assert [each["Sid"] for each in await statements(sns, topic)] == ["__default_statement_ID"]
    await sns.refuses(denied("Publish", topic), "Publish", STRANGER, TopicArn=topic, Message="m")


@spec("sns-permission.duplicate")
async def test_the_same_grant_again_changes_nothing(sns: SnsDoor, topic: str) -> None:
    for _ in range(2):
        await sns("AddPermission", **grant(topic))
    assert [each["Sid"] for each in await statements(sns, topic)] == ["__default_statement_ID", "l"]


@spec("sns-permission.remove-no-topic")
async def test_permissions_of_no_topic(sns: SnsDoor) -> None:
    await sns.refuses(NO_TOPIC, "RemovePermission", TopicArn=TOPIC, Label="l")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        case("sns-permission.duplicate", {"ActionName": ["Subscribe"]}, "Statement already exists"),
        ({"Label": "__default_statement_ID"}, "Statement already exists"),
        case("sns-permission.unknown-action", {"Label": "m", "ActionName": ["CreateTopic"]}, OUT_OF_SCOPE),
        case("sns-permission.prefixed-action", {"Label": "m", "ActionName": ["sns:Publish"]}, OUT_OF_SCOPE),
        case("sns-permission.wildcard-action", {"Label": "m", "ActionName": ["*"]}, OUT_OF_SCOPE),
        case("sns-permission.account", {"Label": "m", "AWSAccountId": ["1"]}, NO_ACCOUNT),
    ],
)
async def test_grants_refused(sns: SnsDoor, topic: str, changes: dict[str, Any], complaint: str) -> None:
    await sns("AddPermission", **grant(topic))
    await sns.refuses(invalid(complaint), "AddPermission", **grant(topic, **changes))
