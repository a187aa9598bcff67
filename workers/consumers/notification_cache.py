"""Stored notifications as deliveries need them: read once for all jobs of one publish that a worker has at a time.

What a publish of 256 KiB to 10,000 subscribers makes is a hundred jobs, and a redelivery for each target that fails.
A notification never changes, so what was read stays true.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from itertools import chain
from sys import getsizeof
from typing import Protocol

from cns.notification import Notification
from cns.stores.contract import NotificationStore

REMEMBERED_BYTES_MAX = 8 * 1024 * 1024


class Notifications(Protocol):
    """See `cns.stores.contract.NotificationStore`, of which this is the part that deliveries need."""

    async def get(self, notification_id: str) -> Notification | None: ...


class RememberedNotifications:
    """Those read last, of so many bytes. What is not there is asked for again: it may come to be."""

    def __init__(self, store: NotificationStore, bytes_max: int = REMEMBERED_BYTES_MAX) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._bytes = 0
        self._found: OrderedDict[str, Notification] = OrderedDict()
        self._reading: dict[str, asyncio.Task[Notification | None]] = {}

    async def get(self, notification_id: str) -> Notification | None:
        notification = self._found.get(notification_id)
        if notification is not None:
            self._found.move_to_end(notification_id)
            return notification
        reading = self._reading.get(notification_id)
        if reading is None:
            reading = self._reading[notification_id] = asyncio.create_task(self._read(notification_id))
        return await asyncio.shield(reading)  # others wait for it, too

    async def _read(self, notification_id: str) -> Notification | None:
        try:
            notification = await self._store.get(notification_id)
        finally:
            del self._reading[notification_id]
        if notification is not None:
            self._remember(notification)
        return notification

    def _remember(self, notification: Notification) -> None:
        self._found[notification.id] = notification
        self._bytes += _bytes_of(notification)
        while self._bytes > self._bytes_max:
            _, forgotten = self._found.popitem(last=False)
            self._bytes -= _bytes_of(forgotten)


def _bytes_of(notification: Notification) -> int:
    """In memory: what can be large of it."""
    values = chain.from_iterable(notification.attributes.values())
    return sum(map(getsizeof, chain(notification.texts.values(), values)))
