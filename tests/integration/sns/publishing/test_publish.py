"""Publish through botocore: accepted and refused messages, and the order of the checks."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from cns.notification import Notification
from cns_common.errors import StoreUnavailable
from tests.integration.sns.cns_support import ACCOUNT, REGION
from tests.integration.sns.sns_door import BAD, BAD_TYPE, NO_TOPIC, Refusal, SnsDoor, invalid
from tests.marks import case

spec = pytest.mark.spec
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
ENDPOINT = f"arn:aws:sns:{REGION}:{ACCOUNT}:endpoint/GCM/app/2bcfbf39-05c3-41de-beaa-fcfcc21c8f55"
EMPTY = invalid("Empty message")
SUBJECT = invalid("Subject")
TOO_LONG = invalid("Message too long")
ELEMENTS = invalid("TopicArn Reason: An ARN must have at least 6 elements, not 1")
GROUP = invalid(
    "The MessageGroupId parameter can only include alphanumeric and punctuation characters. 1 to 128 in length"
)
NO_DEFAULT = invalid("Message Structure - No default entry in JSON message body")
DEDUPLICATION = invalid(
    "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not valid for this "
    "topic type"
)
MOST = 262_144


async def publish_and_load(sns: SnsDoor, **members: Any) -> Notification:
    """Publish a message and load its notification."""
    published = await sns("Publish", **{"TopicArn": TOPIC, "Message": "m", **members})
    job = sns.rig.endpoint_job()
    stored = job.inline or await sns.rig.notifications.get(job.notification_id)
    assert stored is not None and stored.id == published["MessageId"]
    return stored


# -- accepted ---------------------------------------------------------------------------------------------------------


@spec("sns-publish.message-id", "sns-publish.stored")
async def test_a_message_is_stored_before_it_is_accepted(
    sns: SnsDoor, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = await sns("Publish", TopicArn=topic, Message="m")
    assert str(uuid.UUID(published["MessageId"])) == published["MessageId"]
    assert sns.rig.endpoint_job().notification_id == published["MessageId"]

    async def refuse(*_: Any) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(sns.rig.queue, "enqueue", refuse)
    for message in ("m", "m" * 20_000):  # in the job, and stored beside it
        assert (await sns.reply("Publish", TopicArn=topic, Message=message)).status == 503


@spec("sns-envelope.publish-time", "sns-topic-attr.signature-default")
async def test_time_and_topic_of_a_message(sns: SnsDoor, topic: str) -> None:
    before_ms = sns.clock.now_ms()
    stored = await publish_and_load(sns)
    assert before_ms <= stored.timestamp_ms <= sns.clock.now_ms()
    assert stored.signature_version == "1"
    sns.clock.advance(60_000)
    await sns.set(topic, "SignatureVersion", "2")
    later = await publish_and_load(sns)
    assert later.timestamp_ms >= stored.timestamp_ms + 60_000
    assert later.signature_version == "2"


@spec("sns-publish.target-arn")
async def test_a_topic_may_be_the_target(sns: SnsDoor, topic: str) -> None:
    published = await sns("Publish", TargetArn=topic, Message="m")
    assert sns.rig.endpoint_job().notification_id == published["MessageId"]


ATTRIBUTE = {"name": {"DataType": "String.x", "StringValue": "雪"}}
ATTRIBUTE_BYTES = len("name") + len("String.x") + 3


@pytest.mark.parametrize(
    ("message", "members"),
    [
        case(("sns-publish.size-limit", "sns-topic-attr.size-default"), "m" * MOST, {}),
        case("sns-publish.size-bytes", "雪" * (MOST // 3) + "m" * (MOST % 3), {}),
        case("sns-publish.size-attributes", "m" * (MOST - ATTRIBUTE_BYTES), {"MessageAttributes": ATTRIBUTE}),
        case("sns-publish.size-subject", "m" * MOST, {"Subject": "s" * 100}),
    ],
)
async def test_the_size_of_a_message(sns: SnsDoor, topic: str, message: str, members: dict[str, Any]) -> None:
    await publish_and_load(sns, Message=message, **members)
    await sns.refuses(TOO_LONG, "Publish", TopicArn=topic, Message=message + "m", **members)


@spec("sns-group.standard")
@pytest.mark.parametrize("group", ["g", "g" * 128, *(case("sns-group.form", text) for text in ("!~", "a-b_c.1"))])
async def test_accepted_groups(sns: SnsDoor, topic: str, group: str) -> None:
    assert (await publish_and_load(sns, MessageGroupId=group)).message_group_id == group


@spec("sns-structure.by-protocol", "sns-structure.attributes")
async def test_structured_messages(sns: SnsDoor, topic: str) -> None:
    text = '{"default": "d", "sqs": "q", "http": "d"}'
    stored = await publish_and_load(sns, Message=text, MessageStructure="json", MessageAttributes=ATTRIBUTE)
    assert (stored.texts, stored.structured) == ({"default": "d", "sqs": "q"}, True)
    assert stored.attributes == {"name": ("String.x", "雪")}


# -- refused ----------------------------------------------------------------------------------------------------------


def publish(refusal: Refusal, *rules: str, **members: Any) -> Any:
    return pytest.param({"TopicArn": TOPIC, "Message": "m", **members}, refusal, marks=spec(*rules))


@pytest.mark.parametrize(
    ("members", "refusal"),
    [
        publish(EMPTY, "sns-publish.empty", Message=""),
        publish(NO_DEFAULT, "sns-structure.no-default", MessageStructure="json", Message="{}"),
        *(publish(GROUP, "sns-group.form", MessageGroupId=text) for text in ("", "a b", "g" * 129, "ä")),
        publish(DEDUPLICATION, "sns-group.deduplication", MessageDeduplicationId="d"),
        publish(
            invalid("TopicArn or TargetArn Reason: only one of them can be specified"),
            "sns-publish.one-target",
            TargetArn=TOPIC,
        ),
        # the order of the checks
        publish(SUBJECT, "sns-publish-order.subject", Subject="", Message=""),
        publish(BAD_TYPE, "sns-publish-order.attributes", Message="m" * (MOST + 1), MessageAttributes=BAD),
        publish(TOO_LONG, "sns-publish-order.size", Message="m" * (MOST + 1), TopicArn="x"),
        publish(NO_TOPIC, "sns-publish-order.no-topic", TopicArn=TOPIC + "x", Message=""),
        publish(NO_TOPIC, "sns-publish-order.topic", TopicArn=TOPIC + "x", MessageDeduplicationId="d"),
        publish(ELEMENTS, "sns-publish-order.no-topic", TopicArn="x", Message="m"),
        publish(
            DEDUPLICATION,
            "sns-publish-order.structure",
            MessageDeduplicationId="d",
            MessageStructure="json",
            Message="{}",
        ),
    ],
)
async def test_messages_refused(sns: SnsDoor, topic: str, members: dict[str, Any], refusal: Refusal) -> None:
    await sns.refuses(refusal, "Publish", **members)
    assert sns.rig.queue.take() == []


@pytest.mark.parametrize(
    ("members", "refusal"),
    [
        case("sns-publish.no-target", {}, invalid("TopicArn or TargetArn Reason: no value for required parameter")),
        case(
            "sns-publish.no-endpoint",
            {"TargetArn": ENDPOINT},
            invalid("TargetArn Reason: No endpoint found for the target arn specified"),
        ),
        case(
            "sns-publish.bad-number",
            {"PhoneNumber": "NAA"},
            invalid("PhoneNumber Reason: NAA is not valid to publish to"),
        ),
        case("sns-publish-order.message", {"PhoneNumber": "NAA", "Message": ""}, EMPTY),
        ({"TargetArn": "x"}, invalid("TargetArn Reason: An ARN must have at least 6 elements, not 1")),
        ({"TargetArn": TOPIC}, NO_TOPIC),
        ({"TargetArn": TOPIC.replace(REGION, "us-east-1")}, invalid("TargetArn")),
    ],
)
async def test_targets_refused(sns: SnsDoor, members: dict[str, Any], refusal: Refusal) -> None:
    await sns.refuses(refusal, "Publish", **{"Message": "m", **members})
