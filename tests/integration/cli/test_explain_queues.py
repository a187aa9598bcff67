"""The present location of a message, read from the queues, and the time of its next attempt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from cns.delivery import jobs
from cns.delivery.jobs import PublishJob, Redelivery
from cns.queue_port.contract import NewJob
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_cli.explain import queue_search as queues
from cns_cli.explain.model import DeliveryStatus
from cns_cli.explain.render import render
from tests.integration.cli.explain_site import (
    ID,
    TOPIC,
    Site,
    accepted,
    attempted,
    delivered,
    endpoint_job,
    notification,
    only_history,
    open_site,
)
from workers.jobs.quarantine import Quarantine, QuarantinedJob
from workers.stats import Stats


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as site:
        yield site


async def test_a_pending_retry(site: Site) -> None:
    arn = await site.subscribe(1)
    site.write_events(accepted(), attempted(arn))
    await site.put(jobs.REDELIVERY, Redelivery(endpoint_job(arn), 1, 1_100), job_id=f"{ID}/{arn}/1", delay_ms=60_000)
    explanation = await site.explain()
    history = only_history(explanation)
    (location,) = history.locations
    assert (history.status, location.failures, location.under_way) == (DeliveryStatus.WAITING, 1, False)
    assert 55_000 < location.due_ms - explanation.asked_ms <= 60_000
    text = render(explanation)
    assert "+0.100 s   attempt 1 (first): status 500 after 8 ms" in text
    assert "attempt 2 is due at " in text and text.count(arn) == 1


@pytest.mark.parametrize(
    "queue, job_of, status, text_expected",
    [
        (jobs.ENDPOINT_JOBS, endpoint_job, DeliveryStatus.WAITING, "attempt 1 is due now (endpoint-jobs)"),
        (
            jobs.FIFO_ENDPOINT_JOBS,
            endpoint_job,
            DeliveryStatus.WAITING,
            "attempt 1 is due now (fifo-endpoint-jobs.fifo)",
        ),
        (
            jobs.LANES,
            lambda arn: Redelivery(endpoint_job(arn), 2, 1),
            DeliveryStatus.WAITING,
            "attempt 3 waits for room at its",
        ),
    ],
)
async def test_the_queue_of_a_job(
    site: Site, queue: str, job_of: object, status: DeliveryStatus, text_expected: str
) -> None:
    arn = await site.subscribe(1)
    await site.put(queue, job_of(arn))  # type: ignore[operator]
    explanation = await site.explain()
    assert only_history(explanation).status is status
    assert text_expected in render(explanation)


async def test_a_quarantined_job(site: Site) -> None:
    arn = await site.subscribe(1)
    await site.put(jobs.ENDPOINT_JOBS, endpoint_job(arn))
    (held,) = await site.port.receive(jobs.ENDPOINT_JOBS, 1, 30_000, 0)
    quarantine = Quarantine(site.port, EmbeddedLeaseStore(), site.backend.clock, Stats())
    await quarantine.add(jobs.ENDPOINT_JOBS, held, TOPIC.arn, "it was begun too often")
    explanation = await site.explain()
    assert only_history(explanation).status is DeliveryStatus.QUARANTINED
    assert "QUARANTINED: http http://example.com/1" in render(explanation) and "in quarantine" in render(explanation)


async def test_a_quarantined_job_that_cannot_be_decoded(site: Site) -> None:
    item = QuarantinedJob(jobs.ENDPOINT_JOBS, f"{ID}/x", "", TOPIC.arn, 1, "it cannot be read", b"\xc1")
    await site.port.settle(jobs.ENDPOINT_JOBS, [], [NewJob(jobs.QUARANTINE, "x", msgspec.msgpack.encode(item), "")])
    explanation = await site.explain()
    assert explanation.known and "1 of its jobs cannot be read: `cns quarantine list`" in render(explanation)


@pytest.mark.parametrize("queue", [jobs.ENDPOINT_JOBS, jobs.REDELIVERY, jobs.FIFO_ENDPOINT_JOBS])
async def test_a_running_attempt(site: Site, queue: str) -> None:
    arn = await site.subscribe(1)
    await site.put(queue, endpoint_job(arn))
    await site.port.receive(queue, 1, 30_000, 0)
    await site.port.depth(queue)  # a receive does not wait until its lease is committed; this call does
    explanation = await site.explain()
    assert only_history(explanation).status is DeliveryStatus.UNDER_WAY
    assert "attempt 1 is under way; its lease is good until " in render(explanation)


async def test_a_fifo_retry_keeps_the_place_of_its_job(site: Site) -> None:
    """Until then it is hidden like a leased job, and jobs behind it wait."""
    arn = await site.subscribe(1)
    await site.put(jobs.FIFO_ENDPOINT_JOBS, endpoint_job(arn), job_id="another")
    await site.put(jobs.FIFO_ENDPOINT_JOBS, endpoint_job(arn))
    assert "attempt 1 waits behind 1 message in fifo-endpoint-jobs.fifo" in render(await site.explain())
    (held, _) = await site.port.receive(jobs.FIFO_ENDPOINT_JOBS, 2, 30_000, 0)
    await site.port.settle(jobs.FIFO_ENDPOINT_JOBS, [held.handle])
    await site.put(jobs.FIFO_ENDPOINT_JOBS, Redelivery(endpoint_job(arn), 1, 1), job_id=f"{ID}/2", group="h")
    await site.port.receive(jobs.FIFO_ENDPOINT_JOBS, 1, 30_000, 0)
    ours = {location.job_id: location.under_way for location in only_history(await site.explain()).locations}
    assert ours == {ID: True, f"{ID}/2": False}


async def test_an_unfinished_fan_out(site: Site) -> None:
    before, after = await site.subscribe(1), await site.subscribe(2)
    cursor = before.rpartition(":")[2]
    site.write_events(accepted(), attempted(before, cause=""), delivered(before))
    await site.put(jobs.PUBLISH_JOBS, PublishJob(ID, TOPIC.arn, notification(), cursor))
    explanation = await site.explain()
    assert {history.subscription: history.status for history in explanation.histories} == {
        before: DeliveryStatus.DELIVERED,
        after: DeliveryStatus.WAITING,
    }
    assert f"fan-out waiting in publish-jobs, at {cursor}" in render(explanation)


async def test_a_queue_too_long_to_search(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "PAGE_JOBS", 2)
    monkeypatch.setattr(queues, "JOBS_MAX", 4)
    for number in range(6):
        await site.put(jobs.REDELIVERY, endpoint_job("s"), job_id=f"other-{number}", delay_ms=number)
    assert "The queue redelivery is too long to be searched" in render(await site.explain())
