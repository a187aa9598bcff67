"""Queues: creating, finding, listing, changing, tagging, purging and deleting them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cns_common.aws.call import root_caller
from cns_common.errors import RequestError, StoreFull
from tests.integration.cqs.sqs import ACCOUNT, BASE_URL, OTHER_ACCOUNT, Sqs, refused

NO_QUEUE = ("QueueDoesNotExist", "The specified queue does not exist.")
NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"


async def test_create_and_find(sqs: Sqs) -> None:
    url = await sqs.queue("my-queue", DelaySeconds="1")
    assert url == f"{BASE_URL}/{ACCOUNT}/my-queue"
    assert await sqs("GetQueueUrl", QueueName="my-queue") == {"QueueUrl": url}
    assert await sqs.queue("my-queue", DelaySeconds="1") == url
    assert await sqs.queue("my-queue") == url
    assert await refused(sqs("GetQueueUrl", QueueName="My-Queue")) == NO_QUEUE
    assert await refused(sqs("GetQueueUrl", QueueName="my-queue", region="eu-west-1")) == NO_QUEUE
    assert await refused(sqs("GetQueueUrl", QueueName="my-queue", QueueOwnerAWSAccountId="cns")) == NO_QUEUE
    missing = "Value for parameter QueueName is invalid. Reason: Must specify a queue name."
    assert await refused(sqs("GetQueueUrl")) == ("InvalidParameterValue", missing)


async def test_create_compares_with_current_values(sqs: Sqs) -> None:
    url = await sqs.queue(VisibilityTimeout="10")
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"VisibilityTimeout": "20"})
    await sqs.queue(VisibilityTimeout="20", DelaySeconds="0")
    assert await refused(sqs.queue(VisibilityTimeout="10")) == (
        "QueueNameExists",
        "A queue already exists with the same name and a different value for attribute VisibilityTimeout",
    )
    assert (await refused(sqs.queue(QueueArn="x")))[0] == "InvalidAttributeName"


async def test_created_by_many_at_once_is_one(sqs: Sqs) -> None:
    await asyncio.gather(*[sqs.queue("q") for _ in range(5)])
    with pytest.raises(RequestError):
        await asyncio.gather(*[sqs.queue("other", DelaySeconds=str(i)) for i in range(5)])
    assert len((await sqs("ListQueues"))["QueueUrls"]) == 2


@pytest.mark.parametrize(
    ("name", "attributes", "code", "text"),
    [
        ("a b", {}, "InvalidParameterValue", NAME),
        ("q.fifo", {}, "InvalidParameterValue", NAME),
        ("q.fifo", {"FifoQueue": "false"}, "InvalidParameterValue", NAME),
        ("q", {"FifoQueue": "false"}, "InvalidAttributeName", "Unknown Attribute FifoQueue."),
        (
            "q",
            {"Engine": "nonsense"},
            "InvalidAttributeValue",
            "Invalid value for the parameter Engine. Reason: This service runs the engine embedded.",
        ),
        ("q", {"DelaySeconds": "x"}, "InvalidAttributeValue", "Invalid value for the parameter DelaySeconds."),
    ],
)
async def test_create_refused(sqs: Sqs, name: str, attributes: dict[str, str], code: str, text: str) -> None:
    assert await refused(sqs("CreateQueue", QueueName=name, Attributes=attributes)) == (code, text)


async def test_engine_is_chosen_at_creation(sqs: Sqs) -> None:
    url = await sqs.queue(Engine="embedded")
    assert await sqs.attributes(url, "Engine") == {"Engine": "embedded"}
    assert (await sqs.attributes(url))["Engine"] == "embedded"
    await sqs.queue(Engine="embedded")
    assert (await refused(sqs.queue(Engine="other")))[0] == "QueueNameExists"
    assert "Engine" not in await sqs.attributes(await sqs.queue("as-in-sqs"))


async def test_attributes(sqs: Sqs) -> None:
    url = await sqs.queue()
    created = await sqs.attributes(url)
    sqs.advance(5)
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"DelaySeconds": "9", "KmsMasterKeyId": "k"})
    changed = await sqs.attributes(url)
    assert int(changed.pop("LastModifiedTimestamp")) - int(created["LastModifiedTimestamp"]) in (5, 6)
    assert changed == {name: text for name, text in created.items() if name != "LastModifiedTimestamp"} | {
        "DelaySeconds": "9",
        "KmsMasterKeyId": "k",
        "KmsDataKeyReusePeriodSeconds": "300",
        "SqsManagedSseEnabled": "false",
    }
    assert await sqs("GetQueueAttributes", QueueUrl=url) == {"Attributes": {}}
    wrong = {"DelaySeconds": "1", "VisibilityTimeout": "x"}
    assert (await refused(sqs("SetQueueAttributes", QueueUrl=url, Attributes=wrong)))[0] == "InvalidAttributeValue"
    assert (await sqs.attributes(url))["DelaySeconds"] == "9"


@pytest.mark.spec("attribute.retention-of-all", "attribute.at-once")
async def test_changes_hold_at_once(sqs: Sqs) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"MessageRetentionPeriod": "60", "DelaySeconds": "5"})
    await sqs.send(url, "later")
    sqs.advance(61)
    assert await sqs.bodies(url) == []


@pytest.mark.spec("attribute.retention-of-all")
@pytest.mark.parametrize("name", ["q", "q.fifo"])
async def test_maintenance_goes_by_the_present_retention(sqs: Sqs, name: str) -> None:
    """Also if nobody uses the queue between the change and the end of the former retention."""
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if name.endswith(".fifo") else {}
    url = await sqs.queue(name, MessageRetentionPeriod="60")
    await sqs.send(url, "kept", **ids)
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"MessageRetentionPeriod": "1209600"})
    sqs.advance(61)
    await sqs.engine.maintain(100, sqs.clock.now_ms())
    assert await sqs.bodies(url) == ["kept"]


@pytest.mark.spec("attribute.retention-of-all")
@pytest.mark.parametrize("name", ["q", "q.fifo"])
async def test_a_poll_that_began_before_goes_by_the_present_retention(sqs: Sqs, name: str) -> None:
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if name.endswith(".fifo") else {}
    url = await sqs.queue(name, MessageRetentionPeriod="60")
    await sqs.send(url, "kept", **ids)
    await sqs.receive(url, VisibilityTimeout=70)
    sqs.advance(55)
    poll = await sqs.poll(url)
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"MessageRetentionPeriod": "1209600"})
    sqs.advance(16)
    assert [message["Body"] for message in await poll] == ["kept"]


@pytest.mark.spec("attribute.delay-standard")
async def test_a_change_of_the_delay_does_not_affect_sent_messages(sqs: Sqs) -> None:
    url = await sqs.queue(DelaySeconds="10")
    await sqs.send(url, "delayed")
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"DelaySeconds": "0"})
    await sqs.send(url, "at once")
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"DelaySeconds": "900"})
    assert await sqs.bodies(url) == ["at once"]
    sqs.advance(11)
    assert await sqs.bodies(url) == ["delayed"]


async def test_on_a_full_disk_a_queue_can_be_purged(sqs: Sqs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record grows by the time of the purge. Nothing was deleted before, whose room would do."""
    url = await sqs.queue()
    await sqs.send(url)
    space = sqs.engine._database.space
    monkeypatch.setattr(space, "_free_bytes", lambda _: 0)
    space.mark_full()
    for refused_call in (
        sqs.send(url),
        sqs("TagQueue", QueueUrl=url, Tags={"key": "v" * 100}),
        sqs("SetQueueAttributes", QueueUrl=url, Attributes={"KmsMasterKeyId": "k" * 100}),
    ):
        with pytest.raises(StoreFull):
            await refused_call
    await sqs("PurgeQueue", QueueUrl=url)
    assert await sqs.counts(url) == (0, 0, 0)


