"""Paused subscriptions: what is published is held, goes out in order at the resumption, and is not held for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.delivery import jobs
from cns.delivery.failure_causes import FinalCause
from cns.delivery.jobs import ConfirmationJob
from cns.portal.owner_acts import OwnerActs
from cns.queue_port.contract import NewJob
from cns_common.events.schema import DeliveryAttempted, DeliveryDeadLettered, Event
from cns_workers.consumers.job_attempts import HELD_MS_MAX
from tests.integration.workers.test_lanes import ENOUGH_S, REFUSED, TOOK, TOPIC, TOPICS, Host, lane_host

POLL_S = 0.02
TURN_S = 0.3  # longer than a settlement takes


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with lane_host(tmp_path) as found:
        yield found


async def pause(host: Host, arn: str) -> None:
    await OwnerActs(host.subscriptions, host.clock).pause((await host.subscriptions.get([arn]))[0])


async def resume(host: Host, arn: str) -> None:
    await OwnerActs(host.subscriptions, host.clock).resume((await host.subscriptions.get([arn]))[0])


def recorded(host: Host) -> list[Event]:
    return host.events.events


async def until_depth(host: Host, queue: str, n: int) -> None:
    async with asyncio.timeout(ENOUGH_S):
        while await host.port.depth(queue) != n:
            await asyncio.sleep(POLL_S)


async def test_what_is_published_during_a_pause_goes_out_in_its_order(host: Host) -> None:
    arn, other = await host.subscribed("a"), await host.subscribed("b")
    await pause(host, arn)
    host.endpoints.answers = {"a": [TOOK] * 3, "b": [TOOK] * 3}
    host.work()
    for text in ("1", "2", "3"):
        await host.publish(text, arn, other)
        await until_depth(host, jobs.ENDPOINT_JOBS, 0)
    await until_depth(host, jobs.LANES, 3)
    await asyncio.sleep(TURN_S)
    assert host.endpoints.names() == ["b", "b", "b"]
    await resume(host, arn)
    await until_depth(host, jobs.LANES, 0)  # long before the periodic look at the lane
    assert host.endpoints.names() == ["b", "b", "b", "a", "a", "a"]


async def test_a_retry_that_comes_due_is_held_and_counts_its_failures(host: Host) -> None:
    arn = await host.subscribed("a")
    host.endpoints.answers["a"] = [REFUSED]
    host.work()
    await host.publish("1", arn)
    await until_depth(host, jobs.REDELIVERY, 1)
    await pause(host, arn)
    host.clock.advance(60_000)
    await until_depth(host, jobs.LANES, 1)
    assert host.endpoints.names() == ["a"]
    host.endpoints.answers["a"] = [TOOK]
    await resume(host, arn)
    await until_depth(host, jobs.LANES, 0)
    attempts = [event for event in recorded(host) if isinstance(event, DeliveryAttempted)]
    assert [event.attempt for event in attempts] == [1, 2]


async def test_a_pause_does_not_use_up_the_time_of_the_retry_policy(host: Host) -> None:
    arn = await host.subscribed("a", dead_letters=True)
    await pause(host, arn)
    host.work()
    await host.publish("1", arn)
    await until_depth(host, jobs.LANES, 1)
    host.clock.advance(HELD_MS_MAX - 60_000)  # far more than any policy has
    host.endpoints.answers["a"] = [REFUSED]
    await resume(host, arn)
    await until_depth(host, jobs.REDELIVERY, 1)
    assert host.endpoints.buried == 0


async def test_after_fourteen_days_it_goes_to_the_dead_letter_queue(host: Host) -> None:
    arn = await host.subscribed("a", dead_letters=True)
    await pause(host, arn)
    host.work()
    await host.publish("1", arn)
    await until_depth(host, jobs.LANES, 1)
    host.clock.advance(HELD_MS_MAX + 1)
    await until_depth(host, jobs.LANES, 0)
    dead = [event for event in recorded(host) if isinstance(event, DeliveryDeadLettered)]
    # two events if the step of the clock ended a lease
    assert {(event.subscription, event.cause) for event in dead} == {(arn, FinalCause.DEADLINE_PAUSED)}


async def test_jobs_in_the_lane_of_the_endpoint_make_room_for_others_of_it(host: Host) -> None:
    """Two subscriptions of one endpoint whose breaker is open share its lane. One of them is paused there."""
    first, second = await host.subscribed("a"), await host.subscribed("a", topic=TOPICS[1])
    await host.fail("a")
    host.work()
    await host.publish("1", first, second)
    await until_depth(host, jobs.LANES, 2)
    async with asyncio.timeout(ENOUGH_S):
        while not host.hidden():  # no lease is left that the step of the clock could end
            await asyncio.sleep(POLL_S)
    await pause(host, first)
    host.endpoints.answers["a"] = [TOOK]
    host.clock.advance(120_000)  # the breaker probes
    async with asyncio.timeout(ENOUGH_S):
        while len(host.endpoints.names()) < 1:
            await asyncio.sleep(POLL_S)
    await until_depth(host, jobs.LANES, 1)
    assert host.endpoints.names() == ["a"]
    host.endpoints.answers["a"] = [TOOK]
    await resume(host, first)
    await until_depth(host, jobs.LANES, 0)
    assert host.endpoints.names() == ["a", "a"]


async def test_confirmations_are_sent_to_a_paused_subscription(host: Host) -> None:
    arn = await host.subscribed("a")
    await pause(host, arn)
    host.endpoints.answers["a"] = [TOOK]
    host.work()
    job = ConfirmationJob("UnsubscribeConfirmation", "c", arn, TOPIC.arn, "t", 1, "http://localhost")
    await host.port.enqueue([NewJob(jobs.ENDPOINT_JOBS, "c", jobs.encode(job), TOPIC.arn)])
    await until_depth(host, jobs.ENDPOINT_JOBS, 0)
    assert host.endpoints.names() == ["a"]
