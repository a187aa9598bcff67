"""A topic's archive: what it holds, and in which order."""

from __future__ import annotations

import msgspec

from cns.notification import Notification

SKEW_MS = 60_000
"""How much earlier than the one before it a message may say that it was published: clocks of several processes, and
the time from that word to its place in the order."""


class Archive(msgspec.Struct, frozen=True):
    """One that a topic has. `id` is used once: an archive begun anew has nothing of the one before."""

    id: str
    began_ms: int


class Archived(msgspec.Struct, frozen=True):
    """A message in it. Keys are in the order of replay: sequence numbers; on a standard topic, time and message id."""

    at_ms: int  # when it was published
    key: str
    expires_ms: int
    notification: Notification


def key_of(notification: Notification) -> str:
    return notification.sequence_number or f"{notification.timestamp_ms:014d} {notification.id}"
