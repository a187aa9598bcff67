"""PublishBatch through botocore: errors of the whole batch, and of single entries."""

from __future__ import annotations

from typing import Any

import pytest

from cns.delivery.jobs import EndpointJob
from cns.publishing.filter_changes import Audience
from tests.integration.sns.sns_door import BAD, BAD_TYPE, Refusal, SnsDoor, null
from tests.marks import case

spec = pytest.mark.spec
TOO_MANY = Refusal(400, "TooManyEntriesInBatchRequest", "The batch request contains more entries than permissible.")
SAME_ID = Refusal(400, "BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id.")
TOO_LONG = Refusal(400, "BatchRequestTooLong", "The length of all the messages put together is more than the limit.")

NO_DEFAULT = "Message Structure - No default entry in JSON message body"
NO_DEDUPLICATION = (
    "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not valid for this "
    "topic type"
)
BAD_GROUP = "The MessageGroupId parameter can only include alphanumeric and punctuation characters. 1 to 128 in length"


def entry(entry_id: str = "a", **members: Any) -> dict[str, Any]:
    return {"Id": entry_id, "Message": "m", **members}


def bad_id(complaint: str, entry_id: str) -> Refusal:
    return Refusal(400, "InvalidBatchEntryId", f"The Id of a batch entry in {complaint}: {entry_id}")


def too_long(entry_id: str) -> Refusal:
    return bad_id("the batch request is too long", entry_id)


def strange(entry_id: str) -> Refusal:
    return bad_id("the batch request contains an impermissible character", entry_id)


def batch(refusal: Refusal, entries: list[dict[str, Any]], *rules: str) -> Any:
    return pytest.param(entries, refusal, marks=spec(*rules))


@pytest.mark.parametrize(
    ("entries", "refusal"),
    [
        batch(null("publishBatchRequestEntries"), [], "sns-batch.empty", "sns-error.EmptyBatchRequest"),
        batch(TOO_MANY, [entry(str(number)) for number in range(11)], "sns-batch.too-many"),
        batch(too_long("a" * 81), [entry("a" * 81)], "sns-batch.id-length"),
        *(batch(strange(name), [entry(name)], "sns-batch.id-characters") for name in ("a b", "a.b", "ä")),
        batch(SAME_ID, [entry("a"), entry("b"), entry("a")], "sns-batch.same-id"),
        batch(TOO_LONG, [entry(Message="m" * 131_072), entry("b", Message="m" * 131_073)], "sns-batch.size"),
        # the order of the checks
        batch(TOO_MANY, [entry()] * 11, "sns-batch.order-many"),
        batch(SAME_ID, [entry("a" * 81)] * 2, "sns-batch.order-distinct"),
        batch(too_long("ä" * 81), [entry("ä" * 81)], "sns-batch.order-length"),
        batch(strange("a b"), [entry("a b", MessageAttributes=BAD)], "sns-batch.order-entries"),
        batch(BAD_TYPE, [entry(Message="m" * 262_145, MessageAttributes=BAD)], "sns-batch.order-size"),
    ],
)
async def test_batches_refused(sns: SnsDoor, topic: str, entries: list[dict[str, Any]], refusal: Refusal) -> None:
    await sns.refuses(refusal, "PublishBatch", TopicArn=topic, PublishBatchRequestEntries=entries)
    assert sns.rig.queue.take() == []


@pytest.mark.parametrize(
    "entries",
    [
        case("sns-batch.too-many", [entry(str(number)) for number in range(10)]),
        case("sns-batch.id-length", [entry("a" * 80)]),
        case("sns-batch.id-characters", [entry("Az_09-")]),
        case("sns-batch.size", [entry(Message="m" * 131_072), entry("b", Message="m" * 131_072)]),
    ],
)
async def test_accepted_batches(sns: SnsDoor, topic: str, entries: list[dict[str, Any]]) -> None:
    answer = await sns("PublishBatch", TopicArn=topic, PublishBatchRequestEntries=entries)
    assert [one["Id"] for one in answer["Successful"]] == [one["Id"] for one in entries]
    assert answer["Failed"] == []


@spec("sns-batch.all-fail", "sns.order-batch", "sns.order-batch-failure")
async def test_a_batch_in_which_all_fail_succeeds(sns: SnsDoor, topic: str) -> None:
    reply = await sns.reply("PublishBatch", TopicArn=topic, PublishBatchRequestEntries=[entry(Message="")])
    assert reply.status == 200
    assert (
        b"<PublishBatchResult><Failed><member><Code>InvalidParameter</Code><SenderFault>true</SenderFault><Id>a</Id>"
        b"<Message>Invalid parameter: Empty message</Message></member></Failed><Successful/></PublishBatchResult>"
    ) in reply.body
    assert sns.rig.queue.take() == []


@spec("sns.order-batch", "sns.order-batch-success")
async def test_the_elements_of_a_success(sns: SnsDoor, topic: str) -> None:
    reply = await sns.reply("PublishBatch", TopicArn=topic, PublishBatchRequestEntries=[entry()])
    (message_id,) = reply.texts("PublishBatchResult/Successful/member/MessageId")
    assert (
        "<PublishBatchResult><Failed/><Successful>"
        f"<member><MessageId>{message_id}</MessageId><Id>a</Id></member></Successful></PublishBatchResult>"
    ).encode() in reply.body


@spec("sns-batch.entry-fails")
async def test_entries_fail_alone(sns: SnsDoor, topic: str) -> None:
    rig = sns.rig
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
    result = await rig("PublishBatch", TopicArn=topic, PublishBatchRequestEntries=entries)
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


async def test_a_batch_is_one_enqueue_and_one_read_of_subscriptions(sns: SnsDoor, topic: str) -> None:
    rig = sns.rig
    reads, new_jobs = [], []
    read, put = rig.subscriptions.audience, rig.queue.enqueue

    async def count_read(*arguments: Any) -> Audience:
        reads.append(arguments)
        return await read(*arguments)

    async def count_put(*arguments: Any) -> None:
        new_jobs.append(arguments)
        await put(*arguments)

    rig.subscriptions.audience, rig.queue.enqueue = count_read, count_put  # type: ignore[assignment, method-assign]
    entries = [entry(str(number), Message="m" * (number * 5_000 + 1)) for number in range(10)]
    result = await rig("PublishBatch", TopicArn=topic, PublishBatchRequestEntries=entries)
    assert len(result["Successful"]) == 10
    assert reads == [(topic, "", 101, "")]
    assert len(new_jobs) == 1
    for job in rig.queue.take():
        assert isinstance(job, EndpointJob)
        assert (job.inline is None) is (await rig.notifications.get(job.notification_id) is not None)
