"""Publish through the API: the jobs of accepted messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob, PublishJob
from cns.limits import NOTIFICATION_MS, Quotas
from cns.notification import Notification
from cns_common.clock import Clock
from tests.integration.sns.cns_support import ACCOUNT, REGION, Rig, invalid, open_rig

TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
ATTRIBUTES = {
    "a": {"DataType": "String", "StringValue": "v"},
    "b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, Clock(), Quotas()) as rig:
        await rig.topic()
        yield rig


async def test_a_small_topic_gets_its_endpoint_job_at_once(rig: Rig) -> None:
    arns = sorted([await rig.queue_subscription(TOPIC, f"q{number}") for number in range(100)])
    result = await rig(
        "Publish",
        TopicArn=TOPIC,
        Message="text",
        Subject="subject",
        MessageGroupId="g",
        MessageAttributes=ATTRIBUTES,
    )
    (put,) = rig.queue.new_jobs
    assert (put.queue, put.id, put.group, put.delay_ms) == (jobs.ENDPOINT_JOBS, result["MessageId"], TOPIC, 0)
    job = rig.endpoint_job()
    assert list(job.subscriptions) == arns
    assert job.inline is not None
    assert job.inline == Notification(
        id=result["MessageId"],
        topic_arn=TOPIC,
        timestamp_ms=job.inline.timestamp_ms,
        texts={"default": "text"},
        subject="subject",
        attributes={"a": ("String", "v"), "b": ("Binary", "AP8=")},
        message_group_id="g",
        trace_header="Root=1-2",
    )
    assert rig.service.dispatcher.outcomes == {"small": 1}


async def test_a_larger_topic_gets_a_publish_job(rig: Rig) -> None:
    for number in range(101):
        await rig.queue_subscription(TOPIC, f"q{number}")
    result = await rig("Publish", TopicArn=TOPIC, Message="text")
    (put,) = rig.queue.new_jobs
    assert (put.queue, put.id, put.group) == (jobs.PUBLISH_JOBS, result["MessageId"], ACCOUNT)
    job = rig.publish_job()
    assert job.inline is not None and job.inline.texts == {"default": "text"}
    topic = await rig.topics.get(TOPIC)
    assert topic is not None
    assert job == PublishJob(result["MessageId"], TOPIC, job.inline, topic_id=topic.id)
    assert rig.service.dispatcher.outcomes == {"large": 1}


@pytest.mark.parametrize("subscriptions", [1, 101])
async def test_a_large_message_is_stored_once(rig: Rig, subscriptions: int) -> None:
    for number in range(subscriptions):
        await rig.queue_subscription(TOPIC, f"q{number}")
    message_id = (await rig("Publish", TopicArn=TOPIC, Message="m" * 16_385))["MessageId"]
    (job,) = rig.queue.take()
    assert isinstance(job, EndpointJob | PublishJob)
    assert (job.notification_id, job.inline) == (message_id, None)
    stored = await rig.notifications.get(message_id)
    assert stored is not None and stored.texts == {"default": "m" * 16_385}
    assert await rig.notifications.sweep(stored.timestamp_ms + NOTIFICATION_MS - 1, 10) == 0
    await rig.notifications.add_references(message_id, -1)
    assert await rig.notifications.get(message_id) is None


async def test_messages_up_to_16_kib_are_in_the_job(rig: Rig) -> None:
    await rig.queue_subscription(TOPIC)
    message_id = (await rig("Publish", TopicArn=TOPIC, Message="m" * 16_384))["MessageId"]
    assert rig.endpoint_job().inline is not None
    assert await rig.notifications.get(message_id) is None


async def test_the_notification_is_put_before_its_job(rig: Rig) -> None:
    """Both calls start in this order in one turn of the event loop, so the job is never durable first."""
    calls: list[str] = []
    put_notification, put_jobs = rig.notifications.put, rig.queue.enqueue

    async def record_notification(*arguments: Any) -> None:
        calls.append("notification")
        await put_notification(*arguments)

    async def record_jobs(*arguments: Any) -> None:
        calls.append("jobs")
        await put_jobs(*arguments)

    rig.notifications.put, rig.queue.enqueue = record_notification, record_jobs  # type: ignore[assignment, method-assign]
    await rig.queue_subscription(TOPIC)
    await rig("Publish", TopicArn=TOPIC, Message="m" * 20_000)
    assert calls == ["notification", "jobs"]


async def test_topic_settings_apply_at_once(rig: Rig) -> None:
    await rig.queue_subscription(TOPIC)
    await rig("Publish", TopicArn=TOPIC, Message="m" * 2_000)
    for name, text in {"MaximumMessageSize": "1024", "SignatureVersion": "2"}.items():
        await rig.set(TOPIC, name, text)
    assert await rig.refusal("Publish", TopicArn=TOPIC, Message="m" * 2_000) == invalid("Message too long")
    rig.queue.take()
    await rig("Publish", TopicArn=TOPIC, Message="m" * 1_024)
    inline = rig.endpoint_job().inline
    assert inline is not None and inline.signature_version == "2"
    await rig.set(TOPIC, "MaximumMessageSize", "1048576")
    await rig("Publish", TopicArn=TOPIC, Message="m" * 1_048_576)


async def test_a_cleared_cache_reads_changes_without_announcement(rig: Rig) -> None:
    await rig("Publish", TopicArn=TOPIC, Message="m" * 2_000)
    callbacks, rig.topics.changed = rig.topics.changed, []
    await rig.set(TOPIC, "MaximumMessageSize", "1024")
    rig.topics.changed = callbacks
    await rig("Publish", TopicArn=TOPIC, Message="m" * 2_000)
    rig.service.topic_cache.clear()
    assert await rig.refusal("Publish", TopicArn=TOPIC, Message="m" * 2_000) == invalid("Message too long")


async def test_a_topic_that_changes_during_its_read_is_not_cached(rig: Rig) -> None:
    """A topic that was read before a change and returned after its announcement must not stay in the cache."""
    await rig.queue_subscription(TOPIC)
    await rig("DeleteTopic", TopicArn=TOPIC)
    await rig.topic()
    read = rig.topics.get

    async def change_meanwhile(arn: str) -> Any:
        before = await read(arn)
        rig.topics.get = read  # type: ignore[method-assign]
        await rig.set(TOPIC, "MaximumMessageSize", "1024")
        return before

    rig.topics.get = change_meanwhile  # type: ignore[method-assign]
    await rig("Publish", TopicArn=TOPIC, Message="m" * 2_000)
    assert await rig.refusal("Publish", TopicArn=TOPIC, Message="m" * 2_000) == invalid("Message too long")
