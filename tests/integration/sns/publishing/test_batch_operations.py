"""PublishBatch through the API: errors of the whole batch, and of single entries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cns.delivery.jobs import EndpointJob
from cns.limits import Quotas
from cns.publishing.filter_changes import Audience
from cns_common.clock import Clock
from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, Rig, call, invalid, open_rig

TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
NO_TOPIC = ("NotFound", "Topic does not exist")
NO_DEFAULT = "Message Structure - No default entry in JSON message body"
NO_DEDUPLICATION = (
    "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not valid for this "
    "topic type"
)
BAD_GROUP = "The MessageGroupId parameter can only include alphanumeric and punctuation characters. 1 to 128 in length"
BAD_TYPE = (
    "ParameterValueInvalid",
    "The message attribute 'a' has an invalid message attribute type, the set of supported type prefixes is Binary, "
    "Number, and String.",
)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, Clock(), Quotas()) as rig:
        await rig.topic()
        yield rig


def null(path: str) -> tuple[str, str]:
    return (
        "ValidationError",
        f"1 validation error detected: Value null at '{path}' failed to satisfy constraint: Member must not be null",
    )


def attribute(data_type: str = "String", text: str = "v") -> dict[str, Any]:
    return {"a": {"DataType": data_type, "StringValue": text}}


def entry(entry_id: str = "a", **members: Any) -> dict[str, Any]:
    return {"Id": entry_id, "Message": "m", **members}


@pytest.mark.parametrize(
    ("entries", "refusal"),
    [
        ([], null("publishBatchRequestEntries")),
        (
            [entry(str(number)) for number in range(11)],
            ("TooManyEntriesInBatchRequest", "The batch request contains more entries than permissible."),
        ),
        ([entry(), {"Id": "b"}], null("publishBatchRequestEntries.2.member.message")),
        ([{"Message": "m"}], null("publishBatchRequestEntries.1.member.id")),
        (
            [entry(), entry()],
            ("BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id."),
        ),
        (
            [entry("a" * 81)],
            (
                "InvalidBatchEntryId",
                f"The Id of a batch entry in the batch request is too long: {'a' * 81}",
            ),
        ),
        (
            [entry("a b")],
            (
                "InvalidBatchEntryId",
                "The Id of a batch entry in the batch request contains an impermissible character: a b",
            ),
        ),
        ([entry(), entry("b", MessageAttributes=attribute("Bad"))], BAD_TYPE),
        (
            [entry(), entry("b", MessageAttributes={"a": {"StringValue": "v"}})],
            null("publishBatchRequestEntries.2.member.messageAttributes.a.member.dataType"),
        ),
        (
            [entry(Message="m" * 131_072), entry("b", Message="m" * 131_073)],
            ("BatchRequestTooLong", "The length of all the messages put together is more than the limit."),
        ),
    ],
    ids=range(10),
)
async def test_batches_refused(rig: Rig, entries: list[dict[str, Any]], refusal: tuple[str, str]) -> None:
    await rig.queue_subscription(TOPIC)
    assert await rig.refusal("PublishBatch", TopicArn=TOPIC, PublishBatchRequestEntries=entries) == refusal
    assert rig.queue.take() == []


async def test_a_batch_needs_a_topic_one_may_publish_to(rig: Rig) -> None:
    entries = {"PublishBatchRequestEntries": [entry()]}
    assert await rig.refusal("PublishBatch", **entries) == invalid("TopicArn Reason: no value for required parameter")
    assert await rig.refusal("PublishBatch", TopicArn=TOPIC + "x", **entries) == NO_TOPIC
    code, text = await rig.refusal("PublishBatch", call(OTHER), TopicArn=TOPIC, **entries)
    assert code == "AuthorizationError" and "perform: SNS:Publish on" in text


async def test_entries_fail_alone(rig: Rig) -> None:
    await rig.queue_subscription(TOPIC)
    entries = [
        entry("good", Message="first"),
        entry("empty", Message=""),
        entry("half", Message="\udc80"),
        entry("subject", Subject="a\nb"),
        entry("default", Message="{}", MessageStructure="json"),
        entry("group", MessageGroupId=" "),
        entry("deduplication", MessageDeduplicationId="d"),
        entry("last", Message="last"),
    ]
    result = await rig("PublishBatch", TopicArn=TOPIC, PublishBatchRequestEntries=entries)
    assert [success["Id"] for success in result["Successful"]] == ["good", "last"]
    assert result["Failed"] == [
        {"Id": entry_id, "Code": "InvalidParameter", "Message": f"Invalid parameter: {text}", "SenderFault": True}
        for entry_id, text in (
            ("empty", "Empty message"),
            ("half", "Message"),
            ("subject", "Subject"),
            ("default", NO_DEFAULT),
            ("group", BAD_GROUP),
            ("deduplication", NO_DEDUPLICATION),
        )
    ]
    put = rig.queue.take()
    assert [job.notification_id for job in put if isinstance(job, EndpointJob)] == [
        success["MessageId"] for success in result["Successful"]
    ]


async def test_a_batch_in_which_all_fail_succeeds(rig: Rig) -> None:
    await rig.queue_subscription(TOPIC)
    entries = [entry("a", Message=""), entry("b", Message="")]
    result = await rig("PublishBatch", TopicArn=TOPIC, PublishBatchRequestEntries=entries)
    assert (result["Successful"], [failure["Id"] for failure in result["Failed"]]) == ([], ["a", "b"])
    assert rig.queue.take() == []


async def test_a_batch_is_one_enqueue_and_one_read_of_subscriptions(rig: Rig) -> None:
    reads, new_jobs = [], []
    read, put = rig.subscriptions.audience, rig.queue.enqueue

    async def count_read(*arguments: Any) -> Audience:
        reads.append(arguments)
        return await read(*arguments)

    async def count_put(*arguments: Any) -> None:
        new_jobs.append(arguments)
        await put(*arguments)

    await rig.queue_subscription(TOPIC)
    rig.subscriptions.audience, rig.queue.enqueue = count_read, count_put  # type: ignore[assignment, method-assign]
    entries = [entry(str(number), Message="m" * (number * 5_000 + 1)) for number in range(10)]
    result = await rig("PublishBatch", TopicArn=TOPIC, PublishBatchRequestEntries=entries)
    assert len(result["Successful"]) == 10
    assert reads == [(TOPIC, "", 101, "")]
    assert len(new_jobs) == 1
    for job in rig.queue.take():
        assert isinstance(job, EndpointJob)
        assert (job.inline is None) is (await rig.notifications.get(job.notification_id) is not None)
