"""Accepts notifications: stores them and enqueues the jobs that deliver them.

Subscribed queues of this store get a message in the commit of its publish, where the engine can (`local_queues`). For
the others a topic with at most a hundred subscriptions gets its endpoint job at once, a larger one a publish job that a
producer fans out. The subscriptions read decide which: a counter could be wrong and lose messages. Notifications of
FIFO topics go through one FIFO queue, which recognises duplicates, numbers the others, and is fanned out in order. A
message is accepted when its jobs, and its copies in queues, are durable. A notification that is too large for its jobs
is stored before them, or in the same commit.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from cns.archives.archiver import Archiver
from cns.delivery import jobs
from cns.delivery.jobs import INLINE_BYTES_MAX, TARGETS_MAX, EndpointJob, PublishJob
from cns.delivery.notification_references import NotificationReferences
from cns.notification import Notification
from cns.publishing.local_queues import LocalQueues, QueuePlan
from cns.publishing.matching import MatchPage, SubscriptionMatcher
from cns.publishing.requests import PublishResult, SizedNotification
from cns.queue_port.contract import NewJob, QueuePort
from cns.stores.contract import NotificationStore
from cns.topics.cache import TopicView
from cns_common.clock import Clock
from cns_common.events.schema import EventSink, PublishAccepted

Result = TypeVar("Result")


class _Publish:
    """One notification of a standard topic on its way: whom it goes to, and the jobs for those that its commit does not
    deliver to."""

    __slots__ = ("accepted", "jobs", "page", "queues", "references")

    def __init__(self, accepted: SizedNotification, page: MatchPage, queues: QueuePlan) -> None:
        self.accepted = accepted
        self.page = page
        self.queues = queues
        self.jobs: list[NewJob] = []
        self.references = 0

    def plan_jobs(self, view: TopicView) -> int:
        """Make the jobs, and return how many more than before refer to the stored notification: jobs carry it where
        that is small.

        The fairness group of a publish job is the account, of an endpoint job the topic, of an own queue's job its
        subscription; a job that own queues share has a group of the topic's own queues.
        """
        notification, arns = self.accepted.notification, self.page.arns
        own_queues = self.queues.arns()
        others = tuple([arn for arn in arns if arn not in own_queues]) if own_queues else arns
        n_jobs = bool(others or self.page.cursor) + bool(self.queues.together) + len(self.queues.later)
        inline = notification if n_jobs * self.accepted.size_bytes <= INLINE_BYTES_MAX else None
        self.jobs = []
        if self.page.cursor:
            publish_job = PublishJob(notification.id, view.arn, inline, topic_id=view.topic.id)
            self.jobs.append(NewJob(jobs.PUBLISH_JOBS, notification.id, jobs.encode(publish_job), view.account))
        elif others:
            job = EndpointJob(notification.id, view.arn, others, inline)
            self.jobs.append(NewJob(jobs.ENDPOINT_JOBS, notification.id, jobs.encode(job), view.arn))
        if self.queues.together:
            job = EndpointJob(notification.id, view.arn, tuple(self.queues.together), inline)
            group = jobs.own_queues_group(view.arn)
            self.jobs.append(NewJob(jobs.ENDPOINT_JOBS, f"{notification.id}/queues", jobs.encode(job), group))
        for arn in self.queues.later:
            job = EndpointJob(notification.id, view.arn, (arn,), inline)
            self.jobs.append(NewJob(jobs.ENDPOINT_JOBS, f"{notification.id}/{arn}", jobs.encode(job), arn))
        references = n_jobs if inline is None else 0
        more, self.references = references - self.references, references
        return more


class CommitScope(NamedTuple):
    """The commit that enqueues a publish's jobs may write these, too."""

    stores: bool = True
    """The notification and the archive."""
    local_queues: LocalQueues | None = None
    """Subscribed queues of this store."""


STORES_TOO = CommitScope()


class PublishAcceptor:
    """`outcomes` counts accepted messages: unmatched (no subscription matches), delivered (by the commit, to all),
    small (endpoint jobs), large (a publish job), in order (FIFO), duplicate (FIFO)."""

    def __init__(
        self,
        matcher: SubscriptionMatcher,
        notifications: NotificationStore,
        archiver: Archiver,
        queue: QueuePort,
        clock: Clock,
        events: EventSink,
        scope: CommitScope,
    ) -> None:
        self._matcher = matcher
        self._references = NotificationReferences(notifications, clock)
        self._archiver = archiver
        self._queue = queue
        self._clock = clock
        self._events = events
        self._scope = scope
        self._local_queues = scope.local_queues
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
        bare = [each.notification for each in notifications]
        pages = await self._matcher.pages(view.arn, bare, "", TARGETS_MAX)
        if self._local_queues is None:
            plans = [QueuePlan(one) for one in bare]
        else:
            plans = await self._local_queues.plan(bare, [() if page.cursor else page.arns for page in pages])
        publishes = list(map(_Publish, notifications, pages, plans))
        await self._write(view, publishes)
        for publish in publishes:
            self._count(publish)
            matched = 0 if publish.page.cursor else len(publish.page.arns)  # a fan-out finds all of a large topic's
            self._emit_accepted(view, publish.accepted, jobs=len(publish.jobs), matched=matched)
            if self._local_queues is not None:
                self._local_queues.report(publish.queues)
            self._matcher.report_filtered(publish.accepted.notification, publish.page)
        return [PublishResult(one.id) for one in bare]

    async def _write(self, view: TopicView, publishes: Sequence[_Publish]) -> None:
        """Write jobs, archive and what own queues get. A queue that refuses its message is given a job: then all is
        written anew."""
        writes: list[Coroutine[None, None, None]] = []
        if view.topic.archive is not None:
            writes.append(self._archiver.append(view, [each.accepted.notification for each in publishes]))
        while True:
            for publish in publishes:
                references = publish.plan_jobs(view)
                if references:
                    writes.append(self._references.store(publish.accepted.notification, references))
            enqueue = partial(self._enqueue_and_deliver, view.arn, publishes)
            if await self._commit(writes, enqueue):
                return
            writes = []

    async def _enqueue_and_deliver(self, topic_arn: str, publishes: Sequence[_Publish]) -> bool:
        new_jobs = [job for publish in publishes for job in publish.jobs]
        plans = [publish.queues for publish in publishes if publish.queues.now]
        if self._local_queues is not None and plans:
            return await self._local_queues.write(new_jobs, plans, topic_arn)
        if new_jobs:
            await self._queue.enqueue(new_jobs)
        return True

    def _count(self, publish: _Publish) -> None:
        if publish.page.cursor:
            self.outcomes["large"] += 1
        elif not publish.page.arns:
            self.outcomes["unmatched"] += 1
        else:
            self.outcomes["small" if publish.jobs else "delivered"] += 1

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
        if self._scope.stores:
            # started in this order in one turn of the loop: one commit takes both, or the jobs are in the later one
            _, result = await asyncio.gather(asyncio.gather(*writes), enqueue())
            return result
        await asyncio.gather(*writes)
        return await enqueue()

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
