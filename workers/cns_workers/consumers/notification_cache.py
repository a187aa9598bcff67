"""Stored notifications, read once for all jobs of a publish that a worker has at a time.

A publish of 256 KiB to 10,000 subscribers makes a hundred jobs, and a redelivery for each target that fails. A
notification never changes, so a cached one stays valid.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from itertools import chain
from sys import getsizeof
from typing import Protocol

from cns.notification import Notification
from cns.stores.contract import NotificationStore

CACHE_BYTES_MAX = 8 * 1024 * 1024


class Notifications(Protocol):
    """The part of `cns.stores.contract.NotificationStore` that deliveries need."""

    async def get(self, notification_id: str) -> Notification | None: ...


class NotificationCache:
    """Keeps the notifications that were used last. A notification that is missing is read again each time, as it may
    still be stored."""

    def __init__(self, store: NotificationStore, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._bytes = 0
        self._cached: OrderedDict[str, Notification] = OrderedDict()
        self._reading: dict[str, asyncio.Task[Notification | None]] = {}

    async def get(self, notification_id: str) -> Notification | None:
        notification = self._cached.get(notification_id)
        if notification is not None:
            self._cached.move_to_end(notification_id)
            return notification
        reading = self._reading.get(notification_id)
        if reading is None:
            reading = self._reading[notification_id] = asyncio.create_task(self._read(notification_id))
        return await asyncio.shield(reading)  # other jobs wait for it, too

    async def _read(self, notification_id: str) -> Notification | None:
        try:
            notification = await self._store.get(notification_id)
        finally:
            del self._reading[notification_id]
        if notification is not None:
            self._put(notification)
        return notification

    def _put(self, notification: Notification) -> None:
        self._cached[notification.id] = notification
        self._bytes += _bytes_of(notification)
        while self._bytes > self._bytes_max:
            _, evicted = self._cached.popitem(last=False)
            self._bytes -= _bytes_of(evicted)


def _bytes_of(notification: Notification) -> int:
    """The size in memory of the parts that can be large."""
    values = chain.from_iterable(notification.attributes.values())
    return sum(map(getsizeof, chain(notification.texts.values(), values)))
