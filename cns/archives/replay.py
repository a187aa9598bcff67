"""A replay: what a subscription asked to have again of its topic's archive, how far it is, and whose turn is it.

On a FIFO topic no message may come twice or before an earlier one of its group, though the replay and the fan-out of
what is published meanwhile run in different processes. So the fan-out archives a message before it looks here, and the
replay claims a stretch of the archive, durably, before it reads it. What is behind the claim, the replay has yet to
read, and finds. What is claimed and not sent waits. What is before the place that is sent came into the archive late,
behind all of its group that the replay has sent: it is the fan-out's. At its end a replay claims everything there will
ever be; from then on, everything is the fan-out's.
"""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

from cns.notification import Notification

ReplayStatus = Literal["Pending", "In progress", "Completed", "Failed"]
"""As the API spells them."""

ALL = "\x7f"
"""A place behind every key."""


class Turn(enum.Enum):
    """Who sends a newly published message to a subscription that has a replay."""

    NOW = "now"  # the fan-out does
    LATER = "later"  # the fan-out, when the replay has sent what it reads at the moment: look again soon
    NEVER = "never"  # not the fan-out: the replay, or nobody


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A replay's record. `version` rises with each change."""

    id: str
    topic_arn: str
    archive_id: str
    subscription_arn: str
    policy: str  # as it is shown
    start_ms: int
    end_ms: int = 0  # exclusive; 0: none
    set_ms: int
    status: ReplayStatus = "Pending"
    claimed: str = ""  # keys in the archive, both inclusive
    sent: str = ""
    sent_at_ms: int = 0  # when the message at `sent` was published: where to look for those behind it
    version: int = 1

    @property
    def active(self) -> bool:
        return self.status in ("Pending", "In progress")

    def turn(self, notification: Notification) -> Turn:
        """Of a message of a FIFO topic that is in the archive."""
        if self.status == "Failed" or notification.timestamp_ms < self.start_ms:
            return Turn.NOW
        if self.end_ms and notification.timestamp_ms >= self.end_ms:
            return Turn.NEVER  # live delivery rests until the policy is removed
        if notification.sequence_number > self.claimed:
            return Turn.NEVER
        return Turn.LATER if notification.sequence_number > self.sent else Turn.NOW

    def dedup(self, message_id: str) -> str:
        """By which an internal queue knows a message it was given by the replay and by the fan-out, or twice by one."""
        return f"{message_id}/{self.subscription_arn}/{self.id}"
