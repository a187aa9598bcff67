"""Publish and PublishBatch to a topic: checks requests and makes notifications of them."""

from __future__ import annotations

from collections.abc import Sequence

from cns.arns import TOPIC_ARN_CHARS_MAX, check_topic_arn
from cns.authorization import Access, absent_topic
from cns.limits import FIFO_SUFFIX, MESSAGE_BYTES_DEFAULT
from cns.notification import Attributes, Notification
from cns.publishing.accept import PublishAcceptor
from cns.publishing.fifo_ids import fifo_group_id, ids_of
from cns.publishing.message_attributes import parse_attributes, publish_bytes
from cns.publishing.message_text import check_message, check_size, check_subject, texts_of
from cns.publishing.requests import NO_ATTRIBUTES, BatchEntry, PublishRequest, PublishResult, SizedNotification
from cns.topics.cache import TopicCache, TopicView
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import uuid_text


class Publisher:
    def __init__(self, topics: TopicCache, access: Access, dispatcher: PublishAcceptor, clock: Clock) -> None:
        self._topics = topics
        self._access = access
        self._dispatcher = dispatcher
        self._clock = clock

    async def publish(
        self, call: Call, topic_arn: str, request: PublishRequest, parameter: str = "TopicArn"
    ) -> PublishResult:
        """Publish one message. `parameter` is the name of the parameter that held the topic's ARN, for errors.

        Errors come in AWS's order: subject, an empty message to a topic that exists, attributes, size (of an absent
        topic, too), group id, absent topic, permission.
        """
        check_subject(request.subject)
        known = topic_arn.isascii() and 0 < len(topic_arn) <= TOPIC_ARN_CHARS_MAX
        view = await self._topics.find(topic_arn) if known else None
        check_message(request.message, may_be_empty=view is None)
        attributes = parse_attributes(request.attributes) if request.attributes else NO_ATTRIBUTES
        size_bytes = publish_bytes(request.message, attributes)
        check_size(size_bytes, MESSAGE_BYTES_DEFAULT if view is None else view.message_bytes_max)
        if topic_arn.endswith(FIFO_SUFFIX):
            fifo_group_id(request)
        if view is None or view.region != call.region:
            check_topic_arn(topic_arn, parameter, call.region)
            raise absent_topic(call, topic_arn, "Publish")
        self._access.authorise(call, view, "Publish")
        ids = ids_of(view, request)
        texts = texts_of(request.message, request.structure)
        notification = self._notification(call, view, request, attributes, texts, ids)
        (published,) = await self._dispatcher.accept(view, [SizedNotification(notification, size_bytes)])
        return published

    async def find_topic(self, call: Call, topic_arn: str) -> TopicView:
        """The topic of a batch. Raises RequestError unless the caller may publish to it."""
        return await self._access.topic(call, topic_arn, "Publish")

    async def publish_all(
        self, call: Call, view: TopicView, entries: Sequence[BatchEntry]
    ) -> list[PublishResult | RequestError]:
        """The result of each entry. A refused entry does not affect the others, but refuses the whole batch of a FIFO
        topic."""
        if sum(entry.size_bytes for entry in entries) > view.message_bytes_max:
            raise RequestError(
                "BatchRequestTooLong", "The length of all the messages put together is more than the limit."
            )
        refusals: list[RequestError | None] = []
        accepted: list[SizedNotification] = []
        for entry in entries:
            try:
                if entry.refusal is not None:
                    raise entry.refusal
                request = entry.request
                # AWS checks the structure before the ids here, unlike at Publish
                texts = texts_of(request.message, request.structure)
                notification = self._notification(call, view, request, entry.attributes, texts, ids_of(view, request))
            except RequestError as refusal:
                if view.fifo:
                    raise
                refusals.append(refusal)
                continue
            refusals.append(None)
            accepted.append(SizedNotification(notification, entry.size_bytes))
        published = iter(await self._dispatcher.accept(view, accepted))
        return [next(published) if refusal is None else refusal for refusal in refusals]

    def _notification(
        self,
        call: Call,
        view: TopicView,
        request: PublishRequest,
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
            subject=request.subject,
            attributes=attributes,
            structured=request.structure is not None,
            signature_version=view.signature_version,
            message_group_id=group_id,
            message_deduplication_id=deduplication_id,
            trace_header=call.trace_header,
            trace_context=call.trace_context,
        )
