"""A worker is killed between two commits of one job, at each kill point: the next process completes the job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.delivery import jobs
from cns.delivery.jobs import ConfirmationJob, EndpointJob, PublishJob
from cns.endpoints.outcome import Cause, Failed
from cns_common.events.schema import DeliveryDelivered, NotificationMatched
from cns_common.process import kill_points
from tests.integration.crashes.crashing_worker import (
    ACCOUNT,
    PAGES,
    TOPIC,
    CrashingWorker,
    crashing_worker_in,
    endpoint,
    notification,
)

DEAD = f"arn:aws:sqs:us-east-1:{ACCOUNT}:dead"
AWAY = Failed(Cause.STATUS, "503", 0, status=503)
CLOSED = Failed(Cause.STATUS, "403", 0, status=403, permanent=True)
SUBSCRIPTIONS = 10
SLOW_S = 0.2


@pytest.fixture
async def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CrashingWorker]:
    async with crashing_worker_in(tmp_path, monkeypatch) as worker:
        yield worker


@pytest.mark.parametrize("page", range(1, PAGES + 1))
@pytest.mark.parametrize(
    ("point", "leaks"),
    [(kill_points.PUBLISH_RECEIVED, 0), (kill_points.PUBLISH_FANNED_OUT, 3), (kill_points.PUBLISH_SETTLED, 1)],
)
async def test_a_fan_out(
    worker: CrashingWorker, monkeypatch: pytest.MonkeyPatch, point: str, leaks: int, page: int
) -> None:
    """`leaks`: the most references that are never released; then the notification stays until it expires."""
    arns = await worker.subscribed(SUBSCRIPTIONS)
    await worker.put(jobs.PUBLISH_JOBS, PublishJob("n", TOPIC.arn), 1)
    await worker.run_killed(monkeypatch, point, page)
    assert worker.endpoints.got == dict.fromkeys([endpoint(number) for number in range(len(arns))], 1)
    assert 0 <= worker.references() <= leaks
    matched = [event for event in worker.events.events if isinstance(event, NotificationMatched)]
    parts = {event.part: event.matched for event in matched}
    assert sum(parts.values()) == SUBSCRIPTIONS
    assert len(matched) - len(parts) == (point == kill_points.PUBLISH_FANNED_OUT), "events of a repeated part"


async def test_a_duplicate_shows_in_the_events(worker: CrashingWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint accepted the message, and the worker died before it settled the job."""
    (arn,) = await worker.subscribed(1)
    await worker.put(jobs.ENDPOINT_JOBS, EndpointJob("n", TOPIC.arn, (arn,)), 1)
    await worker.run_killed(monkeypatch, kill_points.JOB_DELIVERED, 1)
    assert worker.endpoints.got[endpoint(0)] == 2
    delivered = [event for event in worker.events.events if isinstance(event, DeliveryDelivered)]
    assert [(event.message_id, event.subscription, event.attempt) for event in delivered] == [("n", arn, 1)] * 2
    assert not any(event.replayed for event in delivered)


@pytest.mark.parametrize(
    ("point", "count", "twice", "leaks"),
    [
        (kill_points.JOB_DELIVERED, 1, {"a", "b", "slow"}, 0),
        (kill_points.JOB_REFERENCES_ADDED, 1, {"a", "b", "slow"}, 1),
        (kill_points.JOB_CONTINUED, 1, {"slow"}, 0),
        (kill_points.JOB_DELIVERED, 2, {"slow"}, 0),
        (kill_points.JOB_SETTLED, 1, set(), 1),
        (kill_points.JOB_DELIVERED, 3, {"again"}, 0),
        (kill_points.JOB_SETTLED, 2, set(), 1),
    ],
)
async def test_a_job_with_several_targets(
    worker: CrashingWorker, monkeypatch: pytest.MonkeyPatch, point: str, count: int, twice: set[str], leaks: int
) -> None:
    """Two endpoints answer at once, one fails once, one is slow: two settlements, and that of a redelivery. Only
    deliveries that were not answered, or answered and not settled, may happen twice."""
    arns = await worker.subscribed(4)
    names = dict(zip(("a", "b", "again", "slow"), [endpoint(number) for number in range(4)], strict=True))
    worker.endpoints.answers[names["again"]] = [AWAY]
    worker.endpoints.slow[names["slow"]] = SLOW_S
    await worker.put(jobs.ENDPOINT_JOBS, EndpointJob("n", TOPIC.arn, arns), 1)
    await worker.run_killed(monkeypatch, point, count)
    assert set(worker.endpoints.got) == set(names.values())
    assert {name for name, url in names.items() if worker.endpoints.got[url] > 1} <= twice
    assert 0 <= worker.references() <= leaks


@pytest.mark.parametrize("point", [kill_points.JOB_DEAD_LETTERED, kill_points.JOB_DELIVERED, kill_points.JOB_SETTLED])
async def test_a_dead_letter_of_a_killed_worker(
    worker: CrashingWorker, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The dead letter is sent at least once, and twice if the job still had its target."""
    arns = await worker.subscribed(1, RedrivePolicy=f'{{"deadLetterTargetArn":"{DEAD}"}}')
    worker.endpoints.answers[endpoint(0)] = [CLOSED, CLOSED]
    await worker.put(jobs.ENDPOINT_JOBS, EndpointJob("n", TOPIC.arn, arns, notification()), 0)
    await worker.run_killed(monkeypatch, point, 1)
    assert worker.endpoints.dead_letters[endpoint(0)] == (1 if point == kill_points.JOB_SETTLED else 2)


@pytest.mark.parametrize("point", [kill_points.JOB_DELIVERED, kill_points.JOB_SETTLED])
async def test_a_confirmation(worker: CrashingWorker, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    (arn,) = await worker.subscribed(1)
    job = ConfirmationJob("SubscriptionConfirmation", "m", arn, TOPIC.arn, "token", 1, "http://127.0.0.1")
    await worker.put(jobs.ENDPOINT_JOBS, job, 0)
    await worker.run_killed(monkeypatch, point, 1)
    assert worker.endpoints.got[endpoint(0)] == (2 if point == kill_points.JOB_DELIVERED else 1)
