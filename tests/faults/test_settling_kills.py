"""A worker that dies between two commits of one job, at each point there is: the next one ends what it began.

Dying is an exception that nobody catches, and nothing of the dead worker's is used again; the store is the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

import workers.concluding
import workers.consumer
import workers.producer
from cns import jobs
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.jobs import ConfirmationJob, EndpointJob, PublishJob
from cns.matching import Matching
from cns.model import Notification
from cns.queue_inline import InlineQueuePort
from cns.queue_port import Put, QueueMessage, Refused
from cns.stores.embedded import EmbeddedNotificationStore, EmbeddedSubscriptionStore, EmbeddedTopicStore
from cns.subscription import State, Subscription
from cns.target import Target, Targets
from cns.topic import Topic
from common import kill_points
from common.clock import Clock
from common.sqlite import Database
from cqs.engines.embedded import EmbeddedEngine
from tests.recorded_events import RecordedEvents
from workers.concluding import Tools
from workers.consumer import LEASE_MS, Consumer
from workers.delivery import Deliverer
from workers.drops import Drops
from workers.leases import EmbeddedLeaseStore
from workers.producer import Producer
from workers.quarantine import Quarantine
from workers.stats import Stats
from workers.traffic.endpoint import Terms
from workers.traffic.traffic import Traffic

ACCOUNT = "111111111111"
TOPIC = Topic(id="0" * 32, account=ACCOUNT, region="us-east-1", name="t", created_ms=1)
DEAD = f"arn:aws:sqs:us-east-1:{ACCOUNT}:dead"
DAY_MS = 86_400_000
AWAY = Failed(Cause.STATUS, "503", 0, status=503)
CLOSED = Failed(Cause.STATUS, "403", 0, status=403, permanent=True)
REFERENCES = "SELECT coalesce(sum(refs), 0) FROM notification_refs"
SUBSCRIPTIONS = 10
PAGES = 3
"""Of four subscriptions; a life has as many producer's steps."""
LIVES_MAX = 12
RETRY_MS = 30_000
DRAIN_S = 2.0
SLOW_S = 0.05


class Killed(BaseException):
    """Like SIGKILL, no `except Exception` sees it."""


@dataclass
class Desk:
    """Stands for the endpoints: the first answers of each, and what each got."""

    answers: dict[str, list[Outcome]] = field(default_factory=dict)
    got: Counter[str] = field(default_factory=Counter)
    slow: dict[str, float] = field(default_factory=dict)
    dead_letters: Counter[str] = field(default_factory=Counter)

    async def room(self) -> int:
        return 1_000

    def traffic_key(self, target: Target) -> str:
        return ""  # room for all

    def start(self, target: Target, notification: Notification) -> asyncio.Future[Outcome]:
        return self._answer(target.endpoint)

    def start_confirmation(self, target: Target, job: ConfirmationJob) -> asyncio.Future[Outcome]:
        return self._answer(target.endpoint)

    async def dead_letter(self, queue_arn: str, target: Target, notification: Notification) -> Outcome:
        self.dead_letters[target.endpoint] += 1
        return Delivered(200, 0, "id")

    def _answer(self, endpoint: str) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        script = self.answers.get(endpoint)
        outcome = script.pop(0) if script else Delivered(200, 0, "id")
        self.got[endpoint] += isinstance(outcome, Delivered)
        asyncio.get_running_loop().call_later(self.slow.get(endpoint, 0.0), future.set_result, outcome)
        return future


