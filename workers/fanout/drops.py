"""Notifications that are given up before anybody was asked to take them: counted, and told of."""

from __future__ import annotations

from cns.delivery.envelope import MessageType
from cns.delivery.jobs import PublishJob
from cns_common.clock import Clock
from cns_common.events.schema import EventSink, NotificationDropped
from workers.stats import Stats


class Drops:
    def __init__(self, stats: Stats, events: EventSink, clock: Clock) -> None:
        self._stats = stats
        self._events = events
        self._clock = clock

    def unfanned(self, job: PublishJob, cause: str) -> None:
        """For all the subscriptions that the job had still to come to: one drop, as nobody knows how many they are."""
        self._stats.dropped(cause)
        self._events.emit(
            NotificationDropped(
                at_ms=self._clock.now_ms(),
                message_id=job.notification_id,
                message_type=MessageType.NOTIFICATION.value,
                topic=job.topic,
                subscription="",
                attempt=0,
                cause=cause,
                subscriptions=0,
            )
        )
