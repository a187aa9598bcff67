"""Queues: creating, finding, listing, changing, tagging, purging and deleting them."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.aws.call import root_caller
from cns_common.errors import RequestError, StoreFull
from tests.integration.cqs.sqs import ACCOUNT, BASE_URL, Sqs, refused

NO_QUEUE = ("QueueDoesNotExist", "The specified queue does not exist.")


async def test_created_by_many_at_once_is_one(sqs: Sqs) -> None:
    await asyncio.gather(*[sqs.queue("q") for _ in range(5)])
    with pytest.raises(RequestError):
        await asyncio.gather(*[sqs.queue("other", DelaySeconds=str(i)) for i in range(5)])
    assert len((await sqs("ListQueues"))["QueueUrls"]) == 2


async def test_engine_is_chosen_at_creation(sqs: Sqs) -> None:
    url = await sqs.queue(Engine="embedded")
    assert await sqs.attributes(url, "Engine") == {"Engine": "embedded"}
    assert (await sqs.attributes(url))["Engine"] == "embedded"
    await sqs.queue(Engine="embedded")
    assert (await refused(sqs.queue(Engine="other")))[0] == "QueueNameExists"
    assert "Engine" not in await sqs.attributes(await sqs.queue("as-in-sqs"))


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