@dataclass(frozen=True, slots=True)
class Site:
    clock: Clock
    database: Database
    port: InlineQueuePort
    leases: EmbeddedLeaseStore
    notifications: EmbeddedNotificationStore
    topics: EmbeddedTopicStore
    subscriptions: EmbeddedSubscriptionStore
    desk: Desk

    async def subscribed(self, n: int, **attributes: str) -> tuple[str, ...]:
        subscriptions = [_subscription(number, attributes) for number in range(n)]
        for subscription in subscriptions:
            await self.subscriptions.create(subscription, None)
        return tuple([subscription.arn for subscription in subscriptions])

    async def put(self, queue: str, job: jobs.Job, references: int) -> None:
        """With its notification, which as many jobs refer to."""
        if references:
            await self.notifications.put(_notification(), references, self.clock.now_ms() + DAY_MS)
        await self.port.put([Put(queue, "job", jobs.encode(job), TOPIC.arn)])

    async def live(self) -> None:
        """A process: all its loops, a few steps each; what dies in it stays dead."""
        stats, events = Stats(), RecordedEvents()
        quarantine = Quarantine(self.port, self.leases, self.clock, stats)
        tools = Tools(
            port=self.port,
            notifications=self.notifications,
            targets=Targets(self.topics, self.subscriptions),
            clock=self.clock,
            quarantine=quarantine,
            stats=stats,
            events=events,
            client_errors_succeed=False,
        )
        matching, drops = Matching(self.subscriptions, self.clock, events), Drops(stats, events, self.clock)
        producer = Producer(self.port, matching, self.notifications, quarantine, drops, DAY_MS)
        for _ in range(PAGES):
            await producer.step()
        for queue in (jobs.ENDPOINT_JOBS, jobs.REDELIVERY):
            consumer = Consumer(queue, tools, cast(Deliverer, self.desk), Traffic(Terms(), self.clock))
            await consumer.step()
            await consumer.drain(DRAIN_S)
        self.clock.advance(LEASE_MS + RETRY_MS)

    async def left(self) -> int:
        return sum([await self.port.depth(queue) for queue in jobs.INTERNAL_QUEUES])

    def references(self) -> int:
        row: Any = self.database.reader.execute(REFERENCES).fetchone()
        count: int = row[0]
        return count


class Death:
    """Comes at one point, when it is passed for the n-th time, once."""

    def __init__(self, point: str, count: int) -> None:
        self._point = point
        self.left = count

    def passed(self, name: str) -> None:
        if name == self._point:
            self.left -= 1
            if self.left == 0:
                raise Killed


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(jobs, "PAGE_SUBSCRIPTIONS", 4)
    monkeypatch.setattr(jobs, "TARGETS_MAX", 2)
    monkeypatch.setattr(workers.consumer, "SETTLE_AFTER_RESULTS", 2)
    for module in (workers.consumer, workers.producer):
        monkeypatch.setattr(module, "WAIT_S", 0.0)
    clock = Clock()
    database = Database(tmp_path, clock)
    port = InlineQueuePort(EmbeddedEngine(database, clock), clock, _no_queue)
    topics, subscriptions = EmbeddedTopicStore(database), EmbeddedSubscriptionStore(database)
    notifications = EmbeddedNotificationStore(database)
    database.start(asyncio.get_running_loop())
    await topics.create(TOPIC)
    yield Site(clock, database, port, EmbeddedLeaseStore(), notifications, topics, subscriptions, Desk())
    await database.close()


def _die_at(monkeypatch: pytest.MonkeyPatch, point: str, count: int) -> Death:
    death = Death(point, count)
    for module in (workers.concluding, workers.consumer, workers.producer):
        monkeypatch.setattr(module, "passed", death.passed)
    return death


@pytest.mark.parametrize("page", range(1, PAGES + 1))
@pytest.mark.parametrize(
    ("point", "leaks"),
    [(kill_points.PUBLISH_TAKEN, 0), (kill_points.PUBLISH_FANNED_OUT, 3), (kill_points.PUBLISH_SETTLED, 1)],
)
async def test_a_fan_out(site: Site, monkeypatch: pytest.MonkeyPatch, point: str, leaks: int, page: int) -> None:
    """`leaks`: references at most that nobody gives up, so that the notification lasts its full life."""
    arns = await site.subscribed(SUBSCRIPTIONS)
    await site.put(jobs.PUBLISH_JOBS, PublishJob("n", TOPIC.arn), 1)
    death = _die_at(monkeypatch, point, page)
    await _until_done(site)
    assert death.left <= 0, "the point was not passed"
    assert site.desk.got == dict.fromkeys([_endpoint(number) for number in range(len(arns))], 1)
    assert 0 <= site.references() <= leaks