async def test_changes_at_once_are_all_kept(sqs: Sqs) -> None:
    url = await sqs.queue()
    await asyncio.gather(*[sqs("TagQueue", QueueUrl=url, Tags={str(i): "x"}) for i in range(10)])
    assert len((await sqs("ListQueueTags", QueueUrl=url))["Tags"]) == 10


async def test_list(sqs: Sqs) -> None:
    urls = [await sqs.queue(name) for name in ("a", "b-1", "b-2", "b_3", "c")]
    await sqs("CreateQueue", QueueName="b-0", region="eu-west-1")
    await sqs("CreateQueue", QueueName="b-0", caller=root_caller(OTHER_ACCOUNT))
    assert await sqs("ListQueues") == {"QueueUrls": urls}
    assert await sqs("ListQueues", QueueNamePrefix="b-") == {"QueueUrls": urls[1:3]}
    assert await sqs("ListQueues", QueueNamePrefix="B-") == {"QueueUrls": []}
    assert await sqs("ListQueues", QueueNamePrefix="\ud800") == {}
    page = await sqs("ListQueues", QueueNamePrefix="b", MaxResults=2)
    assert page["QueueUrls"] == urls[1:3]
    assert await sqs("ListQueues", QueueNamePrefix="b", MaxResults=2, NextToken=page["NextToken"]) == {
        "QueueUrls": urls[3:4]
    }
    assert "NextToken" not in await sqs("ListQueues", MaxResults=5)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (
            {"MaxResults": 1_001},
            "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and 1000.",
        ),
        ({"MaxResults": 0}, None),
        ({"NextToken": "garbage!"}, "Invalid or expired next token."),
        ({"NextToken": "/w=="}, "Invalid or expired next token."),
    ],
)
async def test_list_refused(sqs: Sqs, members: dict[str, Any], text: str | None) -> None:
    code, message = await refused(sqs("ListQueues", **members))
    assert code == "InvalidParameterValue"
    assert text in (None, message)


