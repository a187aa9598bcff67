"""Names of columns that the frames of the report share, and the conditions on them."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cns_common.durations import HOUR_MS
from cns_pipeline.schema import EVENT

NOTIFICATION = "Notification"
"""Confirmations are attempted as well, but not published."""

WEEK = "week"
"""0: the period of the report; 1: the same span a week before."""
HOUR = "hour_ms"
"""The start of the hour, in ms since the epoch."""
PLACE = "place"
"""The key that an event counts for: the ARN of the subscription; `direct`, account, protocol and endpoint of a direct
delivery; where there is no single target the topic's ARN, or `direct` and the account of a direct publish."""
HAS_TARGET = "has_target"
"""Whether the place is a subscription or the target of a direct publish."""

ACCEPTED = "publish.accepted"
MATCHED = "notification.matched"
FILTERED = "delivery.filtered"
ATTEMPTED = "delivery.attempted"
DELIVERED = "delivery.delivered"
DEAD_LETTERED = "delivery.dead_lettered"
DROPPED = "notification.dropped"
OF_NOTIFICATIONS = (ACCEPTED, MATCHED, FILTERED, ATTEMPTED, DELIVERED, DEAD_LETTERED, DROPPED)
OF_TARGETS = (ATTEMPTED, DELIVERED, DEAD_LETTERED, DROPPED)


def is_event(*names: str) -> Column:
    return F.col(EVENT).isin(*names) if len(names) > 1 else F.col(EVENT) == names[0]


def is_of_notification() -> Column:
    """Whether an event is of what was published, or is no event of a message at all: no figure counts confirmations."""
    return F.coalesce("message_type", F.lit("")).isin("", NOTIFICATION)


def is_failed_attempt() -> Column:
    return is_event(ATTEMPTED) & (F.col("outcome") == "failed")


def hour_of(at_ms: str) -> Column:
    """The start of the hour of a column with ms since the epoch."""
    return F.col(at_ms) - F.col(at_ms) % HOUR_MS


def total(values: Column) -> Column:
    """The sum; 0 without values."""
    return F.coalesce(F.sum(values), F.lit(0))
