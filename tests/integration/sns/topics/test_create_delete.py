"""CreateTopic and DeleteTopic through botocore, and at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, call, queue_arn
from tests.integration.sns.sns_door import NO_TOPIC, Refusal, SnsDoor, invalid
from tests.marks import case

spec = pytest.mark.spec
NAME_REFUSED = invalid("Topic Name")
DIFFERENT = invalid("Attributes Reason: Topic already exists with different attributes")
DIFFERENT_TAGS = invalid("Tags Reason: Topic already exists with different tags")
FIFO = {"FifoTopic": "true"}


def tags(**pairs: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in pairs.items()]


# -- creating ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        case("sns-topic.arn", "t", {}),
        case("sns-topic.name-length", "a" * 256, {}),
        case("sns-topic.name-characters", "Az_09-", {}),
        case(("sns-topic.fifo-name", "sns-topic.fifo-attribute"), "t.fifo", FIFO),
        case("sns-topic.fifo-length", "a" * 251 + ".fifo", FIFO),
        case("sns-topic.booleans", "t.fifo", {"FifoTopic": "True"}),
        case("sns-topic.booleans", "t", {"FifoTopic": "FALSE"}),
    ],
)
async def test_accepted_names(sns: SnsDoor, name: str, attributes: dict[str, str]) -> None:
    assert await sns.topic(name, **attributes) == f"arn:aws:sns:{REGION}:{ACCOUNT}:{name}"


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        case("sns-topic.name-length", "a" * 257, {}),
        case("sns-topic.name-length", "", {}),
        case("sns-topic.name-characters", "a b", {}),
        case("sns-topic.name-characters", "ä", {}),
        case("sns-topic.name-characters", "a.b", {}),
        case("sns-topic.name-characters", "a:b", {}),
        case("sns-topic.name-characters", "a\n", {}),
        case("sns-topic.fifo-name", ".fifo", FIFO),
        case("sns-topic.fifo-name", "a.fifo.fifo", FIFO),
        case("sns-topic.fifo-name", "t", FIFO),
        case("sns-topic.fifo-attribute", "t.fifo", {}),
        case("sns-topic.fifo-attribute", "t.fifo", {"FifoTopic": "false"}),
        case("sns-topic.fifo-length", "a" * 252 + ".fifo", FIFO),
    ],
)
async def test_names_refused(sns: SnsDoor, name: str, attributes: dict[str, str]) -> None:
    await sns.refuses(NAME_REFUSED, "CreateTopic", Name=name, Attributes=attributes)


@spec("sns-topic.same", "sns-topic.only-sent", "sns.attribute-map", "sns.tags")
async def test_creating_again_finds_the_same(sns: SnsDoor) -> None:
    given: dict[str, Any] = {"Attributes": {"DisplayName": "d", "SignatureVersion": "2"}, "Tags": tags(a="1", b="2")}
    created = await sns("CreateTopic", Name="t", **given)
    assert await sns("CreateTopic", Name="t", **given) == created
    assert await sns("CreateTopic", Name="t") == created
    for some in ({"a": "1"}, {"b": "2"}):
        assert await sns("CreateTopic", Name="t", Tags=tags(**some)) == created
    assert await sns("CreateTopic", Name="t", Attributes={"SignatureVersion": "2"}) == created
    assert (await sns.attributes(created["TopicArn"]))["DisplayName"] == "d"
    listed = (await sns("ListTagsForResource", ResourceArn=created["TopicArn"]))["Tags"]
    assert sorted((tag["Key"], tag["Value"]) for tag in listed) == [("a", "1"), ("b", "2")]


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        case("sns-topic.different-attributes", {"Attributes": {"DisplayName": "e"}}, DIFFERENT),
        case("sns-topic.different-attributes", {"Attributes": {"DisplayName": "d", "KmsMasterKeyId": "k"}}, DIFFERENT),
        case("sns-topic.different-tags", {"Tags": tags(a="2")}, DIFFERENT_TAGS),
        case("sns-topic.different-tags", {"Tags": tags(b="1")}, DIFFERENT_TAGS),
        case("sns-topic.different-tags", {"Tags": tags(a="1", b="2")}, DIFFERENT_TAGS),
        case(
            "sns-topic.same-key-twice",
            {"Tags": [*tags(a="1"), *tags(a="2")]},
            invalid("Duplicated keys are not allowed."),
        ),
        case(
            "sns-topic.attribute-prefix",
            {"Attributes": {"SignatureVersion": "3"}},
            invalid("Attributes Reason: SignatureVersion: Invalid value. Must be 1 or 2."),
        ),
        case(
            ("sns-topic.attribute-prefix", "sns-topic-attr.unknown"),
            {"Attributes": {"Fake": "1"}},
            invalid("Attributes Reason: Unknown attribute Fake"),
        ),
    ],
)
async def test_creating_again_with_something_else(sns: SnsDoor, given: dict[str, Any], refusal: Refusal) -> None:
    await sns("CreateTopic", Name="t", Attributes={"DisplayName": "d"}, Tags=tags(a="1"))
    await sns.refuses(refusal, "CreateTopic", Name="t", **given)


@spec("sns-topic.fifo-false")
async def test_a_standard_topic_shows_no_fifo(sns: SnsDoor) -> None:
    topic = await sns.topic(FifoTopic="false")
    assert "FifoTopic" not in await sns.attributes(topic)


@spec("sns-topic.fifo-immutable", "sns-topic.fifo-again")
async def test_the_type_of_a_topic_does_not_change(sns: SnsDoor) -> None:
    await sns.refuses_set(invalid("AttributeName"), await sns.topic(), "FifoTopic", "true")
    fifo = await sns.topic("t.fifo", **FIFO)
    await sns.set(fifo, "FifoTopic", "true")
    await sns.refuses_set(invalid("FifoTopic: Modifying topic type is not supported"), fifo, "FifoTopic", "false")
    assert (await sns.attributes(fifo))["FifoTopic"] == "true"


# -- deleting ---------------------------------------------------------------------------------------------------------


@spec("sns-topic.delete-absent")
async def test_deleting_an_absent_topic(sns: SnsDoor, topic: str) -> None:
    assert await sns("DeleteTopic", TopicArn=topic) == {}
    assert await sns("DeleteTopic", TopicArn=topic) == {}


@spec("sns-topic.deleted-at-once", "sns-topic.deleted-readable", "sns-topic.recreated", "sns-topic.recreated-subscribe")
async def test_subscriptions_of_a_deleted_topic(sns: SnsDoor) -> None:
    topic = await sns.topic(DisplayName="d")
    members = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT)}
    old = await sns("Subscribe", **members)
    await sns("DeleteTopic", TopicArn=topic)
    await sns.refuses(NO_TOPIC, "GetTopicAttributes", TopicArn=topic)
    await sns.refuses(NO_TOPIC, "Publish", TopicArn=topic, Message="m")
    assert (await sns("GetSubscriptionAttributes", **old))["Attributes"]["TopicArn"] == topic
    assert await sns.topic() == topic
    assert (await sns.attributes(topic))["DisplayName"] == ""
    assert await sns.rig.listed(topic) == []
    await sns("Publish", TopicArn=topic, Message="m")
    assert sns.rig.queue.take() == []
    assert await sns("Subscribe", **members) != old
    await sns.rig.subscriptions.sweep(0, 10)
    await sns.refuses(Refusal(404, "NotFound", "Subscription does not exist"), "GetSubscriptionAttributes", **old)


# -- without botocore -------------------------------------------------------------------------------------------------


async def test_without_auth_every_account_is_allowed(sns: SnsDoor, topic: str) -> None:
    policy = {"Statement": {"Effect": "Deny", "Principal": "*", "Action": "sns:Publish", "Resource": topic}}
    await sns.set(topic, "Policy", json.dumps(policy))
    other = call(OTHER, enforced=False)
    await sns.rig.by(other, "Publish", TopicArn=topic, Message="m")
    await sns.rig.by(other, "TagResource", ResourceArn=topic, Tags=tags(k="v"))
    await sns.rig.by(other, "DeleteTopic", TopicArn=topic)


async def test_concurrent_changes_are_all_kept(sns: SnsDoor, topic: str) -> None:
    changes = [tags(**{str(number): ""}) for number in range(10)]
    await asyncio.gather(*[sns.rig("TagResource", ResourceArn=topic, Tags=change) for change in changes])
    assert len((await sns("ListTagsForResource", ResourceArn=topic))["Tags"]) == 10


async def test_concurrent_creations_make_one_topic(sns: SnsDoor) -> None:
    arns = await asyncio.gather(*[sns.rig.topic() for _ in range(5)])
    assert len(set(arns)) == 1
    assert len((await sns("ListTopics"))["Topics"]) == 1
