"""The parts of a worker that may end a message undelivered, over real stores, with their counts and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from msgspec.structs import replace

from cns.archives.replay import Replay
from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob
from cns.delivery.notification_references import NotificationReferences
from cns.delivery.observers.contract import Observers
from cns.delivery.observers.events import AttemptEvents
from cns.delivery.target import Target, TargetCache
from cns.endpoints.outcome import Failed, Outcome
from cns.notification import Notification
from cns.publishing.matching import SubscriptionMatcher
from cns.queue_port.contract import LeasedJob, NewJob
from cns.queue_port.inline import InlineQueuePort
from cns.topics.cache import TopicCache
from cns.topics.topic import Topic
from cns_backend.backend import Backend
from cns_common.events.schema import NotificationDropped
from cns_common.metrics.catalogue import DROPPED
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.job_attempts import JobAttempts, NextAttempt
from cns_workers.consumers.outcome_handler import OutcomeHandler
from cns_workers.delivery.channels import Channels
from cns_workers.fanout.context import FanoutContext
from cns_workers.fanout.fifo_producer import FifoProducer
from cns_workers.fanout.producer import Producer
from cns_workers.jobs.quarantine import Quarantine
from cns_workers.jobs.receiver import ReceivedJob
from cns_workers.stats import Stats
from tests.integration.sns.stores.cns_stores import subscription
from tests.integration.workers.embedded_context import channels_to, message, no_queue
from tests.recorded_events import RecordedEvents

ACCOUNT = "111111111111"
TOPIC = Topic(id="0" * 32, account=ACCOUNT, region="us-east-1", name="t", created_ms=1)
HTTP: dict[str, Any] = {
    "id": "00000001-0000-4000-8000-000000000000",
    "protocol": "http",
    "endpoint": "http://example.com/",
}
FIFO = replace(TOPIC, id="1" * 32, name="t.fifo")


class DropFixture:
    """The parts of a worker that end messages, with a count and an event sink that all of them share."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.stats = Stats()
        self.events = RecordedEvents()
        self.port = InlineQueuePort(backend.engine, backend.clock, no_queue)
        self.matching = SubscriptionMatcher(backend.subscriptions, backend.clock, self.events)
        quarantine = Quarantine(self.port, backend.leases, backend.clock, self.stats)
        self.context = DeliveryContext(
            port=self.port,
            notifications=backend.notifications,
            references=NotificationReferences(backend.notifications, backend.clock),
            targets=TargetCache(backend.topics, backend.subscriptions),
            clock=backend.clock,
            quarantine=quarantine,
            rates=backend.rates,
            stats=self.stats,
            observers=Observers(self.stats, AttemptEvents(self.events)),
            client_errors_succeed=False,
        )
        self.fanout = FanoutContext(
            port=self.port,
            topics=TopicCache(backend.topics),
            matcher=self.matching,
            notifications=backend.notifications,
            references=self.context.references,
            quarantine=quarantine,
            stats=self.stats,
            events=self.events,
            clock=backend.clock,
        )
        self.producer = Producer(self.fanout)
        self.fifo_producer = FifoProducer(self.fanout, cast(Any, NoReplays()))

    async def subscribe(self, topic: Topic = TOPIC, policy: str = "", **members: object) -> str:
        policies = {"FilterPolicy": policy} if policy else {}
        wanted = subscription(topic, **(HTTP | {"attributes": policies} | members))
        assert await self.backend.subscriptions.create(wanted, None) is not None
        return wanted.arn

    async def recreate(self, topic: Topic) -> None:
        """Delete the topic, and create another one with its name and a subscription."""
        assert await self.backend.topics.delete(topic.arn)
        other = replace(topic, id=topic.id[::-1] + "9")
        assert await self.backend.topics.create(other) == other
        await self.subscribe(other)

    async def put(self, queue: str, job: jobs.Job) -> None:
        await self.port.enqueue(
            [NewJob(queue, "m", jobs.encode(job), "g", dedup="m" if queue.endswith(".fifo") else "")]
        )

    def counted(self) -> dict[str, float]:
        """Drops by cause."""
        samples = [*self.stats.samples(), *self.matching.counts.samples()]
        return {dict(one.labels)["cause"]: one.value for one in samples if one.name == DROPPED.name and one.value}

    def told(self) -> list[tuple[str, str, int]]:
        drops = [event for event in self.events.events if isinstance(event, NotificationDropped)]
        return [(drop.cause, drop.subscription.rpartition(":")[2][:8], drop.subscriptions) for drop in drops]

    async def ends(self, target: Target, outcome: Failed, letter: Outcome | None = None) -> NextAttempt | None:
        """Handle the outcome of the last attempt. `letter` is the answer of the dead-letter queue."""
        attempts = self.attempts(EndpointJob("m", TOPIC.arn, (target.arn,), message(TOPIC)))
        attempts.observed.notification = message(TOPIC)
        attempts.report_attempt(target, outcome)
        return await OutcomeHandler(self.context, channels_to(Letters(letter))).handle(attempts, target, outcome)

    def attempts(self, job: jobs.TargetJob) -> JobAttempts:
        leased = LeasedJob("m", "", b"", 1)
        return JobAttempts(ReceivedJob(leased, job, 0, self.backend.clock.now_ms()), self.context, cast(Channels, None))


@dataclass
class NoReplays:
    """Stands for the archive: which subscriptions replay, and how many times a message has to wait for a replay."""

    replay: Replay | None = None
    looks: int = 0

    async def append_of_fifo(self, topic_arn: str, notification: Notification, accepted_ms: int) -> str:
        return ""

    async def find_replays(self, topic_arn: str, archive_id: str) -> dict[str, Replay]:
        if self.replay is None:
            return {}
        self.looks -= 1
        sent = "" if self.looks >= 0 else "9" * 20
        return {self.replay.subscription_arn: replace(self.replay, sent=sent)}


@dataclass(frozen=True)
class Letters:
    answer: Outcome | None

    async def dead_letter(self, queue_arn: str, target: Target, notification: Notification) -> Outcome:
        assert self.answer is not None
        return self.answer
