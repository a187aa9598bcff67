"""A delivery context on an embedded store, for tests of consumers without a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cns.delivery.notification_references import NotificationReferences
from cns.delivery.target import TargetCache
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
from cns_workers.observers.contract import Observers
from cns_workers.observers.events import AttemptEvents
from cns_workers.stats import Stats
from cqs.engines.embedded.engine import EmbeddedEngine
from tests.recorded_events import RecordedEvents


@dataclass(frozen=True, slots=True)
class EmbeddedContext:
    clock: Clock
    port: InlineQueuePort
    subscriptions: EmbeddedSubscriptionStore
    stats: Stats
    events: RecordedEvents
    context: DeliveryContext


async def no_queue(queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
    """For tests that deliver to no customer's queue."""
    raise NotImplementedError


@asynccontextmanager
async def embedded_context(
    directory: Path, topics: Sequence[Topic], deliver: DeliverToQueue = no_queue
) -> AsyncIterator[EmbeddedContext]:
    clock, stats, events = Clock(), Stats(), RecordedEvents()
    database = Database(directory, clock)
    port = InlineQueuePort(EmbeddedEngine(database, clock), clock, deliver)
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
    yield EmbeddedContext(clock, port, subscriptions, stats, events, context)
    await database.close()


def channels_to(endpoints: Any) -> Channels:
    """Channels of all protocols, to endpoints that a test makes up."""
    return Channels(endpoints, endpoints, dict.fromkeys(PROTOCOLS, endpoints))
