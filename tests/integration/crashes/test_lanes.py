"""A worker is killed at each kill point of a lane: the next process sends the rest, and as little as possible twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob
from cns.endpoints.outcome import Cause, Failed
from cns_common.process import kill_points
from cns_workers.consumers.lane_batch import LEASE_MS
from tests.integration.crashes.crashing_worker import (
    DRAIN_S,
    TOPIC,
    CrashingWorker,
    crashing_worker_in,
    endpoint,
    kill_at,
)

TWO_A_SECOND = '{"throttlePolicy": {"maxReceivesPerSecond": 2}}'
AWAY = Failed(Cause.STATUS, "503", 0, status=503)
MESSAGES = 3
SLOW_S = 0.1


@pytest.fixture
async def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CrashingWorker]:
    async with crashing_worker_in(tmp_path, monkeypatch) as worker:
        yield worker


@pytest.mark.parametrize(
    ("point", "count", "twice", "leaks"),
    [
        (kill_points.LANE_DELIVERED, 1, 2, 0),  # two messages were answered
        (kill_points.LANE_SETTLED, 1, 0, 2),
        (kill_points.LANE_DELIVERED, 2, 0, 0),  # the head is about to be hidden until the rate limit has a token
        (kill_points.LANE_SETTLED, 2, 0, 0),  # the head is hidden
        (kill_points.LANE_DELIVERED, 3, 1, 0),
        (kill_points.LANE_SETTLED, 3, 0, 1),
    ],
)
async def test_a_lane_that_keeps_a_pace(
    worker: CrashingWorker, monkeypatch: pytest.MonkeyPatch, point: str, count: int, twice: int, leaks: int
) -> None:
    """Two deliveries at once, and one more when there is a token again. `leaks`: references that are never released."""
    arns = await worker.subscribed(1, DeliveryPolicy=TWO_A_SECOND)
    await worker.put(jobs.ENDPOINT_JOBS, EndpointJob("n", TOPIC.arn, arns), MESSAGES, MESSAGES)
    await worker.run_killed(monkeypatch, point, count)
    assert worker.endpoints.got == {endpoint(0): MESSAGES + twice}
    assert worker.references() == leaks


@pytest.mark.parametrize(
    ("point", "failures", "leaks"),
    [(kill_points.LANE_DELIVERED, 2, 0), (kill_points.LANE_SETTLED, 1, 1)],
)
async def test_a_failed_delivery_of_a_lane(
    worker: CrashingWorker, monkeypatch: pytest.MonkeyPatch, point: str, failures: int, leaks: int
) -> None:
    """It continues as a redelivery. A failure that was not settled does not count: the delivery is attempted again."""
    arns = await worker.subscribed(1, DeliveryPolicy=TWO_A_SECOND)
    answers = worker.endpoints.answers[endpoint(0)] = [AWAY] * failures
    await worker.put(jobs.ENDPOINT_JOBS, EndpointJob("n", TOPIC.arn, arns), 1)
    await worker.run_killed(monkeypatch, point, 1)
    assert not answers
    assert worker.endpoints.got == {endpoint(0): 1}
    assert worker.references() == leaks


@pytest.mark.parametrize("point", [kill_points.LANE_DELIVERED, kill_points.LANE_SETTLED])
async def test_a_lane_whose_head_waits_for_a_probe(
    worker: CrashingWorker, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Only the killed process knew that the endpoint was down. The next one receives the head of the lane anyway."""
    worker.endpoints.admission_applies = True
    worker.endpoints.answers[endpoint(0)] = [AWAY]
    arns = await worker.subscribed(1)
    await worker.put(jobs.ENDPOINT_JOBS, EndpointJob("n", TOPIC.arn, arns), MESSAGES, MESSAGES)
    kill = kill_at(monkeypatch, point, 1)
    await worker.run_process()
    assert kill.left == 0, "the kill point was not reached"
    assert worker.endpoints.got == {endpoint(0): 0}
    assert await worker.port.depth(jobs.LANES) == MESSAGES - 1
    await worker.run_until_done()
    assert worker.endpoints.got == {endpoint(0): MESSAGES}
    assert worker.references() == 0


async def test_a_lane_that_two_workers_consume(worker: CrashingWorker) -> None:
    """The first worker lost its lease while the endpoint was slow: it does not release a reference a second time."""
    worker.endpoints.admission_applies = True
    worker.endpoints.slow[endpoint(0)] = SLOW_S
    arns = await worker.subscribed(1, DeliveryPolicy=TWO_A_SECOND)
    await worker.put(jobs.ENDPOINT_JOBS, EndpointJob("n", TOPIC.arn, arns), 2)  # another job has the other reference
    await worker.consume()
    lanes, others = worker.lanes(), worker.lanes()
    await lanes.step()
    while not worker.endpoints.got:
        await asyncio.sleep(0)
    worker.clock.advance(LEASE_MS + 1)
    await others.step()
    assert await lanes.drain(DRAIN_S) + await others.drain(DRAIN_S) == 0
    assert worker.endpoints.got == {endpoint(0): 2}
    assert await worker.left() == 0
    assert worker.references() == 1
