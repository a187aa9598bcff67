"""Sends a past message to one subscription again, at the request of its endpoint's owner."""

from __future__ import annotations

from cns.archives.replay_jobs import as_replay, enqueue_in_chunks, matched_event, replay_job
from cns.notification import Notification
from cns.queue_port.contract import QueuePort
from cns.subscriptions.subscription import Subscription
from cns_common.clock import Clock
from cns_common.events.schema import EventSink
from cns_common.ids import hex_id


class RetrySender:
    def __init__(self, port: QueuePort, events: EventSink, clock: Clock) -> None:
        self._port = port
        self._events = events
        self._clock = clock

    async def send(self, subscription: Subscription, notification: Notification) -> None:
        """Put a job with retries and dead-letter queue of its own, marked as a replay. It is durable on return."""
        replay_id = f"portal-{hex_id()}"
        replayed = as_replay(notification, subscription.topic_arn, replay_id)
        self._events.emit(matched_event(replayed, 1, replay_id, self._clock.now_ms()))
        await enqueue_in_chunks(self._port, [replay_job(subscription.arn, replayed, replay_id)])
