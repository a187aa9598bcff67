"""Publishes to queues of the same store: delivered by the commit of the publish, unless a job would be overtaken."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cns.archives.replay_jobs import replay_job
from cns.delivery.jobs import EndpointJob, PublishJob, own_queues_group
from cns.notification import Notification
from cns.publishing.local_queues import BYTES_MAX, MESSAGES_MAX
from cns_common.events.schema import DeliveryAttempted, DeliveryDelivered, PublishAccepted
from cns_common.metrics.catalogue import DELIVERIES
from cqs.engines.contract import QueueRef
from tests.integration.sns.publishing.local_site import ACCOUNT, LocalSite, local_site, url_of

ABSENT = f"arn:aws:sqs:us-east-1:{ACCOUNT}:absent"
WEB = "https://example.com/"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[LocalSite]:
    async with local_site(tmp_path) as site:
        yield site


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


async def test_no_job_is_left(site: LocalSite) -> None:
    topic, queues = await site.topic(), [await site.queue(f"q{n}") for n in range(3)]
    subscriptions = [await site.subscribe(topic, queue) for queue in queues]
    message_id = await site.publish(topic, "hello")
    assert [bodies(await site.received(queue)) for queue in queues] == [["hello"]] * 3
    assert not await site.jobs()
    accepted, *rest = site.events.events
    assert isinstance(accepted, PublishAccepted)
    assert (accepted.message_id, accepted.jobs, accepted.matched) == (message_id, 0, 3)
    assert accepted.has_recipients
    ends = [event for event in rest if isinstance(event, DeliveryDelivered)]
    attempts = [event for event in rest if isinstance(event, DeliveryAttempted)]
    assert {event.subscription for event in ends} == {event.subscription for event in attempts} == set(subscriptions)
    assert {(event.message_id, event.attempt, event.size_bytes) for event in ends} == {(message_id, 1, 5)}
    counted = {sample.labels: sample.value for sample in site.delivery.samples() if sample.name == DELIVERIES.name}
    assert counted == {(("protocol", "sqs"),): 3}
    assert site.service.dispatcher.outcomes == {"delivered": 1}


@pytest.mark.parametrize("raw", ["true", "false"])
@pytest.mark.parametrize("structured", [False, True])
async def test_a_queue_gets_what_a_worker_would_send(site: LocalSite, raw: str, structured: bool) -> None:
    """A paused subscription's message goes by a worker; but for the ids of that delivery it is the same to the byte."""
    topic, by_commit, by_job = await site.topic(), await site.queue("commit"), await site.queue("job")
    await site.subscribe(topic, by_commit, RawMessageDelivery=raw)
    paused = await site.subscribe(topic, by_job, RawMessageDelivery=raw)
    await site.sns(
        "SetSubscriptionAttributes", SubscriptionArn=paused, AttributeName="DeliveryPaused", AttributeValue="true"
    )
    text = json.dumps({"default": "d", "sqs": "q ü 😀"}) if structured else "m ü 😀"
    attributes = {
        "text": {"DataType": "String.own", "StringValue": "v"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        "n": {"DataType": "Number", "StringValue": "1.50"},
    }
    more = {"MessageStructure": "json"} if structured else {}
    await site.publish(topic, text, Subject="s", MessageAttributes=attributes, MessageGroupId="tenant", **more)
    (first,) = await site.received(by_commit)
    assert await site.received(by_job) == []
    async with site.working():
        await site.sns(
            "SetSubscriptionAttributes", SubscriptionArn=paused, AttributeName="DeliveryPaused", AttributeValue="false"
        )
        await site.until_idle()
    (second,) = await site.received(by_job)
    for message, name in ((first, by_commit), (second, by_job)):
        for key in ("MessageId", "ReceiptHandle", "MD5OfBody"):
            del message[key]
        for key in ("SentTimestamp", "ApproximateFirstReceiveTimestamp"):
            del message["Attributes"][key]
        arn = await _subscription_of(site, topic, name)
        message["Body"] = message["Body"].replace(arn, "ARN")
    assert first == second
    assert first["Attributes"]["MessageGroupId"] == "tenant"


async def _subscription_of(site: LocalSite, topic: str, endpoint: str) -> str:
    listed = await site.sns("ListSubscriptionsByTopic", TopicArn=topic)
    return next(str(one["SubscriptionArn"]) for one in listed["Subscriptions"] if one["Endpoint"] == endpoint)


async def test_other_protocols_get_a_job(site: LocalSite) -> None:
    topic, queue = await site.topic(), await site.queue("q")
    await site.subscribe(topic, queue)
    web = await site.subscribe(topic, "+15551234567", "sms")
    await site.publish(topic, "m")
    assert bodies(await site.received(queue)) == ["m"]
    ((group, job),) = await site.jobs()
    assert isinstance(job, EndpointJob)
    assert (group, job.subscriptions) == (topic, (web,))


@pytest.mark.parametrize("fault", ["absent", "closed", "paused"])
async def test_a_queue_that_takes_nothing_now_gets_a_job_of_its_own(site: LocalSite, fault: str) -> None:
    topic, good = await site.topic(), await site.queue("good")
    await site.subscribe(topic, good)
    queue = ABSENT if fault == "absent" else await site.queue("bad", is_open=fault != "closed")
    bad = await site.subscribe(topic, queue)
    if fault == "paused":
        await site.sns(
            "SetSubscriptionAttributes", SubscriptionArn=bad, AttributeName="DeliveryPaused", AttributeValue="true"
        )
    await site.publish(topic, "m")
    assert bodies(await site.received(good)) == ["m"]
    ((group, job),) = await site.jobs()
    assert isinstance(job, EndpointJob)
    assert (group, job.subscriptions) == (bad, (bad,))


async def test_a_job_that_waits_is_not_overtaken(site: LocalSite) -> None:
    topic, other, queue = await site.topic(), await site.queue("other"), await site.queue("q", is_open=False)
    await site.subscribe(topic, other)
    await site.subscribe(topic, queue)
    await site.publish(topic, "1")
    await site.open_to_topics(queue)
    await site.publish(topic, "2")
    await site.sns(
        "PublishBatch",
        TopicArn=topic,
        PublishBatchRequestEntries=[{"Id": text, "Message": text} for text in ("3", "4")],
    )
    assert bodies(await site.received(other)) == ["1", "2", "3", "4"]
    assert await site.received(queue) == []
    async with site.working():
        assert await site.texts(queue, 4) == ["1", "2", "3", "4"]
        await site.until_idle()
    await site.publish(topic, "5")
    assert bodies(await site.received(queue)) == ["5"]
    assert not await site.jobs()


async def test_held_messages_are_not_overtaken(site: LocalSite) -> None:
    """A resumed subscription has messages in its lane that a worker has not sent yet."""
    topic, queue = await site.topic(), await site.queue("q")
    arn = await site.subscribe(topic, queue)
    await site.sns(
        "SetSubscriptionAttributes", SubscriptionArn=arn, AttributeName="DeliveryPaused", AttributeValue="true"
    )
    async with site.working():
        await site.publish(topic, "1")
        while [group for group, _ in await site.jobs()] == [arn]:
            await asyncio.sleep(0.02)
    await site.sns(
        "SetSubscriptionAttributes", SubscriptionArn=arn, AttributeName="DeliveryPaused", AttributeValue="false"
    )
    await site.publish(topic, "2")
    assert await site.received(queue) == []
    assert len(await site.jobs()) == 2


async def test_a_large_message_is_stored_for_its_jobs_alone(site: LocalSite) -> None:
    topic, queue, text = await site.topic(), await site.queue("q"), "x" * 20_000
    await site.subscribe(topic, queue)
    message_id = await site.publish(topic, text)
    assert bodies(await site.received(queue)) == [text]
    assert await site.backend.notifications.get(message_id) is None
    await site.subscribe(topic, ABSENT)
    await site.subscribe(topic, "+15551234567", "sms")
    message_id = await site.publish(topic, text)
    assert await site.backend.notifications.get(message_id) is not None
    async with site.working():
        await site.until_idle()
    assert await site.backend.notifications.get(message_id) is None


@pytest.mark.parametrize(("n", "size"), [(MESSAGES_MAX // 10 + 1, 10), (5, 1024 * 1024 // 4)])
async def test_a_call_delivers_a_bounded_number(site: LocalSite, n: int, size: int) -> None:
    topic, queues = await site.topic(), [await site.queue(f"q{number}") for number in range(n)]
    for queue in queues:
        await site.subscribe(topic, queue)
    entries = 10 if size < BYTES_MAX // MESSAGES_MAX else 1
    await site.sns(
        "PublishBatch",
        TopicArn=topic,
        PublishBatchRequestEntries=[{"Id": str(e), "Message": str(e) * size} for e in range(entries)],
    )
    at_once = sum([len(await site.received(queue)) for queue in queues])
    assert at_once == min(MESSAGES_MAX, BYTES_MAX // size)
    left = [job for _, job in await site.jobs()]  # one for each notification
    assert sum([len(job.subscriptions) for job in left if isinstance(job, EndpointJob)]) == n * entries - at_once
    assert len(left) == len({job.notification_id for job in left if isinstance(job, EndpointJob)})


async def test_what_is_beyond_the_bounds_follows_what_its_queue_refused(site: LocalSite) -> None:
    topic, queues = (
        await site.topic(),
        [await site.queue(f"q{n}", is_open=False) for n in range(MESSAGES_MAX // 10 + 1)],
    )
    subscriptions = [await site.subscribe(topic, queue) for queue in queues]
    await site.sns(
        "PublishBatch",
        TopicArn=topic,
        PublishBatchRequestEntries=[{"Id": str(entry), "Message": "m"} for entry in range(10)],
    )
    assert Counter(group for group, _ in await site.jobs()) == dict.fromkeys(subscriptions, 10)


async def test_bytes_are_counted_and_not_characters(site: LocalSite) -> None:
    topic, queues = await site.topic(), [await site.queue(f"q{number}") for number in range(5)]
    for queue in queues:
        await site.subscribe(topic, queue)
    await site.publish(topic, "\N{GRINNING FACE}" * (BYTES_MAX // 16))
    assert sum([len(await site.received(queue)) for queue in queues]) == 4


async def test_an_entry_does_not_overtake_an_earlier_one_beyond_the_bounds(site: LocalSite) -> None:
    topic, queues = await site.topic(), [await site.queue(f"q{number}") for number in range(10)]
    for queue in queues:
        await site.subscribe(topic, queue)
    texts = ["a" * (BYTES_MAX // 5), "b"]
    await site.sns(
        "PublishBatch",
        TopicArn=topic,
        PublishBatchRequestEntries=[{"Id": text[0], "Message": text} for text in texts],
    )
    async with site.working():
        for queue in queues:
            assert await site.texts(queue, 2) == texts
        await site.until_idle()


async def test_the_queues_of_a_topic_follow_the_job_that_they_share(site: LocalSite) -> None:
    topic, queues = await site.topic(), [await site.queue(f"q{number}") for number in range(6)]
    for queue in queues:
        await site.subscribe(topic, queue)
    await site.publish(topic, "a" * (BYTES_MAX // 5))
    await site.publish(topic, "b")
    received = {queue: len(await site.received(queue)) for queue in queues}
    (behind,) = [queue for queue, n in received.items() if not n]
    assert sum(received.values()) == len(queues) - 1
    assert [(group, len(job.subscriptions)) for group, job in await site.jobs() if isinstance(job, EndpointJob)] == [
        (own_queues_group(topic), 1),
        (own_queues_group(topic), 6),
    ]
    async with site.working():
        assert [text[0] for text in await site.texts(behind, 2)] == ["a", "b"]
        await site.until_idle()
    await site.publish(topic, "c")
    assert not await site.jobs()


async def test_a_topic_with_many_subscriptions_is_fanned_out(site: LocalSite) -> None:
    topic, queue = await site.topic(), await site.queue("q")
    await site.subscribe(topic, queue)
    for number in range(100):
        await site.subscribe(topic, f"+1555123{number:04d}", "sms")
    await site.publish(topic)
    assert await site.received(queue) == []
    ((_, job),) = await site.jobs()
    assert isinstance(job, PublishJob)


async def test_filters_decide(site: LocalSite) -> None:
    topic, all_of_it, some = await site.topic(), await site.queue("all"), await site.queue("some")
    await site.subscribe(topic, all_of_it)
    await site.subscribe(topic, some, FilterPolicy='{"k": ["v"]}')
    for value in ("v", "w"):
        await site.publish(topic, value, MessageAttributes={"k": {"DataType": "String", "StringValue": value}})
    assert bodies(await site.received(all_of_it)) == ["v", "w"]
    assert bodies(await site.received(some)) == ["v"]


async def test_an_audited_queue_has_its_event_before_the_answer(site: LocalSite) -> None:
    topic, queue = await site.topic(), await site.queue("q", Audit="on")
    await site.subscribe(topic, queue)
    site.audit.events.clear()
    await site.publish(topic)
    assert [type(event).__name__ for event in site.audit.events] == ["MessageSent"]
    other = await site.queue("other", Audit="on")
    await site.subscribe(topic, other)
    site.audit.events.clear()
    await site.publish(topic)
    assert [type(event).__name__ for event in site.audit.events] == ["MessageSent"] * 2
    site.audit.refuses = True
    await site.publish(topic)  # the queue takes nothing while its events cannot be written: a worker tries again
    assert len(await site.jobs()) == 2


async def test_an_archive_has_what_was_delivered(site: LocalSite) -> None:
    topic, queue = await site.topic(ArchivePolicy='{"MessageRetentionPeriod": "30"}'), await site.queue("q")
    await site.subscribe(topic, queue)
    message_id = await site.publish(topic)
    view = await site.service.topic_cache.find(topic)
    assert view is not None and view.topic.archive is not None
    page = await site.backend.archives.page(view.topic.archive.id, 0, 1 << 60, "", 10)
    assert [one.notification.id for one in page] == [message_id]
    assert bodies(await site.received(queue)) == ["m"]


async def test_envelopes_without_signatures(site: LocalSite) -> None:
    """`SignQueueEnvelopes` changes queues' envelopes and nothing else of them."""
    topic, queue = await site.topic(), await site.queue("q")
    await site.subscribe(topic, queue, RawMessageDelivery="false")
    await site.publish(topic)
    await site.sns("SetTopicAttributes", TopicArn=topic, AttributeName="SignQueueEnvelopes", AttributeValue="false")
    await site.publish(topic)
    signed, bare = (json.loads(body) for body in bodies(await site.received(queue)))
    assert set(signed) - set(bare) == {"SignatureVersion", "Signature", "SigningCertURL"}
    assert set(bare) == {"Type", "MessageId", "TopicArn", "Message", "Timestamp", "UnsubscribeURL"}


async def test_a_dead_letter_names_its_cause(site: LocalSite) -> None:
    """A refused message has the way of a job: its cause, and its dead-letter queue."""
    topic, dead = await site.topic(), await site.queue("dead")
    await site.subscribe(topic, ABSENT, RedrivePolicy=json.dumps({"deadLetterTargetArn": dead}))
    await site.publish(topic, "lost")
    async with site.working():
        assert await site.texts(dead, 1) == ["lost"]


async def test_a_dropped_queue_of_the_cache(site: LocalSite) -> None:
    """Another process deleted the queue: this one still has it in its cache, and the engine refuses."""
    topic, queue, other = await site.topic(), await site.queue("q"), await site.queue("other")
    for each in (queue, other):
        await site.subscribe(topic, each)
    await site.publish(topic, "1")
    found = await site.sqs("GetQueueAttributes", QueueUrl=url_of(queue), AttributeNames=["QueueArn"])
    assert found["Attributes"]["QueueArn"] == queue
    stored = await site.backend.queues.get((ACCOUNT, "us-east-1", "q"))
    assert stored is not None
    await site.backend.engine.drop(QueueRef(stored.id, False, 0), site.backend.clock.now_ms())
    await site.publish(topic, "2")
    assert bodies(await site.received(other)) == ["1", "2"]
    assert len(await site.jobs()) == 1


async def test_a_policy_that_ends(tmp_path: Path) -> None:
    async with local_site(tmp_path, test_clock=True) as site:
        topic, queue = await site.topic(), await site.queue("q", is_open=False)
        end_s = site.backend.clock.now_ms() // 1000 + 3_600
        await site.open_to_topics(queue, Condition={"NumericLessThan": {"aws:EpochTime": str(end_s)}})
        await site.subscribe(topic, queue)
        await site.publish(topic, "in time")
        site.backend.clock.advance(3_600_000)
        await site.publish(topic, "late")
        assert bodies(await site.received(queue)) == ["in time"]
        assert len(await site.jobs()) == 1


async def test_a_replay_is_not_overtaken(site: LocalSite) -> None:
    topic, queue = await site.topic(), await site.queue("q")
    arn = await site.subscribe(topic, queue)
    old = Notification(id="old", topic_arn=topic, timestamp_ms=1, texts={"default": "old"})
    await site.port.enqueue([replay_job(arn, old, "replay")])
    await site.publish(topic, "new")
    async with site.working():
        assert await site.texts(queue, 2) == ["old", "new"]
        await site.until_idle()
