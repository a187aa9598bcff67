"""Jobs that end their process or crash go to quarantine; jobs whose stores were unavailable do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob, PublishJob
from cns.delivery.notification_references import NotificationReferences
from cns.delivery.quarantined_job import QuarantinedJob
from cns.notification import Notification
from cns.publishing.matching import MatchPage, SubscriptionMatcher
from cns.queue_port.contract import NewJob
from cns.queue_port.inline import InlineQueuePort
from cns.stores.embedded import EmbeddedNotificationStore
from cns.topics.cache import TopicCache
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cns_common.sqlite.database import Database
from cns_pytest.http import POLL_INTERVAL_S
from cns_workers.fanout.context import FanoutContext
from cns_workers.fanout.fifo_producer import FifoProducer
from cns_workers.fanout.producer import LEASE_MS, Producer
from cns_workers.jobs.quarantine import LEASES_MAX, Quarantine
from cns_workers.jobs.receiver import JobReceiver
from cns_workers.stats import Stats
from cqs.engines.embedded.engine import EmbeddedEngine
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.drop_fixture import NoReplays
from tests.integration.workers.embedded_context import no_queue
from tests.recorded_events import RecordedEvents

TOPIC = "arn:aws:sns:us-east-1:111111111111:t"
OUTAGE_LEASES = 3 * LEASES_MAX
NEWER = b"\x93\xa5later\x01\x02"
"""A job as a later version may write it."""

Fault = Callable[[], Exception]


@dataclass
class FailingMatcher(SubscriptionMatcher):
    """Matches one subscription a page, or raises the error that `fails` has for the notification's id."""

    fails: dict[str, Fault] = field(default_factory=dict)
    n_pages: int = 1

    async def page(self, topic_arn: str, notification: Notification, cursor: str, n: int) -> MatchPage:
        if fault := self.fails.get(notification.id):
            raise fault()
        following = int(cursor or "0") + 1
        return MatchPage((f"{TOPIC}:1",), str(following) if following < self.n_pages else "")

    def report_matched(self, notification: Notification, matched: int, part: str = "") -> None:
        assert matched == 1


