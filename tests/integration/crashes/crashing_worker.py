"""A worker whose process is killed at a named point and started again on the same store.

The kill is an exception that nothing catches. Nothing of a killed worker is used again but its store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

import cns_workers.consumers.consumer
import cns_workers.consumers.lane_consumer
import cns_workers.fanout.producer
import cns_workers.jobs.kill_points
from cns.delivery import jobs
from cns.delivery.envelope import ConfirmationNotice
from cns.delivery.notification_references import NotificationReferences
from cns.delivery.observers.contract import Observers
from cns.delivery.observers.events import AttemptEvents
from cns.delivery.target import Target, TargetCache
from cns.endpoints.outcome import Delivered, Outcome
from cns.notification import Notification
from cns.publishing.matching import SubscriptionMatcher
from cns.queue_port.contract import NewJob
from cns.queue_port.inline import InlineQueuePort
from cns.stores.embedded import EmbeddedNotificationStore, EmbeddedSubscriptionStore, EmbeddedTopicStore
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.cache import TopicCache
from cns.topics.topic import Topic
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_backend.stores.embedded.rates import EmbeddedRateStore
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.sqlite.database import Database
from cns_workers.consumers.consumer import Consumer
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.lane_batch import LEASE_MS
from cns_workers.consumers.lane_consumer import LaneConsumer
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits
from cns_workers.fanout.context import FanoutContext
from cns_workers.fanout.producer import Producer
from cns_workers.jobs.kill_points import KillPoints
from cns_workers.jobs.quarantine import Quarantine
from cns_workers.stats import Stats
from cqs.engines.contract import Engine
from cqs.engines.embedded.engine import EmbeddedEngine
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.embedded_context import channels_to, no_queue
from tests.recorded_events import RecordedEvents

ACCOUNT = "111111111111"
TOPIC = Topic(id="0" * 32, account=ACCOUNT, region="us-east-1", name="t", created_ms=1)
REFERENCES = "SELECT coalesce(sum(refs), 0) FROM notification_refs"
PAGES = 3
"""Pages of four subscriptions. Each process takes as many steps of the producer."""
PROCESSES_MAX = 12
RETRY_MS = 30_000
DRAIN_S = PATIENCE_S
"""A drain ends with the last task; what it cuts would end without its second commit, as after a kill."""
ENDPOINT_LIMITS = EndpointLimits(sends=1, failures=1)
"""After one failure an endpoint counts as down, and later jobs for it go into its lane."""


class SimulatedKill(BaseException):
    """Stands for SIGKILL: no `except Exception` catches it."""


@dataclass
class ScriptedEndpoints:
    """The first answers of each endpoint, and how many notifications each one accepted."""

    answers: dict[str, list[Outcome]] = field(default_factory=dict)
    got: Counter[str] = field(default_factory=Counter)
    slow: dict[str, float] = field(default_factory=dict)
    dead_letters: Counter[str] = field(default_factory=Counter)
    admission_applies: bool = False
    """Whether admission control limits the sends to each endpoint."""

    async def room(self) -> int:
        return 1_000

    def traffic_key(self, target: Target) -> str:
        return target.endpoint if self.admission_applies else ""  # one key for all: no endpoint is held back

    def deliver(self, target: Target, notification: Notification) -> asyncio.Future[Outcome]:
        return self._answer(target.endpoint)

    def confirm(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> asyncio.Future[Outcome]:
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
class CrashingWorker:
    """One store, and processes of a worker on it, one after the other."""

    clock: Clock
    database: Database
    port: InlineQueuePort
    leases: EmbeddedLeaseStore
    rates: EmbeddedRateStore
    notifications: EmbeddedNotificationStore
    topics: EmbeddedTopicStore
    subscriptions: EmbeddedSubscriptionStore
    endpoints: ScriptedEndpoints
    events: RecordedEvents = field(default_factory=RecordedEvents)
    """The events of all its processes."""

    async def subscribed(self, n: int, **attributes: str) -> tuple[str, ...]:
        subscriptions = [_subscription(number, attributes) for number in range(n)]
        for subscription in subscriptions:
            await self.subscriptions.create(subscription, None)
        return tuple([subscription.arn for subscription in subscriptions])

    async def put(self, queue: str, job: jobs.Job, references: int, times: int = 1) -> None:
        """Enqueue the job so many times, and store its notification with this reference count."""
        if references:
            await self.notifications.put(notification(), references, self.clock.now_ms() + DAY_MS)
        await self.port.enqueue(
            [NewJob(queue, f"job-{number}", jobs.encode(job), TOPIC.arn) for number in range(times)]
        )

    async def run_process(self) -> None:
        """Run one process: a few steps of each of its loops. A task that is killed does not go on."""
        context = self.context()
        producer = Producer(
            FanoutContext(
                port=self.port,
                topics=cast(TopicCache, None),  # the jobs name no topic id
                matcher=SubscriptionMatcher(self.subscriptions, self.clock, self.events),
                notifications=self.notifications,
                references=context.references,
                quarantine=context.quarantine,
                stats=context.stats,
                events=self.events,
                clock=self.clock,
                observers=context.observers,
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
            consumer = Consumer(queue, self.context(), channels_to(self.endpoints), admission or self.admission())
            await consumer.step()
            await consumer.drain(DRAIN_S)

    def lanes(self, admission: AdmissionController | None = None) -> LaneConsumer:
        return LaneConsumer(self.context(), channels_to(self.endpoints), admission or self.admission())

    def admission(self) -> AdmissionController:
        return AdmissionController(ENDPOINT_LIMITS, self.clock)

    def context(self) -> DeliveryContext:
        stats = Stats()
        return DeliveryContext(
            port=self.port,
            notifications=self.notifications,
            references=NotificationReferences(self.notifications, self.clock),
            targets=TargetCache(self.topics, self.subscriptions),
            clock=self.clock,
            quarantine=Quarantine(self.port, self.leases, self.clock, stats),
            rates=self.rates,
            stats=stats,
            observers=Observers(KillPoints(), stats, AttemptEvents(self.events)),
            client_errors_succeed=False,
        )

    async def run_until_done(self) -> None:
        for _ in range(PROCESSES_MAX):
            await self.run_process()
            if not await self.left():
                return
        raise AssertionError(f"{await self.left()} jobs are left")

    async def run_killed(self, monkeypatch: pytest.MonkeyPatch, point: str, count: int) -> None:
        """Run until all is done. A process is killed when it passes this point the `count`-th time."""
        kill = kill_at(monkeypatch, point, count)
        await self.run_until_done()
        assert kill.left <= 0, "the kill point was not reached"

    async def left(self) -> int:
        return sum([await self.port.depth(queue) for queue in jobs.INTERNAL_QUEUES])

    def references(self) -> int:
        row: Any = self.database.reader.execute(REFERENCES).fetchone()
        count: int = row[0]
        return count


class KillAtPoint:
    """Raises `SimulatedKill` the n-th time that the worker passes a kill point, once."""

    def __init__(self, point: str, count: int) -> None:
        self._point = point
        self.left = count

    def passed(self, name: str) -> None:
        if name == self._point:
            self.left -= 1
            if self.left == 0:
                raise SimulatedKill


@asynccontextmanager
async def crashing_worker_in(
    directory: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine | None = None, clock: Clock | None = None
) -> AsyncIterator[CrashingWorker]:
    """Pages, jobs and settlements are small, so that a few subscriptions take several of each. Its queues are those of
    `engine`, which has this `clock`; without one they are embedded."""
    monkeypatch.setattr(jobs, "PAGE_SUBSCRIPTIONS", 4)
    monkeypatch.setattr(jobs, "TARGETS_MAX", 2)
    monkeypatch.setattr(cns_workers.consumers.consumer, "SETTLE_AFTER_RESULTS", 2)
    for module in (cns_workers.consumers.consumer, cns_workers.consumers.lane_consumer, cns_workers.fanout.producer):
        monkeypatch.setattr(module, "WAIT_S", 0.0)
    clock = clock or Clock()
    database = Database(directory, clock)
    port = InlineQueuePort(engine or EmbeddedEngine(database, clock), clock, no_queue)
    topics, subscriptions = EmbeddedTopicStore(database), EmbeddedSubscriptionStore(database)
    notifications = EmbeddedNotificationStore(database)
    database.start(asyncio.get_running_loop())
    await topics.create(TOPIC)
    yield CrashingWorker(
        clock,
        database,
        port,
        EmbeddedLeaseStore(),
        EmbeddedRateStore(clock),
        notifications,
        topics,
        subscriptions,
        ScriptedEndpoints(),
    )
    await database.close()


def kill_at(monkeypatch: pytest.MonkeyPatch, point: str, count: int) -> KillAtPoint:
    kill = KillAtPoint(point, count)
    for module in (cns_workers.jobs.kill_points, cns_workers.fanout.producer):
        monkeypatch.setattr(module, "kill_point", kill.passed)
    return kill


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
