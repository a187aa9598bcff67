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

    at_ms: int  # when it was published; see `archived_at_ms`
    key: Key
    expires_ms: int
    notification: Notification


def archived_at_ms(notification: Notification, accepted_ms: int) -> int:
    """The time of a message in its topic's archive: when it was published.

    A message of a FIFO topic that `cns replay` publishes again gets the time at which the topic accepted it, as it got
    its sequence number then: the times of an archive rise with its keys.
    """
    if notification.replayed and notification.sequence_number:
        return max(notification.timestamp_ms, accepted_ms)
    return notification.timestamp_ms


def archive_key(notification: Notification) -> str:
    """The sequence number on a FIFO topic, publish time and message id on a standard topic."""
    return notification.sequence_number or f"{notification.timestamp_ms:014d} {notification.id}"
