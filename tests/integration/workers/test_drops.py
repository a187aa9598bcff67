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
from cns.delivery.jobs import ConfirmationJob, EndpointJob, PublishJob
from cns.delivery.retry_policy import RetryPolicy
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Delivered, Failed
from cns.subscriptions.subscription import SubscriptionState
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


# -- before anybody is asked to take it -------------------------------------------------------------------------------


async def publish_job_without_its_notification(drops: DropFixture) -> None:
    await drops.put(jobs.PUBLISH_JOBS, PublishJob("m", TOPIC.arn))
    await drops.producer.step()


async def fifo_publish_job_without_its_notification(drops: DropFixture) -> None:
    await drops.put(jobs.FIFO_PUBLISH_JOBS, PublishJob("m", FIFO.arn))
    await drops.fifo_producer.step()


async def publish_job_of_a_topic_that_is_gone(drops: DropFixture) -> None:
    await drops.put(jobs.PUBLISH_JOBS, PublishJob("m", TOPIC.arn, message(TOPIC)))
    await drops.producer.step()


async def publish_job_of_an_earlier_topic(drops: DropFixture) -> None:
    await drops.put(jobs.PUBLISH_JOBS, PublishJob("m", TOPIC.arn, message(TOPIC), topic_id=TOPIC.id))
    await drops.recreate(TOPIC)
    await drops.producer.step()


async def fifo_publish_job_of_an_earlier_topic(drops: DropFixture) -> None:
    await drops.put(jobs.FIFO_PUBLISH_JOBS, PublishJob("m", FIFO.arn, message(FIFO), topic_id=FIFO.id))
    await drops.recreate(FIFO)
    await drops.fifo_producer.step()


async def malformed_attributes(drops: DropFixture) -> None:
    await drops.subscribe(policy=PAID)
    await drops.put(jobs.PUBLISH_JOBS, PublishJob("m", TOPIC.arn, message(TOPIC, attributes=MALFORMED)))
    await drops.producer.step()


async def malformed_attributes_at_a_fifo_topic_that_waits_for_a_replay(drops: DropFixture) -> None:
    """It is looked at again and again, and given up once."""
    await drops.subscribe(FIFO, PAID)
    waiting = await drops.subscribe(FIFO, id="00000002-0000-4000-8000-000000000000", endpoint="http://example.com/2")
    replay = Replay(
        id="r", topic_arn=FIFO.arn, archive_id="a", subscription_arn=waiting, policy="", start_ms=0, set_ms=0
    )
    drops.fifo_producer = FifoProducer(
        drops.fanout,
        cast(Any, NoReplays(replace(replay, status="In progress", claimed="9" * 20), looks=3)),
    )
    await drops.put(jobs.FIFO_PUBLISH_JOBS, PublishJob("m", FIFO.arn, message(FIFO, attributes=MALFORMED)))
    async with asyncio.timeout(PATIENCE_S):
        while await drops.port.depth(jobs.FIFO_PUBLISH_JOBS):
            await drops.fifo_producer.step()
            drops.backend.clock.advance(1_000)


# -- when it is to be sent --------------------------------------------------------------------------------------------


async def subscription_gone(drops: DropFixture) -> None:
    assert await drops.attempts(EndpointJob("m", TOPIC.arn, (f"{TOPIC.arn}:gone",), message(TOPIC))).load() == []


async def subscription_set_aside(drops: DropFixture) -> None:
    arn = await drops.subscribe(state=SubscriptionState.REMOVED, expires_ms=1 << 60)
    assert await drops.attempts(EndpointJob("m", TOPIC.arn, (arn,), message(TOPIC))).load() == []


async def subscription_of_a_confirmation_gone(drops: DropFixture) -> None:
    gone = f"{TOPIC.arn}:gone"
    job = ConfirmationJob("SubscriptionConfirmation", "m", gone, TOPIC.arn, "token", 1, "http://localhost")
    assert await drops.attempts(job).load() == []


async def endpoint_job_without_its_notification(drops: DropFixture) -> None:
    arn = await drops.subscribe()
    assert await drops.attempts(EndpointJob("m", TOPIC.arn, (arn,))).load() == []


async def fifo_subscription_gone(drops: DropFixture) -> None:
    await deliver_in_order(drops, EndpointJob("m", FIFO.arn, (f"{FIFO.arn}:gone",), message(FIFO), "1"))


