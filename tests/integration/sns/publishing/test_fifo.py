"""Refused settings and messages of FIFO topics, through botocore."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.sns.cns_support import ACCOUNT, REGION
from tests.integration.sns.sns_door import NO_TOPIC, Refusal, SnsDoor, invalid
from tests.marks import case

spec = pytest.mark.spec
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t.fifo"
FORM = "The {} parameter can only include alphanumeric and punctuation characters. 1 to 128 in length"
NO_GROUP = invalid("The MessageGroupId parameter is required for FIFO topics")
NO_DEDUPLICATION = invalid(
    "The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
GOOD = {"Message": "m", "MessageGroupId": "g", "MessageDeduplicationId": "d"}


async def fifo(sns: SnsDoor, **attributes: str) -> str:
    return await sns.topic("t.fifo", FifoTopic="true", **attributes)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        case("sns-fifo.no-group", {"MessageGroupId": None}, NO_GROUP),
        case("sns-fifo.no-deduplication", {"MessageDeduplicationId": None}, NO_DEDUPLICATION),
        *(({"MessageGroupId": text}, invalid(FORM.format("MessageGroupId"))) for text in ("", "a b", "g" * 129)),
        *(
            ({"MessageDeduplicationId": text}, invalid(FORM.format("MessageDeduplicationId")))
            for text in ("", "a b", "d" * 129)
        ),
        ({"Message": ""}, invalid("Empty message")),
        ({"Subject": "a\nb"}, invalid("Subject")),
    ],
)
@spec("sns-fifo.batch-refused")
async def test_messages_refused(sns: SnsDoor, changes: dict[str, Any], refusal: Refusal) -> None:
    """One bad entry fails the whole batch."""
    topic = await fifo(sns)
    bad = {name: text for name, text in {**GOOD, **changes}.items() if text is not None}
    await sns.refuses(refusal, "Publish", TopicArn=topic, **bad)
    entries = [{"Id": "good", **GOOD}, {"Id": "bad", **bad}]
    await sns.refuses(refusal, "PublishBatch", TopicArn=topic, PublishBatchRequestEntries=entries)
    assert sns.rig.queue.take() == []


@spec("sns-fifo.batch-structure-first")
async def test_a_batch_is_refused_for_its_structure_before_its_groups(sns: SnsDoor) -> None:
    topic = await fifo(sns)
    entries = [{"Id": "a", "Message": "{}", "MessageStructure": "json"}]
    no_default = invalid("Message Structure - No default entry in JSON message body")
    await sns.refuses(no_default, "PublishBatch", TopicArn=topic, PublishBatchRequestEntries=entries)
    await sns.refuses(NO_GROUP, "Publish", TopicArn=topic, Message="{}", MessageStructure="json")
    entries[0]["Message"] = '{"default":"d"}'
    await sns.refuses(NO_GROUP, "PublishBatch", TopicArn=topic, PublishBatchRequestEntries=entries)


@spec("sns-fifo.order", "fifo-delivery.size-before-group", "fifo-delivery.topic-before-deduplication")
async def test_the_checks_are_of_size_group_topic_and_deduplication(sns: SnsDoor) -> None:
    grouped = {"Message": "m", "MessageGroupId": "g"}
    await sns.refuses(invalid("Message too long"), "Publish", TopicArn=TOPIC, Message="m" * 262_145)
    await sns.refuses(NO_GROUP, "Publish", TopicArn=TOPIC, Message="m")
    await sns.refuses(NO_TOPIC, "Publish", TopicArn=TOPIC, **grouped)
    await fifo(sns)
    await sns.refuses(NO_DEDUPLICATION, "Publish", TopicArn=TOPIC, **grouped)


@spec("sns-fifo.cbd-later")
@pytest.mark.parametrize("text", ["true", "TRUE", "false"])
async def test_content_based_deduplication_can_be_changed(sns: SnsDoor, text: str) -> None:
    topic = await fifo(sns)
    await sns.set(topic, "ContentBasedDeduplication", text)
    assert (await sns.attributes(topic))["ContentBasedDeduplication"] == text.lower()


@spec("sns-fifo.scope-values", "sns-fifo.scope-absent", "sns-fifo.scope-back")
async def test_the_scope_of_throughput(sns: SnsDoor) -> None:
    topic = await fifo(sns)
    assert "FifoThroughputScope" not in await sns.attributes(topic)
    for scope in ("Topic", "MessageGroup"):
        await sns.set(topic, "FifoThroughputScope", scope)
        assert (await sns.attributes(topic))["FifoThroughputScope"] == scope
    refusal = invalid("Modifying FifoThroughputScope from MessageGroup to Topic is not supported")
    await sns.refuses_set(refusal, topic, "FifoThroughputScope", "Topic")
    await sns.refuses_set(invalid("Invalid FifoThroughputScope: Queue"), topic, "FifoThroughputScope", "Queue")
