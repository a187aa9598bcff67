"""The answer of `cns explain`: what is known of a message, for which subscription, and what is unknown.

`rename` lists the members that keep their former names in the output of `--json`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from cns.delivery.failure_causes import Why
from cns_common.events.schema import DeliveryAttempted, PublishAccepted


class DeliveryStatus(StrEnum):
    """The state of a message for one subscription; `unknown` rather than a guess."""

    DELIVERED = "delivered"
    DEAD_LETTERED = "dead-lettered"
    DROPPED = "dropped"
    WAITING = "waiting"  # for its first or next attempt
    UNDER_WAY = "under way"
    QUARANTINED = "quarantined"
    FILTERED = "filtered"
    UNCONFIRMED = "not confirmed"
    LATER = "subscribed later"
    UNKNOWN = "unknown"


UNDELIVERED = (
    DeliveryStatus.DROPPED,
    DeliveryStatus.DEAD_LETTERED,
    DeliveryStatus.QUARANTINED,
    DeliveryStatus.UNKNOWN,
    DeliveryStatus.WAITING,
    DeliveryStatus.UNDER_WAY,
)
"""Shown first, in this order."""


class JobLocation(msgspec.Struct, frozen=True, kw_only=True):
    """A job with the message in one of the internal queues."""

    queue: str
    job_id: str
    under_way: bool  # a worker has a lease on it, until `due_ms` at the latest
    due_ms: int
    failures: int = 0
    behind: int = 0  # in a FIFO queue: jobs of its group before it
    all_subscriptions: bool = False  # a fan-out that continues after subscription id `cursor`
    cursor: str = ""


class FinalOutcome(msgspec.Struct, frozen=True, kw_only=True, rename={"status": "fate"}):
    """An outcome that no attempt follows."""

    at_ms: int
    status: DeliveryStatus
    attempt: int  # number of the last attempt; 0: none was made
    cause: str = ""
    reason: str = ""  # in words, if no attempt has one
    queue: str = ""  # ARN of the dead-letter queue
    since_publish_ms: int = 0


class DeliveryHistory(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"status": "fate", "outcomes": "ends", "locations": "places"},
):
    """The history of a message for one subscription. A replay, or a worker's death, may cause several outcomes."""

    subscription: str  # ARN; '' for a publish to a phone number or a mobile endpoint
    protocol: str
    endpoint: str  # '' if the subscription no longer exists
    status: DeliveryStatus
    reason: str  # for the status, if it needs one
    attempts: tuple[DeliveryAttempted, ...]
    outcomes: tuple[FinalOutcome, ...]
    locations: tuple[JobLocation, ...]
    why: Why | None = None  # why it did not arrive, if that is known


class SearchSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The extent of the search."""

    directories: tuple[str, ...]
    segments: int
    bytes: int
    took_ms: int
    jobs: int


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename={"histories": "lives"}):
    """All that is known of one message."""

    message_id: str
    asked_ms: int
    known: bool  # there is at least one trace of the message
    message_type: str
    topic: str
    published_ms: int  # 0: not known
    began_ms: int  # the publish or, if that is not known, the first event
    accepted: PublishAccepted | None
    text_in: str  # where the message itself is stored: job, store, archive, or '' for nowhere
    filtered: int | None  # the number of subscriptions whose filters rejected it, if that was recorded
    fan_outs: tuple[JobLocation, ...]
    drops: tuple[FinalOutcome, ...]  # for all subscriptions, or for all that the cause concerns
    histories: tuple[DeliveryHistory, ...]
    totals: dict[DeliveryStatus, int]
    unknown: tuple[str, ...]  # what could not be found out, in sentences
    searched: SearchSummary
    why: Why | None = None  # why no subscription was to get it
