"""A worker loses its lease while it works: the worker that takes the job over still finds its notification."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from cns.delivery import jobs
from cns.delivery.envelope_cache import EnvelopeCache
from cns.delivery.jobs import EndpointJob, PublishJob
from cns.delivery.notification_references import NotificationReferences
from cns.delivery.remote_queues import RemoteQueueResolver
from cns.delivery.target import TargetCache
from cns.endpoints.contract import Senders
from cns.notification import Notification
from cns.publishing.matching import MatchPage, SubscriptionMatcher
from cns.queue_port.contract import NewJob, QueueMessage, Refusal, Renewal
from cns.queue_port.inline import InlineQueuePort
from cns.stores.embedded import EmbeddedNotificationStore, EmbeddedSubscriptionStore, EmbeddedTopicStore
from cns.topics.cache import TopicCache
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_backend.stores.embedded.rates import EmbeddedRateStore
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.sqlite.database import Database
from cns_workers.consumers.consumer import LEASE_MS, Consumer
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.delivery.channels import Channels
from cns_workers.delivery.pool.pool import DeliveryPool
from cns_workers.delivery.sqs_channel import SqsChannel
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits
from cns_workers.fanout.context import FanoutContext
from cns_workers.fanout.producer import Producer
from cns_workers.jobs.quarantine import Quarantine
from cns_workers.stats import Stats
from cqs.engines.embedded.engine import EmbeddedEngine
from tests.recorded_events import RecordedEvents

TOPIC = "arn:aws:sns:us-east-1:111111111111:t"
ARNS = tuple([f"{TOPIC}:{number}" for number in range(150)])
COUNT = "SELECT refs FROM notification_refs"


class SlowPort(InlineQueuePort):
    """Before its first settlement the lease expires and `meanwhile` runs."""

    def __init__(self, engine: EmbeddedEngine, clock: Clock, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(engine, clock, _deliver_to_queue)
        self._test_clock = clock
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    async def settle(
        self, queue: str, deletes: Sequence[str] = (), new_jobs: Sequence[NewJob] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            self._test_clock.advance(LEASE_MS + 1)
            await meanwhile()
        return await super().settle(queue, deletes, new_jobs, renewals)


@dataclass(frozen=True, slots=True)
class Host:
    clock: Clock
    database: Database
    engine: EmbeddedEngine
    notifications: EmbeddedNotificationStore
    targets: TargetCache

    def port(self) -> InlineQueuePort:
        return InlineQueuePort(self.engine, self.clock, _deliver_to_queue)

    def slow_port(self, meanwhile: Callable[[], Awaitable[None]]) -> SlowPort:
        return SlowPort(self.engine, self.clock, meanwhile)

    def references(self) -> int:
        """0 if the notification is deleted."""
        row: Any = self.database.reader.execute(COUNT).fetchone()
        return row[0] if row else 0


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    clock = Clock()
    database = Database(tmp_path, clock)
    engine = EmbeddedEngine(database, clock)
    notifications = EmbeddedNotificationStore(database)
    targets = TargetCache(EmbeddedTopicStore(database), EmbeddedSubscriptionStore(database))
    database.start(asyncio.get_running_loop())
    yield Host(clock, database, engine, notifications, targets)
    await database.close()


async def test_a_fan_out_done_twice_leaves_a_reference_for_every_job(host: Host) -> None:
    await host.notifications.put(_notification(), 1, host.clock.now_ms() + DAY_MS)
    await host.port().enqueue([NewJob(jobs.PUBLISH_JOBS, "p", jobs.encode(PublishJob("n", TOPIC)), "a")])
    await _producer(host, host.slow_port(_producer(host, host.port()).step)).step()
    assert await host.port().depth(jobs.ENDPOINT_JOBS) == 4
    assert host.references() == 4


async def test_a_job_done_twice_gives_up_its_reference_once(host: Host) -> None:
    await host.notifications.put(_notification(), 2, host.clock.now_ms() + DAY_MS)
    await host.port().enqueue([NewJob(jobs.ENDPOINT_JOBS, "e", jobs.encode(EndpointJob("n", TOPIC, ARNS[:1])), TOPIC)])
    await _consume(host, host.slow_port(lambda: _consume(host, host.port())))
    assert await host.port().depth(jobs.ENDPOINT_JOBS) == 0
    assert host.references() == 1  # the reference of the other job


def _producer(host: Host, port: InlineQueuePort) -> Producer:
    return Producer(
        FanoutContext(
            port=port,
            topics=cast(TopicCache, None),  # the jobs name no topic id
            matcher=_AllSubscriptions(),
            notifications=host.notifications,
            references=NotificationReferences(host.notifications, host.clock),
            quarantine=_quarantine(host, port),
            stats=Stats(),
            events=RecordedEvents(),
            clock=host.clock,
        )
    )


async def _consume(host: Host, port: InlineQueuePort) -> None:
    context = DeliveryContext(
        port=port,
        notifications=host.notifications,
        references=NotificationReferences(host.notifications, host.clock),
        targets=host.targets,
        clock=host.clock,
        quarantine=_quarantine(host, port),
        rates=EmbeddedRateStore(host.clock),
        stats=Stats(),
        client_errors_succeed=False,
    )
    pool = DeliveryPool("none", 0, lambda: Senders({}))
    # the subscription does not exist: nothing is sent
    queues = SqsChannel(port, pool, cast(EnvelopeCache, None), RemoteQueueResolver(()))
    admission = AdmissionController(EndpointLimits(), host.clock)
    consumer = Consumer(jobs.ENDPOINT_JOBS, context, Channels(pool, queues, {}), admission)
    await consumer.step()
    await consumer.drain(5.0)


def _quarantine(host: Host, port: InlineQueuePort) -> Quarantine:
    return Quarantine(port, EmbeddedLeaseStore(), host.clock, Stats())


class _AllSubscriptions(SubscriptionMatcher):
    def __init__(self) -> None: ...

    async def page(self, topic_arn: str, notification: Notification, cursor: str, n: int) -> MatchPage:
        return MatchPage(ARNS, "")

    def report_matched(self, notification: Notification, matched: int, part: str = "") -> None:
        assert (matched, part) == (len(ARNS), "")


def _notification() -> Notification:
    return Notification(id="n", topic_arn=TOPIC, timestamp_ms=1, texts={"default": "hello"})


async def _deliver_to_queue(queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
    raise AssertionError("nothing is delivered here")
