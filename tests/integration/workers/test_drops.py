"""Every way in which a message ends without being delivered: counted once, by its cause, and told of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from cns.archives.replay import Replay
from cns.delivery import jobs
from cns.delivery.delivery_policy import DEFAULT_CONTENT_TYPE
from cns.delivery.jobs import ConfirmationJob, EndpointJob, PublishJob, TargetJob
from cns.delivery.retry_policy import RetryPolicy
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Delivered, Failed
from cns.subscriptions.subscription import SubscriptionState
from cns.topics.topic import Topic
from cns_common.events.schema import (
    REASON_CHARS_MAX,
    DeliveryAttempted,
    DeliveryFiltered,
    NotificationDropped,
    NotificationMatched,
)
from cns_workers.consumers.fifo_consumer import FifoConsumer
from cns_workers.delivery.channels import Channels
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.fanout.fifo_producer import FifoProducer
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.drop_fixture import ACCOUNT, FIFO, TOPIC, DropFixture, NoReplays
from tests.integration.workers.embedded_context import message

PAID = '{"kind":["paid"]}'
MALFORMED = {"list": ("String.Array", "[1")}
STATUS = Failed(Cause.STATUS, "500", 0, status=500)
NO_RETRIES = RetryPolicy(retries=0)


async def fan_out(drops: DropFixture, job: PublishJob, recreated: Topic | None = None) -> None:
    """A producer gets the job, perhaps of a topic that was made again meanwhile."""
    is_fifo = job.topic == FIFO.arn
    await drops.put(jobs.FIFO_PUBLISH_JOBS if is_fifo else jobs.PUBLISH_JOBS, job)
    if recreated is not None:
        await drops.recreate(recreated)
    await (drops.fifo_producer if is_fifo else drops.producer).step()


async def malformed_attributes(drops: DropFixture) -> None:
    await drops.subscribe(policy=PAID)
    await fan_out(drops, PublishJob("m", TOPIC.arn, message(TOPIC, attributes=MALFORMED)))


async def malformed_attributes_at_a_fifo_topic_that_waits_for_a_replay(drops: DropFixture) -> None:
    """It is looked at again and again, and given up once."""
    await drops.subscribe(FIFO, PAID)
    waiting = await drops.subscribe(FIFO, id="00000002-0000-4000-8000-000000000000", endpoint="http://example.com/2")
    replay = Replay(
        id="r", topic_arn=FIFO.arn, archive_id="a", subscription_arn=waiting, policy="", start_ms=0, set_ms=0
    )
    replays = NoReplays(replace(replay, status="In progress", claimed="9" * 20), looks=3)
    drops.fifo_producer = FifoProducer(drops.fanout, cast(Any, replays))
    await drops.put(jobs.FIFO_PUBLISH_JOBS, PublishJob("m", FIFO.arn, message(FIFO, attributes=MALFORMED)))
    async with asyncio.timeout(PATIENCE_S):
        while await drops.port.depth(jobs.FIFO_PUBLISH_JOBS):
            await drops.fifo_producer.step()
            drops.backend.clock.advance(1_000)


async def load(drops: DropFixture, job: TargetJob) -> None:
    """A consumer that finds no target."""
    assert await drops.attempts(job).load() == []


async def subscription_set_aside(drops: DropFixture) -> None:
    arn = await drops.subscribe(state=SubscriptionState.REMOVED, expires_ms=1 << 60)
    await load(drops, EndpointJob("m", TOPIC.arn, (arn,), message(TOPIC)))


async def endpoint_job_without_its_notification(drops: DropFixture) -> None:
    await load(drops, EndpointJob("m", TOPIC.arn, (await drops.subscribe(),)))


async def fifo_endpoint_job_without_its_notification(drops: DropFixture) -> None:
    await deliver_in_order(drops, EndpointJob("m", FIFO.arn, (await drops.subscribe(FIFO),), None, "1"))


async def deliver_in_order(drops: DropFixture, job: EndpointJob) -> None:
    await drops.put(jobs.FIFO_ENDPOINT_JOBS, job)
    consumer = FifoConsumer(drops.context, cast(Channels, None), cast(AdmissionController, None))
    await consumer.step()
    await consumer.drain(5.0)


def target(**members: Any) -> Target:
    whole: dict[str, Any] = {
        "arn": f"{TOPIC.arn}:s",
        "protocol": "http",
        "endpoint": "http://example.com/",
        "confirmed": True,
        "raw": False,
        "retry": NO_RETRIES,
        "content_type": DEFAULT_CONTENT_TYPE,
        "dead_letter_arn": "",
        "signature_version": "1",
        "account": ACCOUNT,
        "region": "us-east-1",
    }
    return Target(**(whole | members))


async def end(drops: DropFixture, outcome: Failed, letter: Failed | None = None) -> None:
    """After the last attempt; `letter` is the answer of the dead-letter queue, if there is one."""
    dying = target(dead_letter_arn=LETTERS if letter else "")
    assert await drops.ends(dying, outcome, letter) is None


Way = Callable[[DropFixture], Awaitable[None]]
ONE, OF_ALL = 1, 0
LETTERS = "arn:aws:sqs:us-east-1:1:dead"
DENIED = Failed(Cause.QUEUE, "AccessDenied", 0, permanent=True)
GONE, LOST = "subscription_gone", "notification_lost"
FIRST = "00000001"
OF_TOPIC, OF_FIFO = PublishJob("m", TOPIC.arn, message(TOPIC)), PublishJob("m", FIFO.arn, message(FIFO))
TO_GONE = EndpointJob("m", TOPIC.arn, (f"{TOPIC.arn}:gone",), message(TOPIC))
TO_FIFO_GONE = EndpointJob("m", FIFO.arn, (f"{FIFO.arn}:gone",), message(FIFO), "1")
CONFIRMATION = ConfirmationJob(
    "SubscriptionConfirmation", "m", f"{TOPIC.arn}:gone", TOPIC.arn, "token", 1, "http://localhost"
)


@pytest.mark.spec("sns-dead-letter.none", "filter-attribute.malformed")
@pytest.mark.parametrize(
    "way, cause, subscription, subscriptions",
    [
        # before anybody is asked to take it
        (lambda drops: fan_out(drops, PublishJob("m", TOPIC.arn)), LOST, "", OF_ALL),
        (lambda drops: fan_out(drops, PublishJob("m", FIFO.arn)), LOST, "", OF_ALL),
        (lambda drops: fan_out(drops, OF_TOPIC), GONE, "", OF_ALL),
        (lambda drops: fan_out(drops, replace(OF_TOPIC, topic_id=TOPIC.id), TOPIC), GONE, "", OF_ALL),
        (lambda drops: fan_out(drops, replace(OF_FIFO, topic_id=FIFO.id), FIFO), GONE, "", OF_ALL),
        (malformed_attributes, "invalid_attributes", "", ONE),
        (malformed_attributes_at_a_fifo_topic_that_waits_for_a_replay, "invalid_attributes", "", ONE),
        # when it is to be sent
        (lambda drops: load(drops, TO_GONE), GONE, "gone", ONE),
        (subscription_set_aside, GONE, FIRST, ONE),
        (lambda drops: load(drops, CONFIRMATION), GONE, "gone", ONE),
        (endpoint_job_without_its_notification, LOST, FIRST, ONE),
        (lambda drops: deliver_in_order(drops, TO_FIFO_GONE), GONE, "gone", ONE),
        (fifo_endpoint_job_without_its_notification, LOST, FIRST, ONE),
        # after the last attempt
        (lambda drops: end(drops, STATUS), "spent:status", "s", ONE),
        (lambda drops: end(drops, replace(STATUS, permanent=True)), "permanent:status", "s", ONE),
        (lambda drops: end(drops, STATUS, DENIED), "dead_letter_queue_refused:status", "s", ONE),
    ],
)
async def test_it_is_counted_once_by_its_cause(
    drops: DropFixture, way: Way, cause: str, subscription: str, subscriptions: int
) -> None:
    await way(drops)
    assert drops.counted() == {cause: 1}
    assert drops.told() == [(cause, subscription, subscriptions)]


async def test_what_was_answered_is_told(drops: DropFixture) -> None:
    said = replace(STATUS, text="HTTP 500 Oops: " + "x" * 1_000)
    denied = Failed(Cause.QUEUE, "AccessDenied: queue policy denies topic t", 0, permanent=True)
    await drops.ends(target(dead_letter_arn=LETTERS), said, denied)
    (attempted, dropped) = drops.events.events
    assert isinstance(attempted, DeliveryAttempted) and isinstance(dropped, NotificationDropped)
    assert attempted.reason == said.text[:REASON_CHARS_MAX] and len(attempted.reason) == REASON_CHARS_MAX
    assert dropped.reason == denied.text


async def test_a_dead_letter_is_no_drop_and_one_that_cannot_be_put_yet_neither(drops: DropFixture) -> None:
    dying = target(dead_letter_arn=LETTERS)
    assert await drops.ends(dying, STATUS, Delivered(200, 0, "id")) is None
    again = await drops.ends(dying, STATUS, Failed(Cause.QUEUE, "the store is away", 0))
    assert again is not None and again.failures == 1
    assert (drops.counted(), drops.told()) == ({}, [])


async def test_what_filters_keep_is_told_once_and_not_as_a_drop(drops: DropFixture) -> None:
    await drops.subscribe(policy=PAID)
    await fan_out(drops, OF_TOPIC)
    matched, event = drops.events.events
    assert isinstance(matched, NotificationMatched) and isinstance(event, DeliveryFiltered)
    assert (matched.message_id, matched.matched, matched.part) == ("m", 0, "")
    assert (event.message_id, event.filtered, event.filter_keys) == ("m", 1, ("kind",))
    assert event.subscription_ids == ("00000001-0000-4000-8000-000000000000",)
    assert drops.counted() == {}
