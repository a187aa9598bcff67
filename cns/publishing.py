"""Publish and PublishBatch: what a publisher sends is checked, and its delivery made the business of the queues.

A topic with at most a hundred subscriptions gets its endpoint job at once; a larger one a publish job, which a producer
fans out. Which it is, the rows read say: a counter could be wrong, and would then lose messages. A message is accepted
when its job is durable; one that is too large to travel in the job is stored before it, or in the same commit.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from cns import jobs
from cns.access import Access
from cns.arns import check_topic_arn
from cns.jobs import INLINE_BYTES_MAX, TARGETS_MAX, EndpointJob, PublishJob
from cns.limits import GROUP_ID_CHARS_MAX, MESSAGE_BYTES_DEFAULT, NOTIFICATION_MS
from cns.matching import Matching, Page
from cns.message_attributes import Given, parse_attributes, publish_bytes
from cns.message_text import check_message, check_size, check_subject, texts_of
from cns.model import Attributes, Notification
from cns.queue_port import Put, QueuePort
from cns.refusals import invalid, no_such_topic
from cns.stores.contract import NotificationStore
from cns.topic_view import TopicCache, TopicView
from common.aws.call import Call
from common.clock import Clock
from common.errors import RequestError
from common.events import EventSink, PublishAccepted
from common.ids import uuid_text

_GROUP = re.compile(r"[!-~]+")
_DEDUPLICATION = (
    "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not valid for this "
    "topic type"
)
_NO_ATTRIBUTES: Attributes = {}


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One message as the publisher sent it."""

    message: str
    subject: str | None = None
    structure: str | None = None
    attributes: Mapping[str, Given]
    group_id: str | None = None
    deduplication_id: str | None = None


class Sized(msgspec.Struct, frozen=True):
    """A notification, and the bytes it was counted with."""

    notification: Notification
    size_bytes: int


class Entry(msgspec.Struct, frozen=True):
    """One entry of a batch, its attributes checked; its text may have been refused."""

    draft: Draft
    attributes: Attributes
    size_bytes: int
    refusal: RequestError | None = None


