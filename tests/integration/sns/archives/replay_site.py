"""What a replay's test needs: the service over a real engine, a fan-out that tests step, and a worker's replays."""

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
from cns_common.sqlite.database import Database
from cqs.engines.embedded import EmbeddedEngine
from tests.integration.sns.cns_support import Rig, queue_arn
from tests.integration.workers.embedded_context import no_queue
from tests.recorded_events import RecordedEvents
from workers.background.leased_tasks import LeasedTaskRunner
from workers.background.replays import Replays
from workers.fanout.context import FanoutContext
from workers.fanout.fifo_producer import FifoProducer
from workers.jobs.quarantine import Quarantine
from workers.stats import Stats


class Came(NamedTuple):
    """What a subscription was to be sent."""

    text: str
    replayed: bool


class ReplaySite:
    def __init__(self, database: Database, clock: Clock) -> None:
        self.clock = clock
        self.port = InlineQueuePort(EmbeddedEngine(database, clock), clock, no_queue)
        self.rig = Rig(database, clock, Quotas(), port=self.port)
        self.leases = EmbeddedLeaseStore()
        self.archives: Any = self.rig.archives
        """What replays read."""
        topics = TopicCache(self.rig.topics)
        self.producer = self.fifo_producer(Archiver(topics, self.rig.archives, self.rig.replays))

    def fifo_producer(self, archiver: Any) -> FifoProducer:
        stats = Stats()
        return FifoProducer(
            FanoutContext(
                port=self.port,
                matcher=SubscriptionMatcher(self.rig.subscriptions, self.clock, RecordedEvents()),
                notifications=self.rig.notifications,
                references=NotificationReferences(self.rig.notifications),
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

    async def fan_out(self, but: int = 0) -> None:
        """All that was published, but for so many that are held."""
        async with asyncio.timeout(20):
            while await self.port.depth(jobs.FIFO_PUBLISH_JOBS) > but:
                await self.producer.step()

    def now_text(self, ahead_ms: int = 0) -> str:
        return timestamp_text(self.clock.now_ms() + ahead_ms)

    async def ask(self, subscription: str, start: str, end: str = "") -> None:
        policy = {"PointType": "Timestamp", "StartingPoint": start} | ({"EndingPoint": end} if end else {})
        await self.set_policy(subscription, json.dumps(policy))

    async def set_policy(self, subscription: str, text: str) -> None:
        await self.rig(
            "SetSubscriptionAttributes",
            SubscriptionArn=subscription,
            AttributeName="ReplayPolicy",
            AttributeValue=text,
        )

    def settle(self) -> None:
        """A replay may begin."""
        self.clock.advance(START_DELAY_MS)

    def replay_worker(self, replays: Any = None, port: Any = None) -> ReplayWorker:
        """As a worker has it, or with others than its own."""
        rig = self.rig
        return ReplayWorker(
            replays or rig.replays, self.archives, rig.topics, rig.subscriptions, port or self.port, self.clock
        )

    def runner(self) -> LeasedTaskRunner[Replay]:
        return LeasedTaskRunner(Replays(self.rig.replays, self.replay_worker()), self.leases, self.clock)

    async def replay(self, subscription: str) -> str:
        """Until it is over or has to wait; its status."""
        self.settle()
        replay = await self.rig.replays.get(subscription)
        assert replay is not None
        worker = self.replay_worker()
        while await worker.step(replay):
            pass
        return await self.status(subscription)

    async def status(self, subscription: str) -> str:
        return (await self.rig.attributes(subscription)).get("ReplayStatus", "none")

    async def came(self, queue: str = jobs.FIFO_ENDPOINT_JOBS) -> dict[str, list[Came]]:
        """What is to be delivered since the last look, by subscription, in the order of its groups."""
        found: dict[str, list[Came]] = {}
        while await self.port.depth(queue):
            held = await self.port.receive(queue, 10, 30_000, 1.0)
            for each in held:
                job = jobs.decode(each.body)
                assert isinstance(job, EndpointJob)
                assert job.inline is not None
                came = Came(job.inline.texts["default"], job.inline.replayed)
                found.setdefault(job.subscriptions[0], []).append(came)
            await self.port.settle(queue, [each.handle for each in held])
        return found


def attributes_of(text: str) -> dict[str, Any]:
    """By which a subscription may choose: the last character of the text."""
    return {"last": {"DataType": "String", "StringValue": text[-1]}}


def live(*texts: str) -> list[Came]:
    return [Came(text, False) for text in texts]


def again(*texts: str) -> list[Came]:
    return [Came(text, True) for text in texts]


def texts(n: int, letter: str = "m") -> list[str]:
    return [f"{letter}{number:04d}" for number in range(n)]


async def kept(site: ReplaySite, *given: str) -> tuple[str, str, str]:
    """A topic that has kept these, a subscription that got them, and when they began."""
    topic = await site.topic()
    arn = await site.subscribe(topic)
    start = site.now_text()
    await site.publish(topic, *given)
    await site.fan_out()
    assert await site.came() == {arn: live(*given)}
    return topic, arn, start


@asynccontextmanager
async def open_site(directory: Path) -> AsyncIterator[ReplaySite]:
    clock = Clock()
    database = Database(directory, clock)
    site = ReplaySite(database, clock)
    database.start(asyncio.get_running_loop())
    try:
        yield site
    finally:
        await database.close()
