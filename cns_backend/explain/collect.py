"""Collects the traces of one message: queues first, then events and stores, so that a moving job is not missed.

Processes write events within `FLUSH_INTERVAL_S`. Unless the written events already give the outcome for each
subscription, the collection is repeated after that time: then it has the events of jobs that left the queues.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from cns.delivery.envelope import MessageType
from cns.delivery.jobs import ConfirmationJob, DirectJob, PublishJob, Redelivery, TargetJob
from cns.notification import Notification
from cns.topics.topic import Topic
from cns_backend.backend import Backend
from cns_backend.explain.current_filters import SUBSCRIPTIONS_MAX, MessageFilter, TopicSubscriptions, read_subscriptions
from cns_backend.explain.gaps import EventDirectories, unknown_facts
from cns_backend.explain.histories import MessageTrace, Snapshot, histories
from cns_backend.explain.model import DeliveryStatus, Explanation, SearchSummary
from cns_backend.explain.queue_search import QueueSearch, notification_in, search_queues
from cns_backend.explain.why import why_nobody, with_causes
from cns_common.events.schema import DeliveryAttempted, DeliveryDeadLettered, DeliveryDelivered, NotificationDropped
from cns_common.events.search import SearchResult, search_back_to_publish, search_segments
from cns_common.file_writer import FLUSH_INTERVAL_S

ARCHIVE_PAGE = 100
ARCHIVE_PAGES_MAX = 100
EVENT_DELAY_MS_MAX = 5_000
"""The longest time between a publish and its first event."""
SETTLED = frozenset(DeliveryStatus) - {
    DeliveryStatus.UNKNOWN,
    DeliveryStatus.WAITING,
    DeliveryStatus.UNDER_WAY,
    DeliveryStatus.QUARANTINED,
}
"""The statuses that no later event changes."""
QUIET_MS = 10_000
"""With `quick`, all events of a message this old count as written, unless a worker has a job with it."""
EVENTS_WITH_TYPE = (DeliveryAttempted, DeliveryDelivered, DeliveryDeadLettered, NotificationDropped)


class Question(NamedTuple):
    message_id: str
    topic: str = ""  # ARN; needed only if no trace names it
    subscription: str = ""  # ARN; '' for all
    ago_ms: int = 0  # age of the oldest events to search; 0: back to the publish, or all
    subscriptions_max: int = SUBSCRIPTIONS_MAX  # read of the topic; also of those whose events are read
    quick: bool = False  # for a page: search back to the publish, and wait for late events only of a new message


class Findings(NamedTuple):
    """The traces of the message, and the message itself if it is still stored."""

    in_queues: QueueSearch
    in_events: SearchResult
    took_ms: int
    trace: MessageTrace
    notification: Notification | None
    text_in: str

    @property
    def published_ms(self) -> int:
        if self.notification is not None:
            return self.notification.timestamp_ms
        return 0 if self.trace.accepted is None else self.trace.accepted.at_ms

    @property
    def any(self) -> bool:
        events, queues = self.in_events, self.in_queues
        return bool(events.events or events.unread or queues.found or queues.unreadable or self.notification)


async def explain(backend: Backend, source: EventDirectories, question: Question) -> Explanation:
    """Return what is known of the message now, and what is unknown."""
    asked_ms = backend.clock.now_ms()
    in_queues = await search_queues(backend.engine, question.message_id, asked_ms)
    now_s = asyncio.get_running_loop().time
    written_s = now_s() + FLUSH_INTERVAL_S
    explanation = await _explain(backend, source, question, asked_ms, in_queues)
    if _is_settled(explanation, in_queues, question):
        return explanation
    await asyncio.sleep(max(written_s - now_s(), 0))
    return await _explain(backend, source, question, asked_ms, in_queues)


def _is_settled(explanation: Explanation, in_queues: QueueSearch, question: Question) -> bool:
    """Whether no event that is yet to be written can change the answer."""
    if explanation.accepted is None or in_queues.unreadable:
        return False
    if question.quick and explanation.asked_ms - explanation.began_ms >= QUIET_MS:
        return not any(job.location.under_way for job in in_queues.found)
    is_complete = bool(explanation.totals) or not explanation.accepted.has_recipients
    return is_complete and not in_queues.found and SETTLED.issuperset(explanation.totals)


async def _explain(
    backend: Backend, source: EventDirectories, question: Question, asked_ms: int, in_queues: QueueSearch
) -> Explanation:
    findings = await _find(backend, source, question, asked_ms, in_queues)
    topic_arn = question.topic or _topic_arn(findings)
    topic = await backend.topics.get(topic_arn) if topic_arn else None
    if findings.notification is None and topic is not None:
        findings = await _with_archived(backend, topic, question.message_id, findings)
    message_type = _message_type(findings)
    subscriptions = TopicSubscriptions({}, complete=True)
    if topic is not None and findings.any:
        subscriptions = await read_subscriptions(
            backend.subscriptions, topic_arn, question.subscription, question.subscriptions_max
        )
    snapshot = Snapshot(
        subscriptions=subscriptions.by_arn,
        message_filter=None if findings.notification is None else MessageFilter(findings.notification),
        published_ms=findings.published_ms,
        replays=await _replays(backend, topic),
        lists_untraced=message_type == MessageType.NOTIFICATION and not findings.in_events.left_out,
    )
    trace, found = findings.trace, findings.in_events
    traced = tuple(histories(trace, snapshot, question.subscription)) if findings.any else ()
    all_histories = with_causes(traced, subscriptions.by_arn, topic, asked_ms)
    totals = Counter(history.status for history in all_histories)
    return Explanation(
        message_id=question.message_id,
        asked_ms=asked_ms,
        known=findings.any,
        message_type=message_type,
        topic=topic_arn,
        published_ms=findings.published_ms,
        began_ms=findings.published_ms or next((one.event.at_ms for one in found.events), asked_ms),
        accepted=trace.accepted,
        text_in=findings.text_in,
        filtered=trace.filtered,
        fan_outs=tuple(trace.fan_outs),
        drops=tuple(trace.drops),
        histories=all_histories,
        totals={status: totals[status] for status in DeliveryStatus if totals[status]},
        unknown=tuple(
            unknown_facts(
                source,
                found,
                findings.in_queues,
                accepted=trace.accepted is not None,
                topic_gone=bool(topic_arn) and topic is None,
                complete=subscriptions.complete,
            )
        ),
        searched=SearchSummary(
            directories=tuple(map(str, source.directories)),
            segments=found.segments,
            bytes=found.searched_bytes,
            took_ms=findings.took_ms,
            jobs=findings.in_queues.jobs,
        ),
        why=why_nobody(trace.accepted, all_histories),
    )


async def _find(
    backend: Backend, source: EventDirectories, question: Question, now_ms: int, in_queues: QueueSearch
) -> Findings:
    notification = next(filter(None, map(notification_in, in_queues.found)), None)
    text_in = "job" if notification is not None else ""
    if notification is None:
        notification = await backend.notifications.get(question.message_id)
        text_in = "store" if notification is not None else ""
    since_ms = notification.timestamp_ms if notification is not None else 0
    if question.ago_ms:
        since_ms = max(now_ms - question.ago_ms, since_ms)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    which = (question.subscription, question.subscriptions_max)
    if question.quick:
        searching = partial(search_back_to_publish, source.directories, question.message_id, *which)
    else:
        searching = partial(search_segments, source.directories, question.message_id, since_ms, *which)
    in_events = await asyncio.to_thread(searching)
    took_ms = int((loop.time() - began_s) * 1000)
    trace = MessageTrace()
    for job in in_queues.found:
        trace.add_job(job)
    for one in in_events.events:
        trace.add_event(one.event)
    return Findings(in_queues, in_events, took_ms, trace, notification, text_in)


async def _with_archived(backend: Backend, topic: Topic, message_id: str, findings: Findings) -> Findings:
    """Add the message itself, if the topic's archive has it at the time of its acceptance."""
    at_ms = findings.published_ms
    if topic.archive is None or not at_ms:
        return findings
    after = ""
    for _ in range(ARCHIVE_PAGES_MAX):
        page = await backend.archives.page(topic.archive.id, at_ms - EVENT_DELAY_MS_MAX, at_ms + 1, after, ARCHIVE_PAGE)
        for archived in page:
            if archived.notification.id == message_id:
                return findings._replace(notification=archived.notification, text_in="archive")
        if len(page) < ARCHIVE_PAGE:
            break
        after = page[-1].key
    return findings


async def _replays(backend: Backend, topic: Topic | None) -> dict[str, str]:
    if topic is None or topic.archive is None:
        return {}
    return {one.subscription_arn: one.status for one in await backend.replays.of_topic(topic.arn)}


def _topic_arn(findings: Findings) -> str:
    """Return the topic that a trace names; '' for a publish to a phone number."""
    if findings.notification is not None:
        return findings.notification.topic_arn
    topics = [one.event.topic for one in findings.in_events.events]
    topics += [job.topic for job in _jobs(findings.in_queues) if not isinstance(job, DirectJob)]
    return next(filter(None, topics), "")


def _message_type(findings: Findings) -> str:
    in_jobs = [job.kind for job in _jobs(findings.in_queues) if isinstance(job, ConfirmationJob)]
    in_events = [one.event.message_type for one in findings.in_events.events if isinstance(one.event, EVENTS_WITH_TYPE)]
    return next(iter([*in_jobs, *in_events]), MessageType.NOTIFICATION)


def _jobs(queues: QueueSearch) -> Iterator[TargetJob | PublishJob]:
    for found in queues.found:
        yield found.job.job if isinstance(found.job, Redelivery) else found.job
