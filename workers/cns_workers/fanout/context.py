"""The dependencies that both producers share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cns.delivery.envelope import MessageType
from cns.delivery.jobs import PublishJob
from cns.notification import Notification
from cns.publishing.matching import SubscriptionMatcher
from cns.stores.contract import NotificationStore
from cns.topics.cache import TopicCache
from cns_common.events.schema import EventSink, NotificationDropped
from cns_common.traces.context import is_sampled
from cns_common.traces.contract import Spans
from cns_workers.jobs.context import JobContext


@dataclass(frozen=True, slots=True, kw_only=True)
class FanoutContext(JobContext):
    topics: TopicCache
    matcher: SubscriptionMatcher
    notifications: NotificationStore
    events: EventSink
    spans: Spans | None = None

    @contextmanager
    def span(self, queue: str, notification: Notification) -> Iterator[None]:
        """A span for the fan-out of one page, where the publish was traced."""
        if self.spans is None or not is_sampled(notification.trace_context):
            yield
            return
        attributes = {"messaging.message.id": notification.id, "messaging.destination.name": notification.topic_arn}
        span = self.spans.start("fan-out", "consumer", notification.trace_context, {"cns.queue": queue, **attributes})
        error = "failed"
        try:
            yield
            error = ""
        finally:
            span.end(error)

    async def is_of_earlier_topic(self, job: PublishJob) -> bool:
        """Whether the topic that accepted the notification was deleted, and another one has its name now."""
        if not job.topic_id:
            return False
        view = await self.topics.find(job.topic)
        if view is not None and view.topic.id != job.topic_id:
            view = await self.topics.find_again(job.topic)
        return view is not None and view.topic.id != job.topic_id

    def count_wait(self, queue: str, notification: Notification) -> None:
        """Count how long a publish waited for the start of its fan-out."""
        self.stats.job_waits.observe((self.clock.now_ms() - notification.timestamp_ms) / 1000, queue)

    def count_fanout(self, queue: str, began_ms: int) -> None:
        """Count how long the fan-out of one page took."""
        self.stats.fanouts.observe((self.clock.monotonic_ms() - began_ms) / 1000, queue)

    def drop(self, job: PublishJob, cause: str) -> None:
        """Report a notification that is given up before its fan-out: one drop without a subscription, as the number of
        subscriptions that the job had still to reach is unknown."""
        self.stats.count_drop(cause)
        self.events.emit(
            NotificationDropped(
                at_ms=self.clock.now_ms(),
                message_id=job.notification_id,
                message_type=MessageType.NOTIFICATION.value,
                topic=job.topic,
                subscription="",
                attempt=0,
                cause=cause,
                subscriptions=0,
            )
        )
