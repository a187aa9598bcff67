"""A message's life as `cns explain` knows it: values that say what is known, of whom, and what is not known."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from cns_common.events.schema import DeliveryAttempted, PublishAccepted


class Fate(StrEnum):
    """Of one subscription. `unknown` is said, never guessed."""

    DELIVERED = "delivered"
    DEAD_LETTERED = "dead-lettered"
    DROPPED = "dropped"
    WAITING = "waiting"  # for its next attempt, or its first
    UNDER_WAY = "under way"
    QUARANTINED = "quarantined"
    FILTERED = "filtered"
    UNCONFIRMED = "not confirmed"
    LATER = "subscribed later"
    UNKNOWN = "unknown"


UNDELIVERED = (Fate.DROPPED, Fate.DEAD_LETTERED, Fate.QUARANTINED, Fate.UNKNOWN, Fate.WAITING, Fate.UNDER_WAY)
"""What a person asks for first."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where it is now: a job in one of the internal queues."""

    queue: str
    job_id: str
    under_way: bool  # a worker has it, until `due_ms` at the latest
    due_ms: int
    failures: int = 0
    behind: int = 0  # in a FIFO queue: jobs of its group that go first
    all_subscriptions: bool = False  # to be fanned out still, from `cursor` on
    cursor: str = ""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """What no attempt follows."""

    at_ms: int
    fate: Fate
    attempt: int  # the last; 0: none was made
    cause: str = ""
    reason: str = ""  # in words, where no attempt has one
    queue: str = ""  # ARN, of a dead letter
    since_publish_ms: int = 0


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """Of one subscription. A replay, or a worker's death, may bring the same message to several ends."""

    subscription: str  # ARN; empty: the phone or the mobile endpoint that was published to
    protocol: str
    endpoint: str  # '' where the subscription is gone
    fate: Fate
    reason: str  # why, as far as the fate does not say it
    attempts: tuple[DeliveryAttempted, ...]
    ends: tuple[End, ...]
    places: tuple[Place, ...]


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked through, and how much."""

    directories: tuple[str, ...]
    segments: int
    bytes: int
    took_ms: int
    jobs: int


class Story(msgspec.Struct, frozen=True, kw_only=True):
    message_id: str
    asked_ms: int
    known: bool  # anybody has ever heard of it
    message_type: str
    topic: str
    published_ms: int  # 0: not known
    began_ms: int  # when it was published or, as far as is known, first heard of
    accepted: PublishAccepted | None
    text_in: str  # where the message itself is still to be had: job, store, archive; '' nowhere
    filtered: int | None  # subscriptions that it was told to be kept from, when that was told
    fan_outs: tuple[Place, ...]
    drops: tuple[End, ...]  # of no one subscription: of all, or of those that the cause is about
    lives: tuple[Life, ...]
    totals: dict[Fate, int]
    unknown: tuple[str, ...]  # what could not be found out, in sentences
    searched: Searched
