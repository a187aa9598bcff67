"""A delivery context on an embedded store, for tests of consumers without a service, and what is put into it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cns.delivery.notification_references import NotificationReferences
from cns.delivery.observers.contract import Observers
from cns.delivery.observers.events import AttemptEvents
from cns.delivery.target import TargetCache
from cns.notification import Notification
from cns.portal.owner_acts import OwnerActs
from cns.protocols.table import PROTOCOLS
from cns.queue_port.contract import QueueMessage, Refusal
from cns.queue_port.inline import DeliverToQueue, InlineQueuePort
from cns.stores.embedded import EmbeddedNotificationStore, EmbeddedSubscriptionStore, EmbeddedTopicStore
from cns.topics.topic import Topic
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_backend.stores.embedded.rates import EmbeddedRateStore
from cns_common.clock import Clock
from cns_common.sqlite.database import Database
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.delivery.channels import Channels
from cns_workers.jobs.quarantine import Quarantine
from cns_workers.stats import Stats
from cqs.engines.contract import Counts
from cqs.engines.embedded.engine import EmbeddedEngine
from cqs.internal_queues import internal_ref
from lab.harness.waiting import PATIENCE_S
from tests.integration.sns.stores.cns_stores import subscription
from tests.recorded_events import RecordedEvents

POLL_S = 0.02


@dataclass(frozen=True)
class EmbeddedContext:
    clock: Clock
    engine: EmbeddedEngine
    port: InlineQueuePort
    subscriptions: EmbeddedSubscriptionStore
    stats: Stats
    context: DeliveryContext
    events: RecordedEvents

    async def subscribe(self, topic: Topic, endpoint: str, **members: Any) -> str:
        """A confirmed subscription's ARN."""
        wanted = subscription(topic, endpoint, **{"attributes": {}, **members})
        assert await self.subscriptions.create(wanted, None) == wanted
        return wanted.arn

    async def pause(self, arn: str) -> None:
        await OwnerActs(self.subscriptions, self.clock).pause((await self.subscriptions.get([arn]))[0])

    async def resume(self, arn: str) -> None:
        await OwnerActs(self.subscriptions, self.clock).resume((await self.subscriptions.get([arn]))[0])

    async def until_depth(self, queue: str, n: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while await self.port.depth(queue) != n:
                await asyncio.sleep(POLL_S)

    async def until_delayed(self, queue: str, n: int) -> None:
        """Until the queue has `n` delayed jobs and no others: then the clock may pass the end of a lease."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.engine.counts(internal_ref(queue), self.clock.now_ms()) != Counts(delayed=n):
                await asyncio.sleep(POLL_S)


async def no_queue(queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
    """For tests that deliver to no customer's queue."""
    raise NotImplementedError


@asynccontextmanager
async def embedded_context(
    directory: Path, topics: Sequence[Topic], deliver: DeliverToQueue = no_queue
) -> AsyncIterator[EmbeddedContext]:
    clock, stats, events = Clock(), Stats(), RecordedEvents()
    database = Database(directory, clock)
    engine = EmbeddedEngine(database, clock)
    port = InlineQueuePort(engine, clock, deliver)
    notifications = EmbeddedNotificationStore(database)
    kept, subscriptions = EmbeddedTopicStore(database), EmbeddedSubscriptionStore(database)
    context = DeliveryContext(
        port=port,
        notifications=notifications,
        references=NotificationReferences(notifications, clock),
        targets=TargetCache(kept, subscriptions),
        clock=clock,
        quarantine=Quarantine(port, EmbeddedLeaseStore(), clock, stats),
        rates=EmbeddedRateStore(clock),
        stats=stats,
        observers=Observers(stats, AttemptEvents(events)),
        client_errors_succeed=False,
    )
    database.start(asyncio.get_running_loop())
    await asyncio.gather(*[kept.create(topic) for topic in topics])
    yield EmbeddedContext(clock, engine, port, subscriptions, stats, context, events)
    await database.close()


def message(topic: Topic, text: str = "m", **members: Any) -> Notification:
    """A notification whose id is its text."""
    return replace(Notification(id=text, topic_arn=topic.arn, timestamp_ms=1, texts={"default": text}), **members)


def channels_to(endpoints: Any) -> Channels:
    """Channels of all protocols, to endpoints that a test makes up."""
    return Channels(endpoints, endpoints, dict.fromkeys(PROTOCOLS, endpoints))
