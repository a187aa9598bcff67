"""Publish and PublishBatch: what a publisher sends is checked, and becomes a notification."""

from __future__ import annotations

from collections.abc import Sequence

from cns.arns import check_topic_arn
from cns.authorization import Access
from cns.errors import no_such_topic
from cns.limits import FIFO_SUFFIX, MESSAGE_BYTES_DEFAULT
from cns.notification import Attributes, Notification
from cns.publishing.accept import Dispatch
from cns.publishing.fifo_ids import group_of_fifo, ids_of
from cns.publishing.message_attributes import parse_attributes, publish_bytes
from cns.publishing.message_text import check_message, check_size, check_subject, texts_of
from cns.publishing.requests import NO_ATTRIBUTES, Draft, Entry, Published, Sized
from cns.topics.cache import TopicCache, TopicView
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import uuid_text


class Publishing:
    def __init__(self, topics: TopicCache, access: Access, dispatch: Dispatch, clock: Clock) -> None:
        self._topics = topics
        self._access = access
        self._dispatch = dispatch
        self._clock = clock

    async def publish(self, call: Call, topic_arn: str, draft: Draft, parameter: str = "TopicArn") -> Published:
        """`parameter` is the one that named the topic."""
        check_subject(draft.subject)
        check_message(draft.message)
        attributes = parse_attributes(draft.attributes) if draft.attributes else NO_ATTRIBUTES
        size_bytes = publish_bytes(draft.message, attributes)
        view = await self._topics.find(topic_arn) if topic_arn.isascii() else None
        # the size is complained of first, even where there is no topic
        check_size(size_bytes, MESSAGE_BYTES_DEFAULT if view is None else view.message_bytes_max)
        if topic_arn.endswith(FIFO_SUFFIX):
            group_of_fifo(draft)
        if view is None or view.region != call.region:
            check_topic_arn(topic_arn, parameter, call.region)
            raise no_such_topic()
        self._access.authorise(call, view, "Publish")
        ids = ids_of(view, draft)
        notification = self._notification(call, view, draft, attributes, texts_of(draft.message, draft.structure), ids)
        (published,) = await self._dispatch.accept(view, [Sized(notification, size_bytes)])
        return published

    async def find_topic(self, call: Call, topic_arn: str) -> TopicView:
        """The topic a batch is for, which its sender may publish to."""
        return await self._access.topic(call, topic_arn, "Publish")

    async def publish_all(
        self, call: Call, view: TopicView, entries: Sequence[Entry]
    ) -> list[Published | RequestError]:
        """What becomes of each entry. Those that are refused do not hold up the others, but at a FIFO topic they do."""
        if sum(entry.size_bytes for entry in entries) > view.message_bytes_max:
            raise RequestError(
                "BatchRequestTooLong", "The length of all the messages put together is more than the limit."
            )
        refusals: list[RequestError | None] = []
        accepted: list[Sized] = []
        for entry in entries:
            try:
                if entry.refusal is not None:
                    raise entry.refusal
                draft = entry.draft
                texts = texts_of(draft.message, draft.structure)  # AWS reads it before the ids here, unlike at Publish
                notification = self._notification(call, view, draft, entry.attributes, texts, ids_of(view, draft))
            except RequestError as refusal:
                if view.fifo:
                    raise
                refusals.append(refusal)
                continue
            refusals.append(None)
            accepted.append(Sized(notification, entry.size_bytes))
        published = iter(await self._dispatch.accept(view, accepted))
        return [next(published) if refusal is None else refusal for refusal in refusals]

    def _notification(
        self,
        call: Call,
        view: TopicView,
        draft: Draft,
        attributes: Attributes,
        texts: dict[str, str],
        ids: tuple[str, str],
    ) -> Notification:
        group_id, deduplication_id = ids
        return Notification(
            id=uuid_text(),
            topic_arn=view.arn,
            timestamp_ms=self._clock.now_ms(),
            texts=texts,
            subject=draft.subject,
            attributes=attributes,
            structured=draft.structure is not None,
            signature_version=view.signature_version,
            message_group_id=group_id,
            message_deduplication_id=deduplication_id,
            trace_header=call.trace_header,
        )
