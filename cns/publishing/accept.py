"""Accepts notifications: stores them and enqueues the jobs that deliver them.

A topic with at most a hundred subscriptions gets its endpoint job at once, a larger one a publish job that a producer
fans out. The subscriptions read decide which: a counter could be wrong and lose messages. Notifications of FIFO topics
go through one FIFO queue, which recognises duplicates, numbers the others, and is fanned out in order. A message is
accepted when its job is durable. A notification that is too large for its job is stored before the job, or in the same
commit.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TypeVar

from cns.archives.archiver import Archiver
from cns.delivery import jobs
from cns.delivery.jobs import INLINE_BYTES_MAX, TARGETS_MAX, EndpointJob, PublishJob
from cns.delivery.notification_references import NotificationReferences
from cns.notification import Notification
from cns.publishing.matching import MatchPage, SubscriptionMatcher
from cns.publishing.requests import PublishResult, SizedNotification
from cns.queue_port.contract import NewJob, QueuePort
from cns.stores.contract import NotificationStore
from cns.topics.cache import TopicView
from cns_common.clock import Clock
from cns_common.events.schema import EventSink, PublishAccepted

Result = TypeVar("Result")


class PublishAcceptor:
    """`outcomes` counts accepted messages: unmatched (no subscription matches), small (an endpoint job), large (a
    publish job), in order (FIFO), duplicate (FIFO)."""

    def __init__(
        self,
        matcher: SubscriptionMatcher,
        notifications: NotificationStore,
        archiver: Archiver,
        queue: QueuePort,
        clock: Clock,
        events: EventSink,
        *,
        one_commit: bool,
    ) -> None:
        self._matcher = matcher
        self._references = NotificationReferences(notifications, clock)
        self._archiver = archiver
        self._queue = queue
        self._clock = clock
        self._events = events
        self._one_commit = one_commit
        self.outcomes: Counter[str] = Counter()

    async def accept(self, view: TopicView, notifications: Sequence[SizedNotification]) -> list[PublishResult]:
        """Accept the notifications of one topic; they are durable when this returns."""
        if not notifications:
            return []
        accept = self._accept_in_order if view.fifo else self._accept_unordered
        return await accept(view, notifications)

    # -- standard topics ----------------------------------------------------------------------------------------------

    async def _accept_unordered(
        self, view: TopicView, notifications: Sequence[SizedNotification]
    ) -> list[PublishResult]:
        pages = await self._matcher.pages(view.arn, [each.notification for each in notifications], "", TARGETS_MAX)
        new_jobs: list[NewJob] = []
        large: list[Notification] = []
        for each, page in zip(notifications, pages, strict=True):
            if not page.arns and not page.cursor:
                self.outcomes["unmatched"] += 1
                continue
            inline = _inline(each)
            if inline is None:
                large.append(each.notification)
            new_jobs.append(self._new_job(view, each.notification, page, inline))
        writes = [self._references.store(notification) for notification in large]
        if view.topic.archive is not None:
            writes.append(self._archiver.append(view, [each.notification for each in notifications]))
        await self._commit(writes, lambda: self._enqueue(new_jobs))
        for each, page in zip(notifications, pages, strict=True):
            matched = 0 if page.cursor else len(page.arns)  # a fan-out finds all of a large topic's
            self._emit_accepted(view, each, jobs=int(bool(page.arns or page.cursor)), matched=matched)
            self._matcher.report_filtered(each.notification, page)
        return [PublishResult(each.notification.id) for each in notifications]

    def _new_job(
        self, view: TopicView, notification: Notification, page: MatchPage, inline: Notification | None
    ) -> NewJob:
        """The fairness group of a publish job is the account, of an endpoint job the topic."""
        if page.cursor:
            self.outcomes["large"] += 1
            publish_job = PublishJob(notification.id, view.arn, inline, topic_id=view.topic.id)
            return NewJob(jobs.PUBLISH_JOBS, notification.id, jobs.encode(publish_job), view.account)
        self.outcomes["small"] += 1
        endpoint_job = EndpointJob(notification.id, view.arn, page.arns, inline)
        return NewJob(jobs.ENDPOINT_JOBS, notification.id, jobs.encode(endpoint_job), view.arn)

    # -- FIFO topics --------------------------------------------------------------------------------------------------

    async def _accept_in_order(
        self, view: TopicView, notifications: Sequence[SizedNotification]
    ) -> list[PublishResult]:
        new_jobs = [_fifo_job(view, each) for each in notifications]
        large = [each.notification for each in notifications if _inline(each) is None]
        writes = [self._references.store(notification) for notification in large]
        enqueued = await self._commit(writes, lambda: self._queue.enqueue_in_order(new_jobs))
        for each, job in zip(notifications, enqueued, strict=True):
            if not job.duplicate:
                self._emit_accepted(view, each, jobs=1)
            elif _inline(each) is None:
                await self._references.release(each.notification.id)
        self.outcomes.update("duplicate" if job.duplicate else "in order" for job in enqueued)
        return [PublishResult(job.id, job.sequence_number) for job in enqueued]

    # -- both ---------------------------------------------------------------------------------------------------------

    async def _commit(
        self, writes: Sequence[Coroutine[None, None, None]], enqueue: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Run the writes that the jobs depend on, then `enqueue`."""
        if not writes:
            return await enqueue()
        if self._one_commit:
            # started in this order in one turn of the loop: one commit takes both, or the jobs are in the later one
            _, result = await asyncio.gather(asyncio.gather(*writes), enqueue())
            return result
        await asyncio.gather(*writes)
        return await enqueue()

    async def _enqueue(self, new_jobs: Sequence[NewJob]) -> None:
        if new_jobs:
            await self._queue.enqueue(new_jobs)

    def _emit_accepted(self, view: TopicView, accepted: SizedNotification, *, jobs: int, matched: int = 0) -> None:
        self._events.emit(
            PublishAccepted(
                at_ms=self._clock.now_ms(),
                message_id=accepted.notification.id,
                topic=view.arn,
                account=view.account,
                size_bytes=accepted.size_bytes,
                has_subject=accepted.notification.subject is not None,
                jobs=jobs,
                matched=matched,
                replayed=accepted.notification.replayed,
            )
        )


def _inline(sized: SizedNotification) -> Notification | None:
    """The notification, when it is small enough to travel in the job."""
    return sized.notification if sized.size_bytes <= INLINE_BYTES_MAX else None


def _fifo_job(view: TopicView, sized: SizedNotification) -> NewJob:
    """The deduplication id is scoped by the id of the topic: a topic that was deleted and created again has no
    duplicates."""
    notification = sized.notification
    group = notification.message_group_id
    scope = f"{view.topic.id} {group}" if view.dedup_by_group else view.topic.id
    return NewJob(
        jobs.FIFO_PUBLISH_JOBS,
        notification.id,
        jobs.encode(PublishJob(notification.id, view.arn, _inline(sized), topic_id=view.topic.id)),
        f"{view.arn} {group}",
        dedup=f"{scope} {notification.message_deduplication_id}",
    )
