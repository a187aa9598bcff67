"""Fixtures of replay tests: the service over a real engine, and a fan-out and replays that tests step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cns.archives.archiver import Archiver
from cns.archives.replay import Replay
from cns.archives.replay_worker import START_DELAY_MS, ReplayWorker
from cns.delivery import jobs
from cns.delivery.envelope import timestamp_text
from cns.delivery.jobs import EndpointJob
from cns.delivery.notification_references import NotificationReferences
from cns.limits import Quotas
from cns.publishing.matching import SubscriptionMatcher
from cns.queue_port.inline import InlineQueuePort
from cns.topics.cache import TopicCache
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_common.clock import Clock
from cns_common.events.schema import NoEvents
from cns_common.sqlite.database import Database
from cns_workers.background.leased_tasks import LeasedTaskRunner
from cns_workers.background.replays import Replays
from cns_workers.fanout.context import FanoutContext
from cns_workers.fanout.fifo_producer import FifoProducer
from cns_workers.jobs.quarantine import Quarantine
from cns_workers.stats import Stats
from cqs.engines.embedded.engine import EmbeddedEngine
from lab.harness.waiting import PATIENCE_S
from tests.integration.sns.cns_support import Rig, queue_arn
from tests.integration.workers.embedded_context import no_queue
from tests.recorded_events import RecordedEvents


class QueuedText(NamedTuple):
    """A message for a subscription in a queue of endpoint jobs."""

    text: str
    replayed: bool


class ReplayFixture:
    def __init__(self, database: Database, clock: Clock) -> None:
        self.clock = clock
        self.port = InlineQueuePort(EmbeddedEngine(database, clock), clock, no_queue)
        self.rig = Rig(database, clock, Quotas(), port=self.port)
        self.leases = EmbeddedLeaseStore()
        self.archives: Any = self.rig.archives
        """The archive store of replays. Tests may replace it."""
        self.topics = TopicCache(self.rig.topics)
        self.producer = self.fifo_producer(Archiver(self.topics, self.rig.archives, self.rig.replays))

    def fifo_producer(self, archiver: Any) -> FifoProducer:
        stats = Stats()
        return FifoProducer(
            FanoutContext(
                port=self.port,
                topics=self.topics,
                matcher=SubscriptionMatcher(self.rig.subscriptions, self.clock, RecordedEvents()),
                notifications=self.rig.notifications,
                references=NotificationReferences(self.rig.notifications, self.clock),
                quarantine=Quarantine(self.port, EmbeddedLeaseStore(), self.clock, stats),
                stats=stats,
                events=RecordedEvents(),
                clock=self.clock,
            ),
            archiver,
        )

    async def topic(self, name: str = "t.fifo") -> str:
        fifo = {"FifoTopic": "true", "ContentBasedDeduplication": "true"} if name.endswith(".fifo") else {}
        return await self.rig.topic(name, ArchivePolicy='{"MessageRetentionPeriod":30}', **fifo)

    async def subscribe(self, topic: str, name: str = "q.fifo", **attributes: str) -> str:
        return await self.rig.subscribe(topic, "sqs", queue_arn("111111111111", name), **attributes)

    async def publish(self, topic: str, *texts: str, group: str = "g") -> None:
        for text in texts:
            ids = {"MessageGroupId": group} if topic.endswith(".fifo") else {}
            await self.rig("Publish", TopicArn=topic, Message=text, MessageAttributes=attributes_of(text), **ids)

    async def fan_out(self, leave: int = 0) -> None:
        """Fan out published messages until `leave` are left in the queue."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.port.depth(jobs.FIFO_PUBLISH_JOBS) > leave:
                await self.producer.step()

    def now_text(self, ahead_ms: int = 0) -> str:
        return timestamp_text(self.clock.now_ms() + ahead_ms)

    async def start_replay(self, subscription: str, start: str, end: str = "") -> None:
        policy = {"PointType": "Timestamp", "StartingPoint": start} | ({"EndingPoint": end} if end else {})
        await self.set_replay_policy(subscription, json.dumps(policy))

    async def set_replay_policy(self, subscription: str, text: str) -> None:
        await self.rig.set(subscription, "ReplayPolicy", text)

    def pass_start_delay(self) -> None:
        """Advance the clock until a replay may begin."""
        self.clock.advance(START_DELAY_MS)

    def replay_worker(self, replays: Any = None, port: Any = None) -> ReplayWorker:
        """A worker's replay worker, optionally with another replay store or port."""
        rig = self.rig
        return ReplayWorker(
            replays or rig.replays,
            self.archives,
            rig.topics,
            rig.subscriptions,
            port or self.port,
            self.clock,
            NoEvents(),
        )

    def runner(self) -> LeasedTaskRunner[Replay]:
        return LeasedTaskRunner(Replays(self.rig.replays, self.replay_worker()), self.leases, self.clock)

    async def replay(self, subscription: str) -> str:
        """Run a replay until it ends or has to wait. Returns its status."""
        self.pass_start_delay()
        replay = await self.rig.replays.get(subscription)
        assert replay is not None
        worker = self.replay_worker()
        while await worker.step(replay):
            pass
        return await self.status(subscription)

    async def status(self, subscription: str) -> str:
        return (await self.rig.attributes(subscription)).get("ReplayStatus", "none")

    async def take_queued(self, queue: str = jobs.FIFO_ENDPOINT_JOBS) -> dict[str, list[QueuedText]]:
        """The messages queued since the last call, by subscription. Each group is in order."""
        found: dict[str, list[QueuedText]] = {}
        while await self.port.depth(queue):
            held = await self.port.receive(queue, 10, 30_000, 1.0)
            for each in held:
                job = jobs.decode(each.body)
                assert isinstance(job, EndpointJob)
                assert job.inline is not None
                queued = QueuedText(job.inline.texts["default"], job.inline.replayed)
                found.setdefault(job.subscriptions[0], []).append(queued)
            await self.port.settle(queue, [each.handle for each in held])
        return found


def attributes_of(text: str) -> dict[str, Any]:
    """An attribute for filter policies: the last character of the text."""
    return {"last": {"DataType": "String", "StringValue": text[-1]}}


def live_texts(*texts: str) -> list[QueuedText]:
    return [QueuedText(text, False) for text in texts]


def replayed_texts(*texts: str) -> list[QueuedText]:
    return [QueuedText(text, True) for text in texts]


def numbered_texts(n: int, letter: str = "m") -> list[str]:
    return [f"{letter}{number:04d}" for number in range(n)]


async def archive_texts(site: ReplayFixture, *published: str) -> tuple[str, str, str]:
    """Publish texts to a new topic with an archive. Returns the topic, its subscription, and the time of the start."""
    topic = await site.topic()
    arn = await site.subscribe(topic)
    start = site.now_text()
    await site.publish(topic, *published)
    await site.fan_out()
    assert await site.take_queued() == {arn: live_texts(*published)}
    return topic, arn, start


@asynccontextmanager
async def open_site(directory: Path) -> AsyncIterator[ReplayFixture]:
    clock = Clock()
    database = Database(directory, clock)
    fixture = ReplayFixture(database, clock)
    database.start(asyncio.get_running_loop())
    try:
        yield fixture
    finally:
        await database.close()
