"""The present location of a message, read from the queues, and the time of its next attempt."""

from __future__ import annotations

import msgspec
import pytest

from cns.delivery import jobs
from cns.delivery.jobs import PublishJob, Redelivery
from cns.delivery.quarantined_job import QuarantinedJob
from cns.queue_port.contract import NewJob
from cns_backend.explain import queue_search as queues
from cns_backend.explain.model import DeliveryStatus
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_cli.explain.render import render
from cns_workers.jobs.quarantine import Quarantine
from cns_workers.stats import Stats
from tests.integration.cli.explain_fixture import (
    ID,
    TOPIC,
    ExplainFixture,
    accepted,
    attempted,
    delivered,
    endpoint_job,
    notification,
    only_history,
)


async def test_a_pending_retry(fixture: ExplainFixture, arn: str) -> None:
    fixture.write_events(accepted(), attempted(arn))
    await fixture.put(jobs.REDELIVERY, Redelivery(endpoint_job(arn), 1, 1_100), job_id=f"{ID}/{arn}/1", delay_ms=60_000)
    explanation = await fixture.explain()
    history = only_history(explanation)
    (location,) = history.locations
    assert (history.status, location.failures, location.under_way) == (DeliveryStatus.WAITING, 1, False)
    assert 55_000 < location.due_ms - explanation.asked_ms <= 60_000
    text = render(explanation)
    assert "+0.100 s   attempt 1 (first): failed (status 500) after 8 ms" in text
    assert "attempt 2 is due at " in text and text.count(arn) == 1


@pytest.mark.parametrize(
    "queue, failures, text_expected",
    [
        (jobs.ENDPOINT_JOBS, 0, "attempt 1 is due now\n"),
        (jobs.FIFO_ENDPOINT_JOBS, 0, "attempt 1 is due now\n"),
        (jobs.LANES, 2, "attempt 3 waits for room at its"),
    ],
)
async def test_the_queue_of_a_job(
    fixture: ExplainFixture, arn: str, queue: str, failures: int, text_expected: str
) -> None:
    await fixture.put(queue, Redelivery(endpoint_job(arn), failures, 1) if failures else endpoint_job(arn))
    explanation = await fixture.explain()
    assert only_history(explanation).status is DeliveryStatus.WAITING
    assert text_expected in render(explanation)


async def test_a_throttled_message_says_its_rate_its_place_and_its_time(fixture: ExplainFixture) -> None:
    policy = '{"throttlePolicy":{"maxReceivesPerSecond":2}}'
    arn = await fixture.subscribe(1, attributes={"DeliveryPolicy": policy})
    for n in range(3):
        await fixture.put(jobs.LANES, endpoint_job(arn), job_id=f"earlier{n}")
    await fixture.put(jobs.LANES, endpoint_job(arn))
    text = render(await fixture.explain())
    assert "why        throttled: 2 a second, 3 before it, due at " in text and ", in 1.500 s. Raise max" in text
    assert "attempt 1 waits behind 3 messages for its endpoint" in text


async def test_a_quarantined_job(fixture: ExplainFixture, arn: str) -> None:
    await fixture.put(jobs.ENDPOINT_JOBS, endpoint_job(arn))
    (held,) = await fixture.port.receive(jobs.ENDPOINT_JOBS, 1, 30_000, 0)
    quarantine = Quarantine(fixture.port, EmbeddedLeaseStore(), fixture.backend.clock, Stats())
    await quarantine.add(jobs.ENDPOINT_JOBS, held, TOPIC.arn, "it was begun too often")
    explanation = await fixture.explain()
    assert only_history(explanation).status is DeliveryStatus.QUARANTINED
    assert "QUARANTINED: http http://example.com/1" in render(explanation) and "in quarantine" in render(explanation)


async def test_a_quarantined_job_that_cannot_be_decoded(fixture: ExplainFixture) -> None:
    item = QuarantinedJob(jobs.ENDPOINT_JOBS, f"{ID}/x", "", TOPIC.arn, 1, "it cannot be read", b"\xc1")
    await fixture.port.settle(jobs.ENDPOINT_JOBS, [], [NewJob(jobs.QUARANTINE, "x", msgspec.msgpack.encode(item), "")])
    explanation = await fixture.explain()
    assert explanation.known and "1 of its jobs cannot be read: `cns quarantine list`" in render(explanation)


@pytest.mark.parametrize("queue", [jobs.ENDPOINT_JOBS, jobs.REDELIVERY, jobs.FIFO_ENDPOINT_JOBS])
async def test_a_running_attempt(fixture: ExplainFixture, arn: str, queue: str) -> None:
    await fixture.put(queue, endpoint_job(arn))
    await fixture.port.receive(queue, 1, 30_000, 0)
    await fixture.port.depth(queue)  # a receive does not wait until its lease is committed; this call does
    explanation = await fixture.explain()
    assert only_history(explanation).status is DeliveryStatus.UNDER_WAY
    assert "attempt 1 is under way; its lease is good until " in render(explanation)


async def test_a_fifo_retry_keeps_the_place_of_its_job(fixture: ExplainFixture, arn: str) -> None:
    """Until then it is hidden like a leased job, and jobs behind it wait."""
    await fixture.put(jobs.FIFO_ENDPOINT_JOBS, endpoint_job(arn), job_id="another")
    await fixture.put(jobs.FIFO_ENDPOINT_JOBS, endpoint_job(arn))
    assert "attempt 1 waits behind 1 message of its message group" in render(await fixture.explain())
    (held, _) = await fixture.port.receive(jobs.FIFO_ENDPOINT_JOBS, 2, 30_000, 0)
    await fixture.port.settle(jobs.FIFO_ENDPOINT_JOBS, [held.handle])
    await fixture.put(jobs.FIFO_ENDPOINT_JOBS, Redelivery(endpoint_job(arn), 1, 1), job_id=f"{ID}/2", group="h")
    await fixture.port.receive(jobs.FIFO_ENDPOINT_JOBS, 1, 30_000, 0)
    ours = {location.job_id: location.under_way for location in only_history(await fixture.explain()).locations}
    assert ours == {ID: True, f"{ID}/2": False}


async def test_an_unfinished_fan_out(fixture: ExplainFixture) -> None:
    before, after = await fixture.subscribe(1), await fixture.subscribe(2)
    cursor = before.rpartition(":")[2]
    fixture.write_events(accepted(), attempted(before, cause=""), delivered(before))
    await fixture.put(jobs.PUBLISH_JOBS, PublishJob(ID, TOPIC.arn, notification(), cursor))
    explanation = await fixture.explain()
    found = {history.subscription: history.status for history in explanation.histories}
    assert found == {before: DeliveryStatus.DELIVERED, after: DeliveryStatus.WAITING}
    assert f"its distribution to the subscriptions waits, after subscription {cursor}" in render(explanation)


async def test_a_queue_too_long_to_search(fixture: ExplainFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "PAGE_JOBS", 2)
    monkeypatch.setattr(queues, "JOBS_MAX", 4)
    for number in range(6):
        await fixture.put(jobs.REDELIVERY, endpoint_job("s"), job_id=f"other-{number}", delay_ms=number)
    assert "The queue redelivery is too long to be searched" in render(await fixture.explain())
