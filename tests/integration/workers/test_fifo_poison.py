"""Jobs of FIFO topics that nobody can read, or that crash: what becomes of the jobs of their message group."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.delivery import jobs
from cns.queue_port.contract import NewJob
from tests.integration.workers.embedded_context import embedded_context
from tests.integration.workers.test_fifo_delivery import TOPIC, Host, ScriptedEndpoints
from workers.consumers.fifo_consumer import LEASE_MS
from workers.jobs.quarantine import LEASES_MAX

NEWER = b"\x93\xa5later\x01\x02"
"""A job as a later version may write it."""


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with embedded_context(tmp_path, [TOPIC]) as kept:
        yield Host(kept.clock, kept.port, ScriptedEndpoints(), kept.stats, kept.context, kept.subscriptions)


async def test_nothing_is_sent_before_an_earlier_job_that_a_newer_worker_may_read(host: Host) -> None:
    arn = await host.subscribed("a")
    await host.port.enqueue_in_order([NewJob(jobs.FIFO_ENDPOINT_JOBS, "0", NEWER, f"{arn} g", dedup="0")])
    await host.put(arn, "1", "2")
    await host.put(arn, "x", group="other")
    await host.work()
    assert host.endpoints.texts("a") == ["x"]
    for _ in range(LEASES_MAX):
        host.clock.advance(LEASE_MS + 1)
        await host.work()
    assert host.endpoints.texts("a") == ["x", "1", "2"]
    assert await host.port.depth(jobs.QUARANTINE) == 1