async def fifo_endpoint_job_without_its_notification(drops: DropFixture) -> None:
    arn = await drops.subscribe(FIFO)
    await deliver_in_order(drops, EndpointJob("m", FIFO.arn, (arn,), None, "1"))


async def deliver_in_order(drops: DropFixture, job: EndpointJob) -> None:
    await drops.put(jobs.FIFO_ENDPOINT_JOBS, job)
    consumer = FifoConsumer(drops.context, cast(Channels, None), cast(AdmissionController, None))
    await consumer.step()
    await consumer.drain(5.0)


# -- after the last attempt -------------------------------------------------------------------------------------------


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


async def spent(drops: DropFixture) -> None:
    assert await drops.ends(target(), STATUS) is None


async def refused_for_good(drops: DropFixture) -> None:
    assert await drops.ends(target(), replace(STATUS, permanent=True)) is None


async def dead_letter_queue_refuses(drops: DropFixture) -> None:
    denied = Failed(Cause.QUEUE, "AccessDenied", 0, permanent=True)
    assert await drops.ends(target(dead_letter_arn="arn:aws:sqs:us-east-1:1:dead"), STATUS, denied) is None


Way = Callable[[DropFixture], Awaitable[None]]
ONE, OF_ALL = 1, 0


@pytest.mark.spec("sns-dead-letter.none", "filter-attribute.malformed")
@pytest.mark.parametrize(
    "way, cause, subscription, subscriptions",
    [
        (publish_job_without_its_notification, "notification_lost", "", OF_ALL),
        (fifo_publish_job_without_its_notification, "notification_lost", "", OF_ALL),
        (publish_job_of_a_topic_that_is_gone, "subscription_gone", "", OF_ALL),
        (publish_job_of_an_earlier_topic, "subscription_gone", "", OF_ALL),
        (fifo_publish_job_of_an_earlier_topic, "subscription_gone", "", OF_ALL),
        (malformed_attributes, "invalid_attributes", "", ONE),
        (malformed_attributes_at_a_fifo_topic_that_waits_for_a_replay, "invalid_attributes", "", ONE),
        (subscription_gone, "subscription_gone", "gone", ONE),
        (subscription_set_aside, "subscription_gone", "00000001", ONE),
        (subscription_of_a_confirmation_gone, "subscription_gone", "gone", ONE),
        (endpoint_job_without_its_notification, "notification_lost", "00000001", ONE),
        (fifo_subscription_gone, "subscription_gone", "gone", ONE),
        (fifo_endpoint_job_without_its_notification, "notification_lost", "00000001", ONE),
        (spent, "spent:status", "s", ONE),
        (refused_for_good, "permanent:status", "s", ONE),
        (dead_letter_queue_refuses, "dead_letter_queue_refused:status", "s", ONE),
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
    await drops.ends(target(dead_letter_arn="arn:aws:sqs:us-east-1:1:dead"), said, denied)
    (attempted, dropped) = drops.events.events
    assert isinstance(attempted, DeliveryAttempted) and isinstance(dropped, NotificationDropped)
    assert attempted.reason == said.text[:REASON_CHARS_MAX] and len(attempted.reason) == REASON_CHARS_MAX
    assert dropped.reason == denied.text


async def test_a_dead_letter_is_no_drop_and_one_that_cannot_be_put_yet_neither(drops: DropFixture) -> None:
    dying = target(dead_letter_arn="arn:aws:sqs:us-east-1:1:dead")
    assert await drops.ends(dying, STATUS, Delivered(200, 0, "id")) is None
    again = await drops.ends(dying, STATUS, Failed(Cause.QUEUE, "the store is away", 0))
    assert again is not None and again.failures == 1
    assert (drops.counted(), drops.told()) == ({}, [])


async def test_what_filters_keep_is_told_once_and_not_as_a_drop(drops: DropFixture) -> None:
    await drops.subscribe(policy=PAID)
    await drops.put(jobs.PUBLISH_JOBS, PublishJob("m", TOPIC.arn, message(TOPIC)))
    await drops.producer.step()
    matched, event = drops.events.events
    assert isinstance(matched, NotificationMatched) and isinstance(event, DeliveryFiltered)
    assert (matched.message_id, matched.matched, matched.part) == ("m", 0, "")
    assert (event.message_id, event.filtered, event.filter_keys) == ("m", 1, ("kind",))
    assert event.subscription_ids == ("00000001-0000-4000-8000-000000000000",)
    assert drops.counted() == {}
