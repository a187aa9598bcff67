"""Replays to one subscription, or to all current subscriptions of a topic, by endpoint jobs.

The jobs are durable once they are enqueued. Workers deliver them like any other: with retries, dead-letter queues and
delivery events. Sequence numbers are those of the first delivery.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cns.archives.replay_jobs import as_replay, enqueue_in_chunks, matched_event, replay_job, replay_queue, wanted_by
from cns.delivery import jobs
from cns.delivery.jobs import TARGETS_MAX, EndpointJob
from cns.notification import Notification
from cns.publishing.matching import MatchPage, SubscriptionMatcher
from cns.queue_port.contract import NewJob, QueuePort
from cns.subscriptions.subscription import Subscription
from cns_cli.replay.backlog import Backlog
from cns_cli.replay.model import ReplayDestination
from cns_cli.replay.pace import Sleep
from cns_common.clock import Clock
from cns_common.events.schema import EventSink

JOBS_AT_ONCE = 400
"""The limit of jobs in memory; they contain their notifications."""


class JobContext(NamedTuple):
    """The dependencies of replays that put jobs."""

    port: QueuePort
    clock: Clock
    events: EventSink
    sleep: Sleep


class SubscriptionDestination(ReplayDestination):
    """One subscription, subject to its own filter policy."""

    def __init__(self, context: JobContext, subscription: Subscription, replay_id: str) -> None:
        self._context = context
        self._subscription = subscription
        self._replay_id = replay_id
        self._backlog = Backlog(context.port, replay_queue(subscription.topic_arn), context.sleep)

    async def send(self, notifications: Sequence[Notification]) -> int:
        await self._backlog.wait()
        wanted = wanted_by(self._subscription, notifications)
        adapted = [as_replay(each, self._subscription.topic_arn, self._replay_id) for each in wanted]
        for each in adapted:
            self._context.events.emit(matched_event(each, 1, self._replay_id, self._context.clock.now_ms()))
        new_jobs = [replay_job(self._subscription.arn, each, self._replay_id) for each in adapted]
        await enqueue_in_chunks(self._context.port, new_jobs)
        return len(wanted)


class AllSubscriptionsDestination(ReplayDestination):
    """All current subscriptions of a topic, by their filter policies. No message is published or archived again."""

    def __init__(self, context: JobContext, matcher: SubscriptionMatcher, topic_arn: str, replay_id: str) -> None:
        self._context = context
        self._matcher = matcher
        self._topic_arn = topic_arn
        self._replay_id = replay_id
        self._backlog = Backlog(context.port, replay_queue(topic_arn), context.sleep)

    async def send(self, notifications: Sequence[Notification]) -> int:
        await self._backlog.wait()
        adapted = [as_replay(each, self._topic_arn, self._replay_id) for each in notifications]
        pages = await self._matcher.pages(self._topic_arn, adapted, "", TARGETS_MAX)
        new_jobs: list[NewJob] = []
        for notification, page in zip(adapted, pages, strict=True):
            new_jobs += self._jobs(notification, page, "")
            cursor = page.cursor
            while cursor:
                following = await self._matcher.page(self._topic_arn, notification, cursor, TARGETS_MAX)
                new_jobs += self._jobs(notification, following, cursor)
                cursor = following.cursor
            if len(new_jobs) >= JOBS_AT_ONCE:
                await enqueue_in_chunks(self._context.port, new_jobs)
                new_jobs = []
        await enqueue_in_chunks(self._context.port, new_jobs)
        return len(adapted)

    def _jobs(self, notification: Notification, page: MatchPage, cursor: str) -> list[NewJob]:
        part, now_ms = f"{self._replay_id}/{cursor}", self._context.clock.now_ms()
        self._context.events.emit(matched_event(notification, len(page.arns), part, now_ms))
        if notification.fifo:
            return [replay_job(arn, notification, self._replay_id) for arn in page.arns]
        if not page.arns:
            return []
        job = EndpointJob(notification.id, self._topic_arn, page.arns, notification)
        group = jobs.own_queues_group(self._topic_arn)  # there may be queues among them
        return [NewJob(jobs.ENDPOINT_JOBS, f"{notification.id}/{part}", jobs.encode(job), group)]
