"""Gathers one message's life: the queues, then the stores, then what was told, so that what moves on is not missed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from cns.delivery.envelope import MessageType
from cns.delivery.jobs import ConfirmationJob, DirectJob, PublishJob, Redelivery, TargetJob
from cns.notification import Notification
from cns.topics.topic import Topic
from cns_backend.store_host import Parts
from cns_cli.explain.current_filters import Audience, Filtering, read_audience
from cns_cli.explain.gaps import Events, unknowns
from cns_cli.explain.histories import Evidence, Scene, lives
from cns_cli.explain.model import Fate, Searched, Story
from cns_cli.explain.queue_search import Looked, look, notification_in
from cns_common.events.schema import DeliveryAttempted, DeliveryDeadLettered, DeliveryDelivered, NotificationDropped
from cns_common.events.search import SearchResult, search_segments
from cns_common.file_writer import FLUSH_INTERVAL_S

ARCHIVE_PAGE = 100
ARCHIVE_PAGES_MAX = 100
LATE_MS = 5_000
"""So long before it was told of, a message may have been published."""
TYPED = (DeliveryAttempted, DeliveryDelivered, DeliveryDeadLettered, NotificationDropped)


class Question(NamedTuple):
    message_id: str
    topic: str = ""  # ARN; needed only where nothing else says it
    subscription: str = ""  # ARN; '' for all
    ago_ms: int = 0  # how far back events are looked at; 0: to the beginning, or as the message itself says


class Traces(NamedTuple):
    """What the message has left behind."""

    looked: Looked
    found: SearchResult
    took_ms: int
    evidence: Evidence
    notification: Notification | None
    text_in: str

    @property
    def published_ms(self) -> int:
        if self.notification is not None:
            return self.notification.timestamp_ms
        return 0 if self.evidence.accepted is None else self.evidence.accepted.at_ms

    @property
    def any(self) -> bool:
        looked = self.looked
        return bool(self.found.events or self.found.unread or looked.queued or looked.unreadable or self.notification)


async def explain(parts: Parts, events: Events, question: Question) -> Story:
    """What is known of the message now, and what is not."""
    asked_ms = parts.clock.now_ms()
    traces = await _traces(parts, events, question, asked_ms)
    topic_arn = question.topic or _topic_arn(traces)
    topic = await parts.topics.get(topic_arn) if topic_arn else None
    if traces.notification is None and topic is not None:
        traces = await _with_archived(parts, topic, question.message_id, traces)
    message_type = _message_type(traces)
    audience = Audience({}, whole=True)
    if topic is not None and traces.any:
        audience = await read_audience(parts.subscriptions, topic_arn, question.subscription)
    scene = Scene(
        subscriptions=audience.subscriptions,
        filtering=None if traces.notification is None else Filtering(traces.notification),
        published_ms=traces.published_ms,
        replays=await _replays(parts, topic),
        is_notification=message_type == MessageType.NOTIFICATION,
    )
    everybody = tuple(lives(traces.evidence, scene, question.subscription)) if traces.any else ()
    totals = Counter(life.fate for life in everybody)
    return Story(
        message_id=question.message_id,
        asked_ms=asked_ms,
        known=traces.any,
        message_type=message_type,
        topic=topic_arn,
        published_ms=traces.published_ms,
        began_ms=traces.published_ms or next((told.event.at_ms for told in traces.found.events), asked_ms),
        accepted=traces.evidence.accepted,
        text_in=traces.text_in,
        filtered=traces.evidence.filtered,
        fan_outs=tuple(traces.evidence.fan_outs),
        drops=tuple(traces.evidence.drops),
        lives=everybody,
        totals={fate: totals[fate] for fate in Fate if totals[fate]},
        unknown=tuple(
            unknowns(
                events,
                traces.found,
                traces.looked,
                accepted=traces.evidence.accepted is not None,
                topic_gone=bool(topic_arn) and topic is None,
                audience_whole=audience.whole,
            )
        ),
        searched=Searched(
            directories=tuple(map(str, events.directories)),
            segments=traces.found.segments,
            bytes=traces.found.searched_bytes,
            took_ms=traces.took_ms,
            jobs=traces.looked.jobs,
        ),
    )


async def _traces(parts: Parts, events: Events, question: Question, now_ms: int) -> Traces:
    looked = await look(parts.engine, question.message_id, now_ms)
    notification = next(filter(None, map(notification_in, looked.queued)), None)
    text_in = "job" if notification is not None else ""
    if notification is None:
        notification = await parts.notifications.get(question.message_id)
        text_in = "store" if notification is not None else ""
    since_ms = notification.timestamp_ms if notification is not None else 0
    if question.ago_ms:
        since_ms = max(now_ms - question.ago_ms, since_ms)
    await asyncio.sleep(FLUSH_INTERVAL_S)  # by then what was told before is written
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    found = await asyncio.to_thread(search_segments, events.directories, question.message_id, since_ms)
    took_ms = int((loop.time() - began_s) * 1000)
    evidence = Evidence()
    for queued in looked.queued:
        evidence.find(queued)
    for told in found.events:
        evidence.take(told.event)
    return Traces(looked, found, took_ms, evidence, notification, text_in)


async def _with_archived(parts: Parts, topic: Topic, message_id: str, traces: Traces) -> Traces:
    """With the message itself, if it is in the topic's archive at the time it was accepted."""
    at_ms = traces.published_ms
    if topic.archive is None or not at_ms:
        return traces
    after = ""
    for _ in range(ARCHIVE_PAGES_MAX):
        page = await parts.archives.page(topic.archive.id, at_ms - LATE_MS, at_ms + 1, after, ARCHIVE_PAGE)
        for archived in page:
            if archived.notification.id == message_id:
                return traces._replace(notification=archived.notification, text_in="archive")
        if len(page) < ARCHIVE_PAGE:
            break
        after = page[-1].key
    return traces


async def _replays(parts: Parts, topic: Topic | None) -> dict[str, str]:
    if topic is None or topic.archive is None:
        return {}
    return {one.subscription_arn: one.status for one in await parts.replays.of_topic(topic.arn)}


def _topic_arn(traces: Traces) -> str:
    """'' of what was published to a phone."""
    if traces.notification is not None:
        return traces.notification.topic_arn
    topics = [told.event.topic for told in traces.found.events]
    topics += [job.topic for job in _jobs(traces.looked) if not isinstance(job, DirectJob)]
    return next(filter(None, topics), "")


def _message_type(traces: Traces) -> str:
    confirmations = [job.kind for job in _jobs(traces.looked) if isinstance(job, ConfirmationJob)]
    told = [one.event.message_type for one in traces.found.events if isinstance(one.event, TYPED)]
    return next(iter([*confirmations, *told]), MessageType.NOTIFICATION)


def _jobs(looked: Looked) -> Iterator[TargetJob | PublishJob]:
    for queued in looked.queued:
        yield queued.job.job if isinstance(queued.job, Redelivery) else queued.job
