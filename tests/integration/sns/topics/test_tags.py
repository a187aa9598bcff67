"""Tags of topics, and the data protection policy, which is always empty, through botocore."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION
from tests.integration.sns.sns_door import NO_TOPIC, STRANGER, Refusal, SnsDoor, denied, invalid, out_of_length
from tests.marks import case

spec = pytest.mark.spec
ABSENT = f"arn:aws:sns:{REGION}:{ACCOUNT}:absent"
QUOTA = Refusal(400, "TagLimitExceeded", "Could not complete request: tag quota of per resource exceeded")
NO_RESOURCE = Refusal(404, "ResourceNotFound", "Resource does not exist")
ON_TAGS: dict[str, dict[str, Any]] = {
    "TagResource": {"Tags": [{"Key": "k", "Value": "v"}]},
    "UntagResource": {"TagKeys": ["k"]},
    "ListTagsForResource": {},
}


def tags(**pairs: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in pairs.items()]


async def shown(sns: SnsDoor, topic: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in (await sns("ListTagsForResource", ResourceArn=topic))["Tags"]}


@spec("sns-tag.list", "sns-tag.overwrite", "sns-tag.untag", "sns-tag.untag-absent", "sns.tags", "sns.tag-keys")
async def test_adding_and_removing_tags(sns: SnsDoor, topic: str) -> None:
    await sns("TagResource", ResourceArn=topic, Tags=tags(a="1", b="2"))
    await sns("TagResource", ResourceArn=topic, Tags=tags(b="3", c=""))
    assert list((await shown(sns, topic)).items()) == [("a", "1"), ("b", "3"), ("c", "")]
    await sns("UntagResource", ResourceArn=topic, TagKeys=["a", "absent", "c"])
    assert await shown(sns, topic) == {"b": "3"}


@spec("sns.order-tag", "sns.lists")
async def test_the_elements_of_a_tag(sns: SnsDoor, topic: str) -> None:
    await sns("TagResource", ResourceArn=topic, Tags=tags(k="v"))
    reply = await sns.reply("ListTagsForResource", ResourceArn=topic)
    assert b"<Tags><member><Value>v</Value><Key>k</Key></member></Tags>" in reply.body


@spec("sns-tag.most", "sns-error.TagLimitExceeded")
async def test_fifty_tags_are_the_most(sns: SnsDoor, topic: str) -> None:
    many = [{"Key": str(number), "Value": ""} for number in range(51)]
    await sns.refuses(QUOTA, "TagResource", ResourceArn=topic, Tags=many)
    await sns.refuses(QUOTA, "CreateTopic", Name="new", Tags=many)
    await sns("TagResource", ResourceArn=topic, Tags=many[:50])
    await sns.refuses(QUOTA, "TagResource", ResourceArn=topic, Tags=many[50:])
    await sns("TagResource", ResourceArn=topic, Tags=many[:1])


AT_MOST = "less than or equal to"
AT_LEAST = "greater than or equal to"


@pytest.mark.parametrize(
    ("tag", "refusal"),
    [
        case(
            "sns-tag.key-length",
            {"Key": "k" * 129, "Value": ""},
            out_of_length("k" * 129, "tags.1.member.key", f"{AT_MOST} 128"),
        ),
        case("sns-tag.key-length", {"Key": "", "Value": ""}, out_of_length("", "tags.1.member.key", f"{AT_LEAST} 1")),
        case(
            "sns-tag.value-length",
            {"Key": "k", "Value": "v" * 257},
            out_of_length("v" * 257, "tags.1.member.value", f"{AT_MOST} 256"),
        ),
    ],
)
async def test_tags_refused(sns: SnsDoor, tag: dict[str, str], refusal: Refusal) -> None:
    await sns.refuses(refusal, "TagResource", ResourceArn=await sns.topic(), Tags=[tag])
    await sns.refuses(refusal, "CreateTopic", Name="new", Tags=[tag])


@spec("sns-topic.same-key-twice")
async def test_the_same_key_twice(sns: SnsDoor) -> None:
    twice = [*tags(a="1"), *tags(a="2")]
    refusal = invalid("Duplicated keys are not allowed.")
    await sns.refuses(refusal, "TagResource", ResourceArn=await sns.topic(), Tags=twice)


@pytest.mark.parametrize("action", ON_TAGS)
@pytest.mark.parametrize(
    ("arn", "refusal"),
    [
        case(("sns-tag.unknown-topic", "sns-error.ResourceNotFound"), ABSENT, NO_RESOURCE),
        case(
            "sns-tag.arn-length",
            ABSENT.ljust(1_012, "x"),
            out_of_length(ABSENT.ljust(1_012, "x"), "resourceArn", f"{AT_MOST} 1011"),
        ),
        case("sns-tag.arn-length", "", out_of_length("", "resourceArn", f"{AT_LEAST} 1")),
    ],
)
async def test_resources_refused(sns: SnsDoor, action: str, arn: str, refusal: Refusal) -> None:
    await sns.refuses(refusal, action, ResourceArn=arn, **ON_TAGS[action])


@spec("sns-tag.other-account")
@pytest.mark.parametrize("action", ON_TAGS)
async def test_other_accounts_need_a_grant_of_the_same_action(sns: SnsDoor, topic: str, action: str) -> None:
    await sns.refuses(denied(action, topic), action, STRANGER, ResourceArn=topic, **ON_TAGS[action])
    statement = {"Effect": "Allow", "Principal": {"AWS": OTHER}, "Action": f"sns:{action}", "Resource": topic}
    await sns.set(topic, "Policy", json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    await sns(action, STRANGER, ResourceArn=topic, **ON_TAGS[action])
    for other in ON_TAGS.keys() - {action}:
        await sns.refuses(denied(other, topic), other, STRANGER, ResourceArn=topic, **ON_TAGS[other])


# -- data protection --------------------------------------------------------------------------------------------------

CLOSED = invalid("DataProtectionPolicy Reason: Data protection functionality is not supported in this region")
POLICY = '{"Name":"n","Version":"2021-06-01","Statement":[]}'
ON_POLICIES: dict[str, dict[str, str]] = {
    "PutDataProtectionPolicy": {"DataProtectionPolicy": ""},
    "GetDataProtectionPolicy": {},
}


def unsupported(action: str, where: str) -> Refusal:
    return Refusal(400, "InvalidAction", f"Operation ({action}) is not supported {where}")


PUT_UNSUPPORTED = unsupported("PutDataProtectionPolicy", "in this region")


@spec("sns-protection.get", "sns-protection.empty-at-create")
async def test_the_empty_policy(sns: SnsDoor) -> None:
    topic = (await sns("CreateTopic", Name="t", DataProtectionPolicy=""))["TopicArn"]
    reply = await sns.reply("GetDataProtectionPolicy", ResourceArn=topic)
    assert b"<GetDataProtectionPolicyResult><DataProtectionPolicy/></GetDataProtectionPolicyResult>" in reply.body


@pytest.mark.parametrize("name", ["new", "new.fifo"])
@spec("sns-protection.refused")
async def test_a_topic_is_not_created_with_a_policy(sns: SnsDoor, name: str) -> None:
    attributes = {"FifoTopic": "true"} if name.endswith(".fifo") else {}
    await sns.refuses(CLOSED, "CreateTopic", Name=name, Attributes=attributes, DataProtectionPolicy=POLICY)
    assert (await sns("ListTopics"))["Topics"] == []


@pytest.mark.parametrize("policy", ["", POLICY])
@spec("sns-protection.put")
async def test_no_policy_can_be_put(sns: SnsDoor, topic: str, policy: str) -> None:
    await sns.refuses(PUT_UNSUPPORTED, "PutDataProtectionPolicy", ResourceArn=topic, DataProtectionPolicy=policy)


@pytest.mark.parametrize("action", ON_POLICIES)
@spec("sns-protection.fifo")
async def test_fifo_topics_have_no_policies(sns: SnsDoor, action: str) -> None:
    for arn in (await sns.topic("t.fifo", FifoTopic="true"), f"{ABSENT}.fifo"):
        await sns.refuses(unsupported(action, "on FIFO topics"), action, ResourceArn=arn, **ON_POLICIES[action])


@pytest.mark.parametrize("action", ON_POLICIES)
@spec("sns-protection.authorised", "sns-protection.absent-topic")
async def test_other_accounts_need_permission_for_policies(sns: SnsDoor, topic: str, action: str) -> None:
    members = {"ResourceArn": topic, **ON_POLICIES[action]}
    await sns.refuses(denied(action, topic), action, STRANGER, **members)
    await sns("AddPermission", TopicArn=topic, Label="l", AWSAccountId=[OTHER], ActionName=[action])
    if action == "GetDataProtectionPolicy":
        await sns(action, STRANGER, **members)
    else:
        await sns.refuses(PUT_UNSUPPORTED, action, STRANGER, **members)
    await sns.refuses(NO_TOPIC, action, **{**members, "ResourceArn": ABSENT})