async def test_tags(sqs: Sqs) -> None:
    url = (await sqs("CreateQueue", QueueName="q", tags={"a": "1"}))["QueueUrl"]
    await sqs("TagQueue", QueueUrl=url, Tags={"a": "2", "b": ""})
    assert await sqs("ListQueueTags", QueueUrl=url) == {"Tags": {"a": "2", "b": ""}}
    await sqs("UntagQueue", QueueUrl=url, TagKeys=["a", "absent"])
    assert await sqs("ListQueueTags", QueueUrl=url) == {"Tags": {"b": ""}}


KEYS = "Tag keys must be between 1 and 128 characters in length."


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        ({"": "x"}, KEYS),
        ({"k" * 129: "x"}, KEYS),
        ({"k": "v" * 257}, "Tag values must be between 0 and 256 characters in length."),
        ({"aws:k": "x"}, "Tag keys must not start with the reserved prefix aws:."),
        ({str(i): "x" for i in range(51)}, "Too many tags added for queue q."),
        ({"k": "\ud800"}, None),
    ],
)
async def test_tags_refused(sqs: Sqs, tags: dict[str, str], text: str | None) -> None:
    code, message = await refused(sqs("CreateQueue", QueueName="q", tags=tags))
    assert (code, message) == ("InvalidParameterValue", message if text is None else text)
    url = await sqs.queue()
    assert (await refused(sqs("TagQueue", QueueUrl=url, Tags=tags)))[0] == "InvalidParameterValue"


