"""A topic's archive: its messages, and their order."""

from __future__ import annotations

import msgspec

from cns.notification import Notification
from cns_common.store_keys import Key

SKEW_MS_MAX = 60_000
"""Publish times in an archive may be out of order by at most this. The clocks of processes differ, and a message gets
its publish time before its place in the order."""


class Archive(msgspec.Struct, frozen=True):
    """The archive of a topic. `id` is used once: an archive that is started again begins empty."""

    id: str
    began_ms: int


class ArchivedMessage(msgspec.Struct, frozen=True):
    """A message in an archive. Keys sort in the order of replay."""

    at_ms: int  # when it was published
    key: Key
    expires_ms: int
    notification: Notification


def archive_key(notification: Notification) -> str:
    """The sequence number on a FIFO topic, publish time and message id on a standard topic."""
    return notification.sequence_number or f"{notification.timestamp_ms:014d} {notification.id}"
