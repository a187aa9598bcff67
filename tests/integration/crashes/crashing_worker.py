"""A worker's life in a test: its loops run a few steps on a store that outlives it, and it may die at a named point.

Dying is an exception that nobody catches, and nothing of the dead worker's is used again; the store is the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import workers.consumers.consumer
import workers.consumers.lane_consumer
import workers.consumers.outcome_handler
import workers.fanout.producer
import workers.jobs.settlement
from cns.delivery import jobs
from cns.delivery.envelope import Confirmation
from cns.delivery.notification_references import NotificationReferences
from cns.delivery.target import Target, TargetCache
from cns.endpoints.outcome import Delivered, Outcome
from cns.notification import Notification
from cns.publishing.matching import SubscriptionMatcher
from cns.queue_port.contract import NewJob
from cns.queue_port.inline import InlineQueuePort
from cns.stores.embedded import EmbeddedNotificationStore, EmbeddedSubscriptionStore, EmbeddedTopicStore
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_common.clock import Clock
from cns_common.sqlite.database import Database
from cqs.engines.embedded import EmbeddedEngine
from tests.integration.workers.embedded_context import channels_to, no_queue
from tests.recorded_events import RecordedEvents
from workers.consumers.consumer import Consumer
from workers.consumers.delivery_context import DeliveryContext
from workers.consumers.lane_consumer import LEASE_MS, LaneConsumer
from workers.delivery.traffic.admission import AdmissionController
from workers.delivery.traffic.endpoint_state import EndpointLimits
from workers.fanout.context import FanoutContext
from workers.fanout.producer import Producer
from workers.jobs.quarantine import Quarantine
from workers.stats import Stats

ACCOUNT = "111111111111"
TOPIC = Topic(id="0" * 32, account=ACCOUNT, region="us-east-1", name="t", created_ms=1)
DAY_MS = 86_400_000
REFERENCES = "SELECT coalesce(sum(refs), 0) FROM notification_refs"
PAGES = 3
"""Of four subscriptions; a life has as many producer's steps."""
LIVES_MAX = 12
RETRY_MS = 30_000
DRAIN_S = 2.0
TERMS = EndpointLimits(sends=1, failures=1)
"""The first failure says that an endpoint is down, and what waits behind it goes into its lane."""


class Killed(BaseException):
    """Like SIGKILL, no `except Exception` sees it."""


@dataclass
class Desk:
    """Stands for the endpoints: the first answers of each, and what each got."""

    answers: dict[str, list[Outcome]] = field(default_factory=dict)
    got: Counter[str] = field(default_factory=Counter)
    slow: dict[str, float] = field(default_factory=dict)
    dead_letters: Counter[str] = field(default_factory=Counter)
    careful: bool = False
    """Whether its endpoints are given no more than the admission says."""

    async def room(self) -> int:
        return 1_000

    def traffic_key(self, target: Target) -> str:
        return target.endpoint if self.careful else ""  # room for all

    def deliver(self, target: Target, notification: Notification) -> asyncio.Future[Outcome]:
        return self._answer(target.endpoint)

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> asyncio.Future[Outcome]:
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

    async def put(self, queue: str, job: jobs.Job, references: int, times: int = 1) -> None:
        """With its notification, which as many jobs refer to."""
        if references:
            await self.notifications.put(notification(), references, self.clock.now_ms() + DAY_MS)
        await self.port.enqueue(
            [NewJob(queue, f"job-{number}", jobs.encode(job), TOPIC.arn) for number in range(times)]
        )

    async def live(self) -> None:
        """A process: all its loops, a few steps each; what dies in it stays dead."""
        context = self.context()
        producer = Producer(
            FanoutContext(
                port=self.port,
                matcher=SubscriptionMatcher(self.subscriptions, self.clock, context.events),
                notifications=self.notifications,
                references=context.references,
                quarantine=context.quarantine,
                stats=context.stats,
                events=context.events,
                clock=self.clock,
            )
        )
        for _ in range(PAGES):
            await producer.step()
        admission = self.admission()
        await self.consume(admission)
        lanes = self.lanes(admission)
        await lanes.step()
        await lanes.drain(DRAIN_S)
        self.clock.advance(LEASE_MS + RETRY_MS)

    async def consume(self, admission: AdmissionController | None = None) -> None:
        for queue in (jobs.ENDPOINT_JOBS, jobs.REDELIVERY):
            consumer = Consumer(queue, self.context(), channels_to(self.desk), admission or self.admission())
            await consumer.step()
            await consumer.drain(DRAIN_S)

    def lanes(self, admission: AdmissionController | None = None) -> LaneConsumer:
        return LaneConsumer(self.context(), channels_to(self.desk), admission or self.admission())

    def admission(self) -> AdmissionController:
        return AdmissionController(TERMS, self.clock)

    def context(self) -> DeliveryContext:
        stats, events = Stats(), RecordedEvents()
        return DeliveryContext(
            port=self.port,
            notifications=self.notifications,
            references=NotificationReferences(self.notifications),
            targets=TargetCache(self.topics, self.subscriptions),
            clock=self.clock,
            quarantine=Quarantine(self.port, self.leases, self.clock, stats),
            stats=stats,
            events=events,
            client_errors_succeed=False,
        )

    async def until_done(self) -> None:
        for _ in range(LIVES_MAX):
            await self.live()
            if not await self.left():
                return
        raise AssertionError(f"{await self.left()} jobs are left")

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


@asynccontextmanager
async def site_in(directory: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """Pages, jobs and settlements are small here, so that a few subscriptions take several."""
    monkeypatch.setattr(jobs, "PAGE_SUBSCRIPTIONS", 4)
    monkeypatch.setattr(jobs, "TARGETS_MAX", 2)
    monkeypatch.setattr(workers.consumers.consumer, "SETTLE_AFTER_RESULTS", 2)
    for module in (workers.consumers.consumer, workers.consumers.lane_consumer, workers.fanout.producer):
        monkeypatch.setattr(module, "WAIT_S", 0.0)
    clock = Clock()
    database = Database(directory, clock)
    port = InlineQueuePort(EmbeddedEngine(database, clock), clock, no_queue)
    topics, subscriptions = EmbeddedTopicStore(database), EmbeddedSubscriptionStore(database)
    notifications = EmbeddedNotificationStore(database)
    database.start(asyncio.get_running_loop())
    await topics.create(TOPIC)
    yield Site(clock, database, port, EmbeddedLeaseStore(), notifications, topics, subscriptions, Desk())
    await database.close()


def die_at(monkeypatch: pytest.MonkeyPatch, point: str, count: int) -> Death:
    death = Death(point, count)
    for module in (
        workers.consumers.outcome_handler,
        workers.jobs.settlement,
        workers.fanout.producer,
    ):
        monkeypatch.setattr(module, "kill_point", death.passed)
    return death


def endpoint(number: int) -> str:
    return f"http://127.0.0.1:{number + 1}/"


def _subscription(number: int, attributes: dict[str, str]) -> Subscription:
    return Subscription(
        id=f"{number:08}",
        topic_arn=TOPIC.arn,
        topic_id=TOPIC.id,
        owner=ACCOUNT,
        principal="",
        protocol="http",
        endpoint=endpoint(number),
        state=SubscriptionState.CONFIRMED,
        attributes={"RawMessageDelivery": "true", **attributes},
        created_ms=1,
    )


def notification() -> Notification:
    return Notification(id="n", topic_arn=TOPIC.arn, timestamp_ms=1, texts={"default": "hello"})