@pytest.mark.spec("purge.all-states", "purge.at-once", "purge.handles", "purge.again")
async def test_purge(sqs: Sqs) -> None:
    url = await sqs.queue()
    for delay_s in (0, 0, 5):
        await sqs.send(url, DelaySeconds=delay_s)
    (held,) = await sqs.receive(url, 1)
    assert await sqs.counts(url) == (1, 1, 1)
    await sqs("PurgeQueue", QueueUrl=url)
    assert await sqs.counts(url) == (0, 0, 0)
    await sqs.delete(url, held)
    await sqs.send(url, "after")
    in_progress = (
        "PurgeQueueInProgress",
        "Only one PurgeQueue operation on q is allowed every 60 seconds.",
    )
    assert await refused(sqs("PurgeQueue", QueueUrl=url)) == in_progress
    assert await sqs.bodies(url, VisibilityTimeout=0) == ["after"]
    sqs.advance(60)
    await sqs("PurgeQueue", QueueUrl=url)
    assert await sqs.receive(url) == []


async def test_delete_and_recreate(sqs: Sqs) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    (held,) = await sqs.receive(url)
    await sqs("DeleteQueue", QueueUrl=url)
    assert await refused(sqs("DeleteQueue", QueueUrl=url)) == NO_QUEUE
    assert await refused(sqs.send(url)) == NO_QUEUE
    assert await refused(sqs.receive(url)) == NO_QUEUE
    assert await refused(sqs.queue()) == (
        "QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
    )
    sqs.advance(60)
    assert await sqs.queue() == url
    assert await sqs.receive(url) == []
    assert (await refused(sqs.delete(url, held)))[0] == "ReceiptHandleIsInvalid"


class TestWithoutWait:
    @pytest.fixture
    def recreate_wait_s(self) -> int:
        return 0

    @pytest.mark.spec("create.deleted-recently-off")
    async def test_recreated_at_once(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        await sqs("DeleteQueue", QueueUrl=url)
        assert await sqs.queue() == url


async def test_a_crash_between_store_and_engine_is_repaired(sqs: Sqs) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    view = await sqs.service.cache.find((ACCOUNT, "us-east-1", "q"))
    assert view is not None
    await sqs.store.delete(view.queue, sqs.clock.now_ms())
    assert [queue.id for queue in await sqs.store.undropped()] == [view.queue.id]
    await sqs.service.start()
    assert await sqs.store.undropped() == []
    assert (await sqs.engine.receive(view.ref, 1, 0, sqs.clock.now_ms())).dropped


async def test_internal_queues_need_no_creation(sqs: Sqs) -> None:
    internal = root_caller("cns")
    shown = await sqs("GetQueueAttributes", QueueUrl="/cns/jobs.fifo", AttributeNames=["All"], caller=internal)
    attributes = shown["Attributes"]
    assert attributes["QueueArn"] == "arn:aws:sqs:internal:cns:jobs.fifo"
    assert (attributes["MessageRetentionPeriod"], attributes["MaximumMessageSize"]) == ("2592000", "2097152")
    assert attributes["FifoQueue"] == "true"
    assert await refused(sqs.receive("/cns/no name", caller=internal)) == NO_QUEUE
    assert await sqs("ListQueues") == {"QueueUrls": []}
    for url in (f"{BASE_URL}/cns/jobs", "jobs"):
        assert await refused(sqs.send(url)) == NO_QUEUE


async def test_a_stale_cached_queue(sqs: Sqs) -> None:
    """The engine learns of another process's deletion before the cache does."""
    url = await sqs.queue()
    view = await sqs.service.cache.find((ACCOUNT, "us-east-1", "q"))
    assert view is not None
    await sqs.engine.drop(view.ref, sqs.clock.now_ms())
    assert await refused(sqs.send(url)) == NO_QUEUE
    assert await refused(sqs.receive(url)) == NO_QUEUE
    assert await refused(sqs.receive(url, WaitTimeSeconds=20)) == NO_QUEUE
    await sqs("DeleteQueue", QueueUrl=url)
    sqs.advance(60)
    await sqs.queue()
    assert await refused(sqs.service.queues.set_attributes(view, {"DelaySeconds": "1"})) == NO_QUEUE
