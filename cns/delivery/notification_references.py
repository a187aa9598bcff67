"""Reference counts of stored notifications.

A job that does not carry its notification holds one reference to the stored one. A crash may leave a count too high,
never too low: a reference is added before the job that holds it is enqueued, and released after that job is gone. A
notification without references is removed at once, one whose count is too high when it expires.
"""

from __future__ import annotations

from cns.limits import NOTIFICATION_MS
from cns.notification import Notification
from cns.stores.contract import NotificationStore
from cns_common.clock import Clock


class NotificationReferences:
    def __init__(self, store: NotificationStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def store(self, notification: Notification, jobs: int = 1) -> None:
        """Store a notification for the given number of jobs. A replayed one may have been published long ago."""
        stored_ms = self._clock.now_ms() if notification.replayed else notification.timestamp_ms
        await self._store.put(notification, jobs, stored_ms + NOTIFICATION_MS)

    async def add(self, notification_id: str, jobs: int) -> None:
        """Count jobs that are about to be enqueued."""
        await self._store.add_references(notification_id, jobs)

    async def release(self, notification_id: str) -> None:
        """Drop the reference of one job that is deleted, or that was not enqueued because it was a duplicate."""
        await self._store.add_references(notification_id, -1)
