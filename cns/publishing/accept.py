"""Accepting notifications: their delivery is made the business of the queues.

A topic with at most a hundred subscriptions gets its endpoint job at once; a larger one a publish job, which a producer
fans out. Which it is, the rows read say: a counter could be wrong, and would then lose messages. What is published to a
FIFO topic goes through one FIFO queue, which knows a duplicate and numbers the rest, and is fanned out in its order. A
message is accepted when its job is durable; one that is too large to travel in the job is stored before it, or in the
same commit.
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
from cns.publishing.matching import Matching, Page
from cns.publishing.requests import Published, Sized
from cns.queue_port.contract import Put, QueuePort
from cns.stores.contract import NotificationStore
from cns.topics.cache import TopicView
from cns_common.clock import Clock
from cns_common.events.schema import EventSink, PublishAccepted

Result = TypeVar("Result")


class Dispatch:
    """`outcomes` counts accepted messages by what became of them: unmatched (nobody to deliver to), small, large, in
    order, duplicate."""

    def __init__(
        self,
        matching: Matching,
        notifications: NotificationStore,
        archiver: Archiver,
        queue: QueuePort,
        clock: Clock,
        events: EventSink,
        *,
        one_commit: bool,
    ) -> None:
        self._matching = matching
        self._references = NotificationReferences(notifications)
        self._archiver = archiver
        self._queue = queue
        self._clock = clock
        self._events = events
        self._one_commit = one_commit
        self.outcomes: Counter[str] = Counter()

    async def accept(self, view: TopicView, given: Sequence[Sized]) -> list[Published]:
        """Durable when it returns."""
        if not given:
            return []
        return await (self._number(view, given) if view.fifo else self._fan_out(view, given))

    # -- standard topics ----------------------------------------------------------------------------------------------

    async def _fan_out(self, view: TopicView, given: Sequence[Sized]) -> list[Published]:
        pages = await self._matching.pages(view.arn, [each.notification for each in given], "", TARGETS_MAX)
        puts: list[Put] = []
        large: list[Notification] = []
        for each, page in zip(given, pages, strict=True):
            if not page.arns and not page.cursor:
                self.outcomes["unmatched"] += 1
                continue
            inline = _inline(each)
            if inline is None:
                large.append(each.notification)
            puts.append(self._job(view, each.notification, page, inline))
        storing = [self._references.store(notification) for notification in large]
        if view.topic.archive is not None:
            storing.append(self._archiver.append(view, [each.notification for each in given]))
        await self._commit(storing, lambda: self._put(puts))
        for each, page in zip(given, pages, strict=True):
            self._tell(view, each, jobs=int(bool(page.arns or page.cursor)))
            self._matching.tell(each.notification, page)
        return [Published(each.notification.id) for each in given]

    def _job(self, view: TopicView, notification: Notification, page: Page, inline: Notification | None) -> Put:
        """Internal queues share their consumers fairly: publish jobs by account, endpoint jobs by topic."""
        if page.cursor:
            self.outcomes["large"] += 1
            publish_job = PublishJob(notification.id, view.arn, inline)
            return Put(jobs.PUBLISH_JOBS, notification.id, jobs.encode(publish_job), view.account)
        self.outcomes["small"] += 1
        endpoint_job = EndpointJob(notification.id, view.arn, page.arns, inline)
        return Put(jobs.ENDPOINT_JOBS, notification.id, jobs.encode(endpoint_job), view.arn)

    # -- FIFO topics --------------------------------------------------------------------------------------------------

    async def _number(self, view: TopicView, given: Sequence[Sized]) -> list[Published]:
        puts = [_in_order(view, each) for each in given]
        large = [each.notification for each in given if _inline(each) is None]
        storing = [self._references.store(notification) for notification in large]
        numbered = await self._commit(storing, lambda: self._queue.put_in_order(puts))
        for each, number in zip(given, numbered, strict=True):
            if not number.duplicate:
                self._tell(view, each, jobs=1)
            elif _inline(each) is None:
                await self._references.release(each.notification.id)
        self.outcomes.update("duplicate" if number.duplicate else "in order" for number in numbered)
        return [Published(number.id, number.sequence_number) for number in numbered]

    # -- both ---------------------------------------------------------------------------------------------------------

    async def _commit(
        self, storing: Sequence[Coroutine[None, None, None]], put: Callable[[], Awaitable[Result]]
    ) -> Result:
        """What jobs need, and then the jobs."""
        if not storing:
            return await put()
        if self._one_commit:
            # begun in this order in one turn of the loop, they share a commit or the job comes second
            _, result = await asyncio.gather(asyncio.gather(*storing), put())
            return result
        await asyncio.gather(*storing)
        return await put()

    async def _put(self, puts: Sequence[Put]) -> None:
        if puts:
            await self._queue.put(puts)

    def _tell(self, view: TopicView, accepted: Sized, *, jobs: int) -> None:
        self._events.emit(
            PublishAccepted(
                at_ms=self._clock.now_ms(),
                message_id=accepted.notification.id,
                topic=view.arn,
                account=view.account,
                size_bytes=accepted.size_bytes,
                has_subject=accepted.notification.subject is not None,
                jobs=jobs,
            )
        )


def _inline(given: Sized) -> Notification | None:
    """What travels in the job."""
    return given.notification if given.size_bytes <= INLINE_BYTES_MAX else None


def _in_order(view: TopicView, given: Sized) -> Put:
    """Duplicates are known by the topic's incarnation: one created anew starts without a past."""
    notification = given.notification
    group = notification.message_group_id
    scope = f"{view.topic.id} {group}" if view.dedup_by_group else view.topic.id
    return Put(
        jobs.FIFO_PUBLISH_JOBS,
        notification.id,
        jobs.encode(PublishJob(notification.id, view.arn, _inline(given))),
        f"{view.arn} {group}",
        dedup=f"{scope} {notification.message_deduplication_id}",
    )
