"""The jobs by which archived messages are sent again: those that the fan-out would put, marked as replayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from cns.archives.replay import replay_dedup_id
from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob
from cns.filters.topic_filters import TopicFilters
from cns.limits import FIFO_SUFFIX
from cns.notification import Notification
from cns.queue_port.contract import NewJob, QueuePort
from cns.subscriptions.subscription import IndexState, Subscription
from cns_common.events.schema import NotificationMatched

PUT_BYTES_MAX = 4 * 1024 * 1024


def replay_queue(topic_arn: str) -> str:
    """The internal queue of a topic's endpoint jobs."""
    return jobs.FIFO_ENDPOINT_JOBS if topic_arn.endswith(FIFO_SUFFIX) else jobs.ENDPOINT_JOBS


def replay_job(subscription_arn: str, notification: Notification, replay_id: str) -> NewJob:
    """The job of one subscription, with the notification inline. A job repeated by the same replay has the same ids."""
    topic_arn, replayed = notification.topic_arn, replace(notification, replayed=True)
    job = EndpointJob(notification.id, topic_arn, (subscription_arn,), replayed, notification.sequence_number)
    dedup = replay_dedup_id(notification.id, subscription_arn, replay_id)
    group = f"{subscription_arn} {notification.message_group_id}" if notification.fifo else subscription_arn
    queue = replay_queue(topic_arn)
    return NewJob(queue, dedup, jobs.encode(job), group, dedup=dedup if notification.fifo else "")


def as_replay(notification: Notification, topic_arn: str, replay_id: str) -> Notification:
    """The notification as the topic's subscribers get it, marked as replayed.

    On a FIFO topic its deduplication id is its own, so that messages with equal content, which were published hours
    apart, are all delivered, and a page that is repeated after a kill is not.
    """
    fifo = topic_arn.endswith(FIFO_SUFFIX)
    return replace(
        notification,
        topic_arn=topic_arn,
        replayed=True,
        sequence_number=notification.sequence_number if fifo else "",
        message_group_id=notification.message_group_id or (notification.id if fifo else ""),
        message_deduplication_id=f"{notification.id}-{replay_id}" if fifo else "",
    )


def matched_event(notification: Notification, matched: int, part: str, now_ms: int) -> NotificationMatched:
    """The event about the number of subscriptions that get a replayed notification."""
    return NotificationMatched(
        at_ms=now_ms,
        message_id=notification.id,
        topic=notification.topic_arn,
        matched=matched,
        part=part,
        replayed=True,
    )


def wanted_by(subscription: Subscription, notifications: Sequence[Notification]) -> list[Notification]:
    """The notifications that the subscription's filter policy lets through."""
    filters = TopicFilters()
    if subscription.index_state is IndexState.FILTERED:
        filters.put(subscription)
    return [each for each in notifications if not len(filters) or filters.find(each).matches.page()]


async def enqueue_in_chunks(port: QueuePort, new_jobs: Sequence[NewJob]) -> None:
    """Enqueue in order, in requests of at most PUT_BYTES_MAX."""
    for chunk in _chunks(new_jobs):
        await port.enqueue(chunk)


def _chunks(new_jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    chunk: list[NewJob] = []
    size_bytes = 0
    for job in new_jobs:
        if chunk and size_bytes + len(job.body) > PUT_BYTES_MAX:
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append(job)
        size_bytes += len(job.body)
    if chunk:
        yield chunk
