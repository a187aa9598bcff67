"""Opens the destination of a replay over the backend of the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from cns.delivery.delivery_policy import DEFAULT_CONTENT_TYPE, delivery_terms
from cns.delivery.target import FIXED_POLICIES, Target
from cns.publishing.matching import SubscriptionMatcher
from cns.queue_port.contract import QueuePort
from cns.queue_port.inline import InlineQueuePort
from cns.queue_port.sqs_delivery import QueueDeliverer
from cns.subscriptions.subscription import SubscriptionState
from cns.topics.cache import view_of
from cns.topics.topic import Topic
from cns_backend.backend import Backend
from cns_backend.queue_port import queue_port
from cns_backend.services import audit_log, event_log, notification_service, queue_service
from cns_backend.urls import address_of
from cns_cli.replay.display import warn
from cns_cli.replay.endpoint_destination import EndpointContext, EndpointDestination
from cns_cli.replay.job_destinations import AllSubscriptionsDestination, JobContext, SubscriptionDestination
from cns_cli.replay.model import PastArchive, ReplayDestination
from cns_cli.replay.options import ReplayOptions
from cns_cli.replay.progress import Progress
from cns_cli.replay.targets import ReplayTarget, TargetKind
from cns_cli.replay.topic_destination import TopicDestination
from cns_common.arn import parse_arn
from cns_common.configuration.settings import Settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_common.events.schema import EventSink
from cns_workers.delivery.channels import build_channels
from cns_workers.delivery.pool.pool import DeliveryPool
from cns_workers.delivery.senders import sender_factory
from cns_workers.delivery.service_channels import channel_context, envelope_context
from cqs.service import QueueService

PROCESS = "replay"
"""Names the segments of events."""
THREADS = 1
CLOSE_S = 5.0


@asynccontextmanager
async def open_destination(
    settings: Settings, backend: Backend, options: ReplayOptions, archive: PastArchive, progress: Progress
) -> AsyncIterator[ReplayDestination]:
    """Raises StartError if the target does not exist."""
    target = options.target
    assert target is not None
    audit = audit_log(settings, PROCESS, backend.clock)
    queues = await queue_service(settings, backend, audit)
    port = await queue_port(settings, backend, queues)
    try:
        with _events(settings, backend) as events:
            if target.kind is TargetKind.ENDPOINT:
                async with _endpoint(settings, backend, options, queues, port, events, progress.id) as endpoint:
                    yield endpoint
            elif target.kind is TargetKind.SUBSCRIPTION:
                context = JobContext(port, backend.clock, events, asyncio.sleep)
                yield await _subscription(backend, context, target, progress.id)
            else:
                context = JobContext(port, backend.clock, events, asyncio.sleep)
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


async def _subscription(
    backend: Backend, context: JobContext, target: ReplayTarget, replay_id: str
) -> SubscriptionDestination:
    found = await backend.subscriptions.get([target.text])
    if not found or found[0].state is not SubscriptionState.CONFIRMED:
        raise _absent(f"there is no confirmed subscription {target.text}")
    return SubscriptionDestination(context, found[0], replay_id)


async def _topic(
    settings: Settings,
    backend: Backend,
    options: ReplayOptions,
    context: JobContext,
    archive: PastArchive,
    progress: Progress,
) -> ReplayDestination:
    """A topic whose own archive has the messages does not get them a second time: its subscriptions do."""
    assert options.target is not None
    topic = await backend.topics.get(options.target.text)
    if topic is None:
        raise _absent(f"there is no topic {options.target.text}: create it first")
    if topic.arn == options.topic and _archives(topic, archive, progress):
        matcher = SubscriptionMatcher(backend.subscriptions, backend.clock, context.events)
        return AllSubscriptionsDestination(context, matcher, topic.arn, progress.id)
    dispatcher = notification_service(settings, backend, context.port, context.events).dispatcher
    return TopicDestination(dispatcher, context.port, view_of(topic), progress.id, context.sleep)


def _archives(topic: Topic, archive: PastArchive, progress: Progress) -> bool:
    """Whether the topic's archive has the messages of this replay."""
    return topic.archive is not None and archive.is_whole_in(topic.archive, progress.since_ms, progress.until_ms)


@asynccontextmanager
async def _endpoint(
    settings: Settings,
    backend: Backend,
    options: ReplayOptions,
    queues: QueueService,
    port: QueuePort,
    events: EventSink,
    replay_id: str,
) -> AsyncIterator[ReplayDestination]:
    target = options.target
    assert target is not None
    if settings.queue_port == "inline":
        # the operator, who has the data directory, needs no permission of the queue's policy
        port = InlineQueuePort(backend.engine, backend.clock, QueueDeliverer(queues, enforced=False).deliver)
    pool = DeliveryPool(PROCESS, THREADS, sender_factory(settings, backend.clock))
    try:
        envelopes = await envelope_context(settings, backend, address_of(settings).url)
        channels = build_channels(pool, channel_context(settings, backend, port, envelopes))
        channel = channels.by_protocol[target.protocol]
        context = EndpointContext(channel, endpoint_target(options), backend.clock, events, asyncio.sleep, warn)
        yield EndpointDestination(context, replay_id)
    finally:
        await pool.close(CLOSE_S)


def endpoint_target(options: ReplayOptions) -> Target:
    """The target of an endpoint without a subscription; account and region are the topic's."""
    assert options.target is not None
    topic = parse_arn(options.topic)
    assert topic is not None
    protocol = options.target.protocol
    return Target(
        arn="",
        protocol=protocol,
        endpoint=options.target.text,
        confirmed=True,
        raw=options.raw,
        retry=FIXED_POLICIES.get(protocol, delivery_terms(None, None, options.raw).retry),
        content_type=DEFAULT_CONTENT_TYPE,
        dead_letter_arn="",
        signature_version="1",
        account=topic.account,
        region=topic.region,
    )


def _absent(reason: str) -> StartError:
    return StartError(reason, EXIT_DATA_UNUSABLE)