@pytest.mark.parametrize(
    ("point", "count", "twice", "leaks"),
    [
        (kill_points.JOB_DELIVERED, 1, {"a", "b", "slow"}, 0),
        (kill_points.JOB_REFERRED, 1, {"a", "b", "slow"}, 1),
        (kill_points.JOB_CONTINUED, 1, {"slow"}, 0),
        (kill_points.JOB_DELIVERED, 2, {"slow"}, 0),
        (kill_points.JOB_SETTLED, 1, set(), 1),
        (kill_points.JOB_DELIVERED, 3, {"again"}, 0),
        (kill_points.JOB_SETTLED, 2, set(), 1),
    ],
)
async def test_a_job_of_several(
    site: Site, monkeypatch: pytest.MonkeyPatch, point: str, count: int, twice: set[str], leaks: int
) -> None:
    """Two that answer at once, one that fails once, one that is slow: two settlements, and that of a redelivery. Twice
    comes at most what was unanswered, or answered and not settled."""
    arns = await site.subscribed(4)
    names = dict(zip(("a", "b", "again", "slow"), [_endpoint(number) for number in range(4)], strict=True))
    site.desk.answers[names["again"]] = [AWAY]
    site.desk.slow[names["slow"]] = SLOW_S
    await site.put(jobs.ENDPOINT_JOBS, EndpointJob("n", TOPIC.arn, arns), 1)
    death = _die_at(monkeypatch, point, count)
    await _until_done(site)
    assert death.left <= 0, "the point was not passed"
    assert set(site.desk.got) == set(names.values())
    assert {name for name, endpoint in names.items() if site.desk.got[endpoint] > 1} <= twice
    assert 0 <= site.references() <= leaks


@pytest.mark.parametrize("point", [kill_points.JOB_BURIED, kill_points.JOB_DELIVERED, kill_points.JOB_SETTLED])
async def test_a_burial(site: Site, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """Never none; twice when the job still named its target."""
    arns = await site.subscribed(1, RedrivePolicy=f'{{"deadLetterTargetArn":"{DEAD}"}}')
    site.desk.answers[_endpoint(0)] = [CLOSED, CLOSED]
    await site.put(jobs.ENDPOINT_JOBS, EndpointJob("n", TOPIC.arn, arns, _notification()), 0)
    death = _die_at(monkeypatch, point, 1)
    await _until_done(site)
    assert death.left <= 0, "the point was not passed"
    assert site.desk.dead_letters[_endpoint(0)] == (1 if point == kill_points.JOB_SETTLED else 2)


@pytest.mark.parametrize("point", [kill_points.JOB_DELIVERED, kill_points.JOB_SETTLED])
async def test_a_confirmation(site: Site, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    (arn,) = await site.subscribed(1)
    job = ConfirmationJob("SubscriptionConfirmation", "m", arn, TOPIC.arn, "token", 1, "http://127.0.0.1")
    await site.put(jobs.ENDPOINT_JOBS, job, 0)
    death = _die_at(monkeypatch, point, 1)
    await _until_done(site)
    assert death.left <= 0, "the point was not passed"
    assert site.desk.got[_endpoint(0)] == (2 if point == kill_points.JOB_DELIVERED else 1)


async def _until_done(site: Site) -> None:
    for _ in range(LIVES_MAX):
        await site.live()
        if not await site.left():
            return
    raise AssertionError(f"{await site.left()} jobs are left")


def _endpoint(number: int) -> str:
    return f"http://127.0.0.1:{number + 1}/"


def _subscription(number: int, attributes: dict[str, str]) -> Subscription:
    return Subscription(
        id=f"{number:08}",
        topic_arn=TOPIC.arn,
        topic_id=TOPIC.id,
        owner=ACCOUNT,
        principal="",
        protocol="http",
        endpoint=_endpoint(number),
        state=State.CONFIRMED,
        attributes={"RawMessageDelivery": "true", **attributes},
        created_ms=1,
    )


def _notification() -> Notification:
    return Notification(id="n", topic_arn=TOPIC.arn, timestamp_ms=1, texts={"default": "hello"})


async def _no_queue(queue_arn: str, message: QueueMessage, topic_arn: str) -> str | Refused:
    raise NotImplementedError