class FailingLeases(EmbeddedLeaseStore):
    """A lease store that can be unavailable."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.taken = 0

    async def take(self, task: str, part: str, holder: str, life_ms: int, now_ms: int) -> bool:
        if self.away:
            raise StoreUnavailable("away")
        self.taken += 1
        return await super().take(task, part, holder, life_ms, now_ms)


@dataclass(frozen=True, slots=True)
class QuarantineFixture:
    clock: Clock
    port: InlineQueuePort
    matcher: FailingMatcher
    leases: FailingLeases
    notifications: EmbeddedNotificationStore

    def context(self) -> FanoutContext:
        """The context of a new process, which shares only the stores with earlier ones."""
        stats = Stats()
        return FanoutContext(
            port=self.port,
            topics=cast(TopicCache, None),  # the jobs name no topic id
            matcher=self.matcher,
            notifications=self.notifications,
            references=NotificationReferences(self.notifications, self.clock),
            quarantine=Quarantine(self.port, self.leases, self.clock, stats),
            stats=stats,
            events=RecordedEvents(),
            clock=self.clock,
        )

    async def put(self, *names: str) -> None:
        await self.port.enqueue([NewJob(jobs.PUBLISH_JOBS, name, _job(name), "a") for name in names])

    async def run_worker(self, *, fifo: bool = False) -> None:
        """Run one step of a new process, then let all leases expire."""
        context = self.context()
        worker = FifoProducer(context, cast(Any, NoReplays())) if fifo else Producer(context)
        try:
            await worker.step()
        except (StoreUnavailable, ZeroDivisionError):
            await asyncio.sleep(0)
        self.clock.advance(LEASE_MS + 1)

    async def quarantined(self) -> list[QuarantinedJob]:
        held = await self.port.receive(jobs.QUARANTINE, 10, LEASE_MS, 0)
        return [msgspec.msgpack.decode(one.body, type=QuarantinedJob) for one in held]


@pytest.fixture
async def fixture(tmp_path: Path) -> AsyncIterator[QuarantineFixture]:
    clock = Clock()
    database = Database(tmp_path, clock)
    port = InlineQueuePort(EmbeddedEngine(database, clock), clock, no_queue)
    database.start(asyncio.get_running_loop())
    yield QuarantineFixture(clock, port, FailingMatcher(), FailingLeases(), EmbeddedNotificationStore(database))
    await database.close()


def _outage() -> Exception:
    return StoreUnavailable("away")


def _bug() -> Exception:
    return ZeroDivisionError()


async def test_an_outage_quarantines_nothing(fixture: QuarantineFixture) -> None:
    await fixture.put("n")
    fixture.matcher.fails["n"] = _outage
    for _ in range(OUTAGE_LEASES):
        await fixture.run_worker()
    fixture.matcher.fails.clear()
    await fixture.run_worker()
    assert await fixture.port.depth(jobs.ENDPOINT_JOBS) == 1
    assert await fixture.quarantined() == []


async def test_leases_that_were_lost_before_earlier_pages_do_not_count(fixture: QuarantineFixture) -> None:
    """No page of a publish is on trial if each made progress before its last lease."""
    await fixture.put("n")
    fixture.matcher.n_pages = 3
    for done in range(fixture.matcher.n_pages):
        fixture.matcher.fails["n"] = _outage
        for _ in range(LEASES_MAX - 2):
            await fixture.run_worker()
        fixture.matcher.fails.clear()
        await fixture.run_worker()
        assert await fixture.port.depth(jobs.ENDPOINT_JOBS) == done + 1
    assert fixture.leases.taken == 0
    assert await fixture.port.depth(jobs.PUBLISH_JOBS) == 0


async def test_an_outage_during_a_trial_quarantines_nothing(fixture: QuarantineFixture) -> None:
    """The trial is recorded, and the record cannot be removed before the stores are back."""
    await fixture.put("n")
    for _ in range(LEASES_MAX - 1):
        fixture.matcher.fails["n"] = _outage
        await fixture.run_worker()

    def fail_leases_too() -> Exception:
        fixture.leases.away = True
        return _outage()

    fixture.matcher.fails["n"] = fail_leases_too
    for _ in range(OUTAGE_LEASES):
        await fixture.run_worker()
    fixture.leases.away = False
    fixture.matcher.fails.clear()
    async with asyncio.timeout(PATIENCE_S):
        while fixture.leases._leases:
            await asyncio.sleep(POLL_INTERVAL_S)
    await fixture.run_worker()
    assert await fixture.port.depth(jobs.ENDPOINT_JOBS) == 1
    assert await fixture.quarantined() == []


async def test_a_job_whose_run_crashes_is_quarantined(fixture: QuarantineFixture) -> None:
    await fixture.put("n", "other")
    fixture.matcher.fails["n"] = _bug
    for _ in range(LEASES_MAX):
        await fixture.run_worker()
        assert await fixture.port.depth(jobs.QUARANTINE) == 0
    await fixture.run_worker()
    (item,) = await fixture.quarantined()
    assert (item.queue, item.id, item.topic, item.body) == (jobs.PUBLISH_JOBS, "n", TOPIC, _job("n"))
    assert "5 times" in item.why
    assert await fixture.port.depth(jobs.PUBLISH_JOBS) == 0


async def test_a_job_that_ends_its_process_is_quarantined(fixture: QuarantineFixture) -> None:
    await fixture.put("n")
    stats = Stats()
    for _ in range(LEASES_MAX):
        (held,) = await fixture.port.receive(jobs.PUBLISH_JOBS, 1, LEASE_MS, 0)
        quarantine = Quarantine(fixture.port, fixture.leases, fixture.clock, stats)
        # a trial ends when its task does; this task goes on, so the next receive finds the trial unfinished
        assert not await quarantine.intercept(jobs.PUBLISH_JOBS, held, TOPIC)
        fixture.clock.advance(LEASE_MS + 1)
    await fixture.run_worker()
    assert len(await fixture.quarantined()) == 1


async def test_a_failing_job_does_not_delay_jobs_received_with_it(fixture: QuarantineFixture) -> None:
    await fixture.put("n", "a", "b")
    fixture.matcher.fails["n"] = _bug
    await fixture.run_worker()
    assert await fixture.port.depth(jobs.ENDPOINT_JOBS) == 2


@pytest.mark.parametrize(
    ("queue", "body"),
    [
        (jobs.PUBLISH_JOBS, NEWER),
        (jobs.PUBLISH_JOBS, b""),
        (jobs.PUBLISH_JOBS, jobs.encode(EndpointJob("n", TOPIC, ()))),
        (jobs.ENDPOINT_JOBS, NEWER),
        (jobs.ENDPOINT_JOBS, jobs.encode(PublishJob("n", TOPIC))),
        (jobs.FIFO_ENDPOINT_JOBS, NEWER),
    ],
)
async def test_an_undecodable_job_is_retried_then_quarantined_unchanged(
    fixture: QuarantineFixture, queue: str, body: bytes
) -> None:
    await fixture.port.enqueue([NewJob(queue, "n", body, "g", dedup="n")])
    receiver = JobReceiver(
        fixture.port, Quarantine(fixture.port, fixture.leases, fixture.clock, Stats()), fixture.clock
    )
    receive = receiver.publish_jobs if queue == jobs.PUBLISH_JOBS else receiver.target_jobs
    for _ in range(LEASES_MAX):
        assert await receive(queue, 10, LEASE_MS, 0) == []
        assert await fixture.port.depth(queue) == 1
        fixture.clock.advance(LEASE_MS + 1)
    assert await receive(queue, 10, LEASE_MS, 0) == []
    assert await fixture.port.depth(queue) == 0
    (item,) = await fixture.quarantined()
    assert (item.queue, item.id, item.body, item.why) == (queue, "n", body, "it cannot be read")


async def test_an_undecodable_job_does_not_delay_others(fixture: QuarantineFixture) -> None:
    await fixture.port.enqueue([NewJob(jobs.PUBLISH_JOBS, "x", NEWER, "a")])
    await fixture.put("n")
    await fixture.run_worker()
    assert await fixture.port.depth(jobs.ENDPOINT_JOBS) == 1


@pytest.mark.parametrize("queue", [jobs.FIFO_PUBLISH_JOBS, jobs.FIFO_ENDPOINT_JOBS])
async def test_what_is_behind_an_undecodable_job_of_its_message_group_waits_for_it(
    fixture: QuarantineFixture, queue: str
) -> None:
    """A newer worker may still read it, and must not find that later messages were sent before it."""
    publishes = queue == jobs.FIFO_PUBLISH_JOBS
    body = _job("n") if publishes else jobs.encode(EndpointJob("n", TOPIC, ()))
    quarantine = Quarantine(fixture.port, fixture.leases, fixture.clock, Stats())
    receiver = JobReceiver(fixture.port, quarantine, fixture.clock, in_order=True)

    async def receive() -> list[str]:
        if publishes:
            return [leased.id for leased, _ in await receiver.publish_jobs(queue, 10, LEASE_MS, 0)]
        return [received.leased.id for received in await receiver.target_jobs(queue, 10, LEASE_MS, 0)]

    for name, content, group in (("newer", NEWER, "g"), ("behind", body, "g"), ("other", body, "h")):
        await fixture.port.enqueue([NewJob(queue, name, content, group, dedup=name)])
    for _ in range(LEASES_MAX):
        assert await receive() == ["other"]
        fixture.clock.advance(LEASE_MS + 1)
    assert await receive() == ["behind", "other"]
    assert [item.id for item in await fixture.quarantined()] == ["newer"]


async def test_a_publish_that_crashes_takes_none_of_its_message_group_along(fixture: QuarantineFixture) -> None:
    fixture.matcher.fails["bad"] = _bug
    for name in ("before", "bad", "behind"):
        await fixture.port.enqueue([NewJob(jobs.FIFO_PUBLISH_JOBS, name, _job(name), "g", dedup=name)])
    await fixture.run_worker(fifo=True)
    assert await fixture.port.depth(jobs.FIFO_ENDPOINT_JOBS) == 1, "what was before it is not held up"
    for _ in range(LEASES_MAX):
        await fixture.run_worker(fifo=True)
    assert await fixture.port.depth(jobs.FIFO_ENDPOINT_JOBS) == 2
    assert [item.id for item in await fixture.quarantined()] == ["bad"]


def _job(name: str) -> bytes:
    notification = Notification(id=name, topic_arn=TOPIC, timestamp_ms=1, texts={"default": "hello"})
    return jobs.encode(PublishJob(name, TOPIC, notification))
