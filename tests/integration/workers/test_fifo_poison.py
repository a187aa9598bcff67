"""Jobs of FIFO topics that nobody can read, or that crash: what becomes of the jobs of their message group."""

from __future__ import annotations

import asyncio

import pytest

from cns.delivery import jobs
from cns.delivery.target import Target
from cns.endpoints.outcome import Delivered, Outcome
from cns.notification import Notification
from cns.queue_port.contract import LeasedJob, NewJob
from cns_workers.consumers.fifo_consumer import LEASE_MS
from cns_workers.jobs.quarantine import LEASES_MAX
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.fifo_host import FifoHost

NEWER = b"\x93\xa5later\x01\x02"
"""A job as a later version may write it."""


async def test_nothing_is_sent_before_an_earlier_job_that_a_newer_worker_may_read(fifo: FifoHost, arn: str) -> None:
    await fifo.port.enqueue_in_order([NewJob(jobs.FIFO_ENDPOINT_JOBS, "0", NEWER, f"{arn} g", dedup="0")])
    await fifo.put(arn, "1", "2")
    await fifo.put(arn, "x", group="other")
    await fifo.work()
    assert fifo.endpoints.texts("a") == ["x"]
    for _ in range(LEASES_MAX):
        fifo.clock.advance(LEASE_MS + 1)
        await fifo.work()
    assert fifo.endpoints.texts("a") == ["x", "1", "2"]
    assert await fifo.port.depth(jobs.QUARANTINE) == 1


async def test_a_job_that_crashes_neither_repeats_nor_takes_along_those_of_its_group(
    fifo: FifoHost, arn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fifo.put(arn, "1", "bad", "3")
    deliver = fifo.endpoints.deliver

    def crashing(target: Target, notification: Notification) -> asyncio.Future[Outcome]:
        attempt = deliver(target, notification)
        if notification.id == "bad":
            attempt = asyncio.get_running_loop().create_future()
            attempt.set_exception(RuntimeError("cannot be rendered"))
        return attempt

    monkeypatch.setattr(fifo.endpoints, "deliver", crashing)
    for _ in range(LEASES_MAX + 1):
        await fifo.work()
        fifo.clock.advance(LEASE_MS + 1)
    assert [text for _, text in fifo.endpoints.asked] == ["1", *["bad"] * LEASES_MAX, "3"]
    assert (await fifo.port.depth(jobs.QUARANTINE), await fifo.left()) == (1, 0)


async def test_of_a_group_only_the_job_that_is_sent_is_on_trial(
    fifo: FifoHost, arn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it ends the process now, it alone is quarantined."""
    await fifo.put(arn, "1", "2", "3")
    for _ in range(LEASES_MAX - 1):
        assert len(await fifo.port.receive(jobs.FIFO_ENDPOINT_JOBS, 3, LEASE_MS, 0)) == 3
        fifo.clock.advance(LEASE_MS + 1)  # the process has died
    trials, intercept = list[str](), fifo.context.quarantine.intercept
    sent, answer = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def counted(queue: str, leased: LeasedJob, topic: str, *, expected: int = 0) -> bool:
        trials.append(leased.id)
        return await intercept(queue, leased, topic, expected=expected)

    def hanging(target: Target, notification: Notification) -> asyncio.Future[Outcome]:
        sent.set()
        return answer

    monkeypatch.setattr(fifo.context.quarantine, "intercept", counted)
    monkeypatch.setattr(fifo.endpoints, "deliver", hanging)
    consumer = fifo.consumer()
    await consumer.step()
    await asyncio.wait_for(sent.wait(), PATIENCE_S)
    assert trials == ["1"]
    answer.set_result(Delivered(200, 0, "id"))
    assert (await consumer.drain(5.0), trials, await fifo.left()) == (0, ["1", "2", "3"], 0)
