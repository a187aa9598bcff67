"""Notifications that are given up before anybody was asked to take them: counted, and told of."""

from __future__ import annotations

from cns.envelope import MessageType
from cns.jobs import PublishJob
from common.clock import Clock
from common.events import EventSink, NotificationDropped
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
