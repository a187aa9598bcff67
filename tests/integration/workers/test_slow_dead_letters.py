"""Dead-letter queues that answer late: the leases of the jobs last until then, so nobody sends a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from cns.delivery import jobs
from cns.endpoints.outcome import Outcome
from cns.queue_port.contract import NewJob, Renewal
from cns_workers.consumers import consumer, fifo_consumer, lane_batch
from cns_workers.consumers.fifo_consumer import FifoConsumer
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.embedded_context import channels_to
from tests.integration.workers.fifo_host import fifo_job
from tests.integration.workers.lane_host import NO, TOOK, TOPIC, LaneHost

NAMES = ("a", "b", "c")
SOON_S = 0.02
LEASES = 3
"""The times that the dead-letter queue takes, in leases."""


class Renewed:
    """Sees the settlements that renew leases, each from its begin to its end without a step of the clock."""

    def __init__(self, host: LaneHost, monkeypatch: pytest.MonkeyPatch) -> None:
        self._host = host
        self._settle = host.port.settle
        self._renewed = asyncio.Event()
        self._steps = 0
        monkeypatch.setattr(host.port, "settle", self.settle)

    async def settle(
        self, queue: str, deletes: Sequence[str] = (), new_jobs: Sequence[NewJob] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        steps = self._steps
        settled = await self._settle(queue, deletes, new_jobs, renewals)
        if steps == self._steps and any(renewal.visible_in_ms for renewal in renewals):
            self._renewed.set()
        return settled

    async def outlast(self, lease_ms: int) -> None:
        """Let LEASES leases pass, in steps that are shorter than one."""
        for _ in range(2 * LEASES):
            self._renewed.clear()
            async with asyncio.timeout(PATIENCE_S):
                await self._renewed.wait()
            self._host.clock.advance(lease_ms // 2)
            self._steps += 1


@pytest.fixture
async def letters(host: LaneHost, monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Future[Outcome]]:
    """The answers of the dead-letter queue, which every target needs."""
    monkeypatch.setattr(consumer, "RENEW_S", SOON_S)
    monkeypatch.setattr(lane_batch, "RENEW_S", SOON_S)
    monkeypatch.setattr(fifo_consumer, "SETTLE_AFTER_S", SOON_S)
    host.endpoints.answers = {name: [NO] * len(NAMES) for name in NAMES}
    host.endpoints.letters = [asyncio.get_running_loop().create_future() for _ in NAMES]
    return list(host.endpoints.letters)


async def test_the_targets_of_a_job(
    host: LaneHost, letters: list[asyncio.Future[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    await host.publish("1", *[await host.subscribed(name, dead_letters=True) for name in NAMES])
    await host.consumer(jobs.ENDPOINT_JOBS).step()
    await Renewed(host, monkeypatch).outlast(consumer.LEASE_MS)
    assert host.endpoints.letters == [], "they are sent side by side"
    assert await host.port.receive(jobs.ENDPOINT_JOBS, 1, consumer.LEASE_MS, 0) == []
    for letter in letters:
        letter.set_result(TOOK)
    await host.until_depth(jobs.ENDPOINT_JOBS, 0)
    assert (sorted(host.endpoints.names()), host.endpoints.buried) == (list(NAMES), len(NAMES))


async def test_the_jobs_of_a_lane(
    host: LaneHost, letters: list[asyncio.Future[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = await host.subscribed("a", per_second=10, dead_letters=True)
    for name in NAMES:
        await host.publish(name, arn)
    await host.consumer(jobs.ENDPOINT_JOBS).step()
    renewed = Renewed(host, monkeypatch)
    for letter in letters:
        await renewed.outlast(lane_batch.LEASE_MS)
        assert await host.port.receive(jobs.LANES, 10, lane_batch.LEASE_MS, 0) == []
        letter.set_result(TOOK)
    await host.until_depth(jobs.LANES, 0)
    assert (host.endpoints.names(), host.endpoints.buried) == (["a"] * len(NAMES), len(NAMES))


async def test_the_jobs_of_a_message_group(
    host: LaneHost, letters: list[asyncio.Future[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = await host.subscribed("a", dead_letters=True)
    await host.port.enqueue_in_order([fifo_job(arn, name, TOPIC) for name in NAMES])
    fifo = FifoConsumer(host.context, channels_to(host.endpoints), host.admission)
    await fifo.step()
    renewed = Renewed(host, monkeypatch)
    for letter in letters:
        await renewed.outlast(fifo_consumer.LEASE_MS)
        assert await host.port.receive(jobs.FIFO_ENDPOINT_JOBS, 10, fifo_consumer.LEASE_MS, 0) == []
        letter.set_result(TOOK)
    assert await fifo.drain(PATIENCE_S) == 0
    assert await host.port.depth(jobs.FIFO_ENDPOINT_JOBS) == 0
    assert (host.endpoints.names(), host.endpoints.buried) == (["a"] * len(NAMES), len(NAMES))
