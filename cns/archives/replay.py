"""The record of a replay: which archived messages a subscription gets again, and how far the replay has come.

On a FIFO topic no message may arrive twice, or before an earlier message of its group. The replay and the fan-out of
new messages run in different processes, so they divide the messages by their keys (sequence numbers):

- The fan-out archives a message, then reads the topic's subscriptions, then the replays' records. Subscribe stores a
  replay before its subscription, so a subscription that the fan-out finds has its replay already.
- The replay stores a claim, up to a key, before it reads that part of the archive.
- Keys above `claimed`: the replay reads them later and finds the message. The fan-out does not send it.
- Keys above `sent`, up to `claimed`: the replay may be reading them. The fan-out waits.
- Keys up to `sent`: the message was archived late, and the replay passed its key. The fan-out sends it.

At its end a replay claims END_OF_ARCHIVE, and the fan-out sends everything from then on.
"""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

from cns.archives.model import archived_at_ms
from cns.notification import Notification
from cns_common.store_keys import Key

ReplayStatus = Literal["Pending", "In progress", "Completed", "Failed"]
"""In the spelling of the API."""

END_OF_ARCHIVE = "\x7f"
"""Sorts behind every key."""


class LiveDelivery(enum.Enum):
    """Whether the fan-out sends a newly published message to a subscription that has a replay."""

    NOW = "now"
    LATER = "later"  # after the replay sent the page that it reads now: ask again soon
    NEVER = "never"  # the replay sends it, or the subscription does not get it


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """`version` rises with each change."""

    id: Key
    topic_arn: Key
    archive_id: str
    subscription_arn: Key
    policy: str  # the text that GetSubscriptionAttributes shows
    start_ms: int
    end_ms: int = 0  # exclusive; 0: no end
    set_ms: int
    status: ReplayStatus = "Pending"
    claimed: str = ""  # a key of the archive, inclusive, as is `sent`
    sent: str = ""
    sent_at_ms: int = 0  # publish time of the message at `sent`: where the next page begins
    version: int = 1

    @property
    def active(self) -> bool:
        return self.status in ("Pending", "In progress")

    def live_delivery(self, notification: Notification, accepted_ms: int) -> LiveDelivery:
        """Whether the fan-out sends this message of a FIFO topic, which is in the archive."""
        at_ms = archived_at_ms(notification, accepted_ms)
        if self.status == "Failed" or at_ms < self.start_ms:
            return LiveDelivery.NOW
        if self.end_ms and at_ms >= self.end_ms:
            return LiveDelivery.NEVER  # a replay with an end stops live delivery until its policy is removed
        if notification.sequence_number > self.claimed:
            return LiveDelivery.NEVER
        return LiveDelivery.LATER if notification.sequence_number > self.sent else LiveDelivery.NOW

    def dedup_id(self, message_id: str) -> str:
        """The deduplication id of an internal FIFO queue: the same from the replay, its repetition and the fan-out."""
        return replay_dedup_id(message_id, self.subscription_arn, self.id)


def replay_dedup_id(message_id: str, subscription_arn: str, replay_id: str) -> str:
    return f"{message_id}/{subscription_arn}/{replay_id}"
