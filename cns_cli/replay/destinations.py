"""Opens the destination of a replay over the backend of the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from cns.publishing.matching import SubscriptionMatcher
from cns.subscriptions.subscription import SubscriptionState
from cns.topics.cache import view_of
from cns.topics.topic import Topic
from cns_backend.backend import Backend
from cns_backend.queue_port import queue_port
from cns_backend.services import audit_log, event_log, notification_service, queue_service
from cns_cli.replay.job_destinations import AllSubscriptionsDestination, JobContext, SubscriptionDestination
from cns_cli.replay.model import PastArchive, ReplayDestination
from cns_cli.replay.options import ReplayOptions
from cns_cli.replay.progress import Progress
from cns_cli.replay.targets import is_subscription
from cns_cli.replay.topic_destination import TopicDestination
from cns_common.configuration.settings import Settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_common.events.schema import EventSink

PROCESS = "replay"
"""The name of this process in segments of events."""


@asynccontextmanager
async def open_destination(
    settings: Settings, backend: Backend, options: ReplayOptions, archive: PastArchive, progress: Progress
) -> AsyncIterator[ReplayDestination]:
    """Raises StartError if the target does not exist."""
    audit = audit_log(settings, PROCESS, backend.clock)
    queues = await queue_service(settings, backend, audit)
    port = await queue_port(settings, backend, queues)
    try:
        with _events(settings, backend) as events:
            context = JobContext(port, backend.clock, events, asyncio.sleep)
            if is_subscription(options.target):
                yield await _subscription(backend, context, options.target, progress.id)
            else:
                yield await _topic(settings, backend, options, context, archive, progress)
    finally:
        await port.close()
        audit.close()


@contextmanager
def _events(settings: Settings, backend: Backend) -> Iterator[EventSink]:
    events = event_log(settings, PROCESS, backend.clock)
    try:
        yield events
    finally:
        events.close()


async def _subscription(backend: Backend, context: JobContext, target: str, replay_id: str) -> SubscriptionDestination:
    found = await backend.subscriptions.get([target])
    if not found or found[0].state is not SubscriptionState.CONFIRMED:
        raise _absent(f"there is no confirmed subscription {target}")
    return SubscriptionDestination(context, found[0], replay_id)


async def _topic(
    settings: Settings,
    backend: Backend,
    options: ReplayOptions,
    context: JobContext,
    archive: PastArchive,
    progress: Progress,
) -> ReplayDestination:
    """A topic. If its own archive has the messages, only its subscriptions get them."""
    topic = await backend.topics.get(options.target)
    if topic is None:
        raise _absent(f"there is no topic {options.target}: create it first")
    if topic.arn == options.topic and _archives(topic, archive, progress):
        matcher = SubscriptionMatcher(backend.subscriptions, backend.clock, context.events)
        return AllSubscriptionsDestination(context, matcher, topic.arn, progress.id)
    dispatcher = notification_service(settings, backend, context.port, context.events).dispatcher
    return TopicDestination(dispatcher, context.port, view_of(topic), progress.id, context.sleep)


def _archives(topic: Topic, archive: PastArchive, progress: Progress) -> bool:
    """Whether the archive of the topic has the messages of this replay."""
    return topic.archive is not None and archive.is_whole_in(topic.archive, progress.since_ms, progress.until_ms)


def _absent(reason: str) -> StartError:
    return StartError(reason, EXIT_DATA_UNUSABLE)
