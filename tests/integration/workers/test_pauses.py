"""Paused subscriptions: what is published is held, goes out in order at the resumption, and is not held for ever."""

from __future__ import annotations

import asyncio

from cns.delivery import jobs
from cns.delivery.failure_causes import FinalCause
from cns.delivery.jobs import ConfirmationJob
from cns.queue_port.contract import NewJob
from cns_common.events.schema import DeliveryAttempted, DeliveryDeadLettered
from cns_workers.consumers.job_attempts import HELD_MS_MAX
from tests.integration.workers.lane_host import REFUSED, TOOK, TOPIC, TOPICS, TURN_S, LaneHost, until


async def test_what_is_published_during_a_pause_goes_out_in_its_order(host: LaneHost) -> None:
    arn, other = await host.subscribed("a"), await host.subscribed("b")
    await host.pause(arn)
    host.endpoints.answers = {"a": [TOOK] * 3, "b": [TOOK] * 3}
    host.work()
    for text in ("1", "2", "3"):
        await host.publish(text, arn, other)
        await host.until_depth(jobs.ENDPOINT_JOBS, 0)
    await host.until_depth(jobs.LANES, 3)
    await asyncio.sleep(TURN_S)
    assert host.endpoints.names() == ["b", "b", "b"]
    await host.resume(arn)
    await host.until_depth(jobs.LANES, 0)  # long before the periodic look at the lane
    assert host.endpoints.names() == ["b", "b", "b", "a", "a", "a"]


async def test_a_retry_that_comes_due_is_held_and_counts_its_failures(host: LaneHost) -> None:
    arn = await host.subscribed("a")
    host.endpoints.answers["a"] = [REFUSED]
    host.work()
    await host.publish("1", arn)
    await host.until_depth(jobs.REDELIVERY, 1)
    await host.pause(arn)
    host.clock.advance(60_000)
    await host.until_depth(jobs.LANES, 1)
    assert host.endpoints.names() == ["a"]
    host.endpoints.answers["a"] = [TOOK]
    await host.resume(arn)
    await host.until_depth(jobs.LANES, 0)
    attempts = host.told(DeliveryAttempted)
    assert [event.attempt for event in attempts] == [1, 2]


async def test_a_pause_does_not_use_up_the_time_of_the_retry_policy(host: LaneHost) -> None:
    arn = await host.subscribed("a", dead_letters=True)
    await host.pause(arn)
    host.work()
    await host.publish("1", arn)
    await host.until_depth(jobs.LANES, 1)
    host.clock.advance(HELD_MS_MAX - 60_000)  # far more than any policy has
    host.endpoints.answers["a"] = [REFUSED]
    await host.resume(arn)
    await host.until_depth(jobs.REDELIVERY, 1)
    assert host.endpoints.buried == 0


async def test_after_fourteen_days_it_goes_to_the_dead_letter_queue(host: LaneHost) -> None:
    arn = await host.subscribed("a", dead_letters=True)
    await host.pause(arn)
    host.work()
    await host.publish("1", arn)
    await host.until_depth(jobs.LANES, 1)
    host.clock.advance(HELD_MS_MAX + 1)
    await host.until_depth(jobs.LANES, 0)
    # two events if the step of the clock ended a lease
    assert {(event.subscription, event.cause) for event in host.told(DeliveryDeadLettered)} == {
        (arn, FinalCause.DEADLINE_PAUSED)
    }


async def test_jobs_in_the_lane_of_the_endpoint_make_room_for_others_of_it(host: LaneHost) -> None:
    """Two subscriptions of one endpoint whose breaker is open share its lane. One of them is paused there."""
    first, second = await host.subscribed("a"), await host.subscribed("a", topic=TOPICS[1])
    await host.fail("a")
    host.work()
    await host.publish("1", first, second)
    await host.until_depth(jobs.LANES, 2)
    await until(host.hidden)  # no lease is left that the step of the clock could end
    await host.pause(first)
    host.endpoints.answers["a"] = [TOOK]
    host.clock.advance(120_000)  # the breaker probes
    await until(host.endpoints.names)
    await host.until_depth(jobs.LANES, 1)
    assert host.endpoints.names() == ["a"]
    host.endpoints.answers["a"] = [TOOK]
    await host.resume(first)
    await host.until_depth(jobs.LANES, 0)
    assert host.endpoints.names() == ["a", "a"]


async def test_confirmations_are_sent_to_a_paused_subscription(host: LaneHost) -> None:
    arn = await host.subscribed("a")
    await host.pause(arn)
    host.endpoints.answers["a"] = [TOOK]
    host.work()
    job = ConfirmationJob("UnsubscribeConfirmation", "c", arn, TOPIC.arn, "t", 1, "http://localhost")
    await host.port.enqueue([NewJob(jobs.ENDPOINT_JOBS, "c", jobs.encode(job), TOPIC.arn)])
    await host.until_depth(jobs.ENDPOINT_JOBS, 0)
    assert host.endpoints.names() == ["a"]