class Publishing:
    """`outcomes` counts accepted messages by what became of them: unmatched (nobody to deliver to), small, large."""

    def __init__(
        self,
        topics: TopicCache,
        access: Access,
        matching: Matching,
        notifications: NotificationStore,
        queue: QueuePort,
        clock: Clock,
        events: EventSink,
        *,
        one_commit: bool,
    ) -> None:
        self._topics = topics
        self._access = access
        self._matching = matching
        self._notifications = notifications
        self._queue = queue
        self._clock = clock
        self._events = events
        self._one_commit = one_commit
        self.outcomes: Counter[str] = Counter()

    async def publish(self, call: Call, topic_arn: str, draft: Draft, parameter: str = "TopicArn") -> str:
        """The id of the accepted message. `parameter` is the one that named the topic."""
        check_subject(draft.subject)
        check_message(draft.message)
        attributes = parse_attributes(draft.attributes) if draft.attributes else _NO_ATTRIBUTES
        size_bytes = publish_bytes(draft.message, attributes)
        view = await self._topics.find(topic_arn) if topic_arn.isascii() else None
        # the size is complained of first, even where there is no topic
        check_size(size_bytes, MESSAGE_BYTES_DEFAULT if view is None else view.message_bytes_max)
        if view is None or view.region != call.region:
            check_topic_arn(topic_arn, parameter, call.region)
            raise no_such_topic()
        self._access.authorise(call, view, "Publish")
        notification = self._notification(call, view, draft, attributes)
        await self._dispatch(view, [Sized(notification, size_bytes)])
        return notification.id

    async def find_topic(self, call: Call, topic_arn: str) -> TopicView:
        """The topic a batch is for, which its sender may publish to."""
        return await self._access.topic(call, topic_arn, "Publish")

    async def publish_all(
        self, call: Call, view: TopicView, entries: Sequence[Entry]
    ) -> list[Notification | RequestError]:
        """What becomes of each entry; those that are refused do not hold up the others."""
        if sum(entry.size_bytes for entry in entries) > view.message_bytes_max:
            raise RequestError(
                "BatchRequestTooLong", "The length of all the messages put together is more than the limit."
            )
        results: list[Notification | RequestError] = []
        accepted: list[Sized] = []
        for entry in entries:
            try:
                if entry.refusal is not None:
                    raise entry.refusal
                notification = self._notification(call, view, entry.draft, entry.attributes)
            except RequestError as refusal:
                results.append(refusal)
                continue
            results.append(notification)
            accepted.append(Sized(notification, entry.size_bytes))
        if accepted:
            await self._dispatch(view, accepted)
        return results

    def _notification(self, call: Call, view: TopicView, draft: Draft, attributes: Attributes) -> Notification:
        """The rules of a standard topic."""
        if draft.deduplication_id is not None:
            raise invalid(_DEDUPLICATION)
        return Notification(
            id=uuid_text(),
            topic_arn=view.arn,
            timestamp_ms=self._clock.now_ms(),
            texts=texts_of(draft.message, draft.structure),
            subject=draft.subject,
            attributes=attributes,
            structured=draft.structure is not None,
            signature_version=view.signature_version,
            message_group_id="" if draft.group_id is None else _check_group(draft.group_id),
            trace_header=call.trace_header,
        )

    async def _dispatch(self, view: TopicView, accepted: Sequence[Sized]) -> None:
        """Durable when it returns."""
        pages = await self._matching.pages(view.arn, [each.notification for each in accepted], "", TARGETS_MAX)
        puts: list[Put] = []
        large: list[Notification] = []
        for each, page in zip(accepted, pages, strict=True):
            if not page.arns and not page.cursor:
                self.outcomes["unmatched"] += 1
                continue
            inline = each.notification if each.size_bytes <= INLINE_BYTES_MAX else None
            if inline is None:
                large.append(each.notification)
            puts.append(self._job(view, each.notification, page, inline))
        storing = [self._store(notification) for notification in large]
        if storing and self._one_commit:
            # begun in this order in one turn of the loop, they share a commit or the job comes second
            await asyncio.gather(*storing, self._queue.put(puts))
        else:
            await asyncio.gather(*storing)
            if puts:
                await self._queue.put(puts)
        self._tell(view, accepted, pages)

    def _tell(self, view: TopicView, accepted: Sequence[Sized], pages: Sequence[Page]) -> None:
        now_ms = self._clock.now_ms()
        for each, page in zip(accepted, pages, strict=True):
            self._events.emit(
                PublishAccepted(
                    at_ms=now_ms,
                    message_id=each.notification.id,
                    topic=view.arn,
                    account=view.account,
                    size_bytes=each.size_bytes,
                    has_subject=each.notification.subject is not None,
                    jobs=int(bool(page.arns or page.cursor)),
                )
            )

    def _job(self, view: TopicView, notification: Notification, page: Page, inline: Notification | None) -> Put:
        """Internal queues share their consumers fairly: publish jobs by account, endpoint jobs by topic."""
        if page.cursor:
            self.outcomes["large"] += 1
            publish_job = PublishJob(notification.id, view.arn, inline)
            return Put(jobs.PUBLISH_JOBS, notification.id, jobs.encode(publish_job), view.account)
        self.outcomes["small"] += 1
        endpoint_job = EndpointJob(notification.id, view.arn, page.arns, inline)
        return Put(jobs.ENDPOINT_JOBS, notification.id, jobs.encode(endpoint_job), view.arn)

    async def _store(self, notification: Notification) -> None:
        await self._notifications.put(notification, 1, notification.timestamp_ms + NOTIFICATION_MS)


def read_entry(draft: Draft, path: str) -> Entry:
    """An entry of a batch. `path` names its attributes; a bad one refuses the whole batch."""
    attributes = parse_attributes(draft.attributes, path) if draft.attributes else _NO_ATTRIBUTES
    try:
        check_subject(draft.subject)
        check_message(draft.message)
    except RequestError as refusal:
        return Entry(draft, attributes, 0, refusal)
    return Entry(draft, attributes, publish_bytes(draft.message, attributes))


def _check_group(group_id: str) -> str:
    if len(group_id) > GROUP_ID_CHARS_MAX or not _GROUP.fullmatch(group_id):
        raise invalid("MessageGroupId")
    return group_id
