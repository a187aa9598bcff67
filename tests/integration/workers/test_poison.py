"""Targets and jobs on which the worker's code crashes: what becomes of the others."""

from __future__ import annotations

import asyncio

import pytest

from cns.delivery import jobs
from cns.delivery.target import Target
from cns_workers.consumers.consumer import LEASE_MS
from cns_workers.consumers.job_attempts import JobAttempts
from cns_workers.jobs.quarantine import LEASES_MAX
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.lane_host import TOOK, LaneHost

BUG = RuntimeError("cannot be rendered")
MANY = 3 * LEASES_MAX


async def test_a_target_that_crashes_costs_the_others_of_its_job_nothing(host: LaneHost) -> None:
    host.endpoints.answers = {"a": [TOOK] * MANY, "bad": [BUG] * MANY, "c": [TOOK] * MANY}
    await host.publish("1", *[await host.subscribed(name) for name in ("a", "bad", "c")])
    host.work()
    await _until_quarantined(host, 1)
    assert sorted(host.endpoints.names()) == ["a", *["bad"] * (1 + LEASES_MAX), "c"]
    assert await _left(host) == 0


async def test_a_throttled_target_that_crashes_is_quarantined(host: LaneHost) -> None:
    """Its lane hands it on, and must not get it back each time."""
    host.endpoints.answers = {"bad": [BUG] * MANY}
    await host.publish("1", await host.subscribed("bad", per_second=1_000))
    host.work()
    await _until_quarantined(host, 1)
    assert host.endpoints.names() == ["bad"] * (1 + LEASES_MAX)
    assert await _left(host) == 0


async def test_a_job_that_cannot_be_loaded_does_not_hold_up_its_lane(
    host: LaneHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = await host.subscribed("e", per_second=10)
    host.endpoints.answers = {"e": [TOOK]}
    for text in ("bad", "good"):
        await host.publish(text, arn)
    load = JobAttempts.load

    async def crashing(self: JobAttempts) -> list[Target]:
        if self.observed.message_id == "bad" and not self.received.is_new:
            raise BUG
        return await load(self)

    monkeypatch.setattr(JobAttempts, "load", crashing)
    host.work()
    await _until_quarantined(host, 1)
    assert host.endpoints.names() == ["e"]
    assert await _left(host) == 0


async def _until_quarantined(host: LaneHost, n: int) -> None:
    """Let leases pass until then."""
    async with asyncio.timeout(PATIENCE_S):
        while await host.port.depth(jobs.QUARANTINE) < n:
            await asyncio.sleep(0.1)
            host.clock.advance(LEASE_MS + 1)


async def _left(host: LaneHost) -> int:
    return sum([await host.port.depth(queue) for queue in (jobs.ENDPOINT_JOBS, jobs.REDELIVERY, jobs.LANES)])
