"""The fate of each message that was sent: one word in the column `fate`.

    received    at least once, intact
    corrupt     received with another checksum than sent
    ended       never received; the cause of its end is known: expired, purged, dead_lettered, moved, queue_deleted
    waiting     only its send is known, and it is not overdue
    unknown     overdue; the event of its end may be missing, or a purge may have ended it
    missing     overdue, and no event that could tell its end is missing: the queue lost it
    unsent      received or ended without a send event: its sender died before the answer, or the audit was off

A message is overdue when its queue was empty after its send, or when it is older than messages can be.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cns_pipeline.schema import EVENT
from cns_pipeline.transforms.audit.messages import ENDED

REST_MARGIN_MS = 60_000
"""Allows for differences between clocks, and for depths that were counted before their event."""
PURGE_MARGIN_MS = 120_000
"""A sender whose clock is ahead dates a message after the purge that ended it, or after an empty queue."""
_NEVER_MS = 1 << 62


def empty_times(events: DataFrame) -> DataFrame:
    """Return queue and rest_ms: times at which no message was visible, in flight or delayed."""
    empty = (F.col("visible") == 0) & (F.col("in_flight") == 0) & (F.col("delayed") == 0)
    counted = events.where((F.col(EVENT) == "queue.counted") & empty)
    return counted.select("queue", F.col("at_ms").alias("rest_ms"))


def purges(events: DataFrame) -> DataFrame:
    """Return queue and `purges`, (at_ms, cause) of each. A purge ends all messages sent before it."""
    return (
        events.where(_is_purge())
        .groupBy("queue")
        .agg(F.sort_array(F.collect_list(F.struct("at_ms", "cause"))).alias("purges"))
        .select("queue", "purges")
    )


def purge_margins(events: DataFrame) -> DataFrame:
    """Return queue, from_ms, to_ms: periods of sends that may be before or after a purge."""
    until_ms = F.col("at_ms") + PURGE_MARGIN_MS
    return events.where(_is_purge()).select("queue", F.col("at_ms").alias("from_ms"), until_ms.alias("to_ms"))


def in_period(messages: DataFrame, since_ms: int, until_ms: int) -> DataFrame:
    """Return the messages sent in the period; without a send event, the time of the first receive counts."""
    known = F.col("sent_ms").isNotNull() | _was_received()
    at_ms = F.coalesce("sent_ms", "received_ms", "deleted_ms")
    return messages.where(known & (at_ms >= since_ms) & (at_ms < until_ms))


def accounted(messages: DataFrame) -> DataFrame:
    """Return the messages with more events than the send, and their fate."""
    fate = (
        F.when(F.col("sent_ms").isNull(), "unsent")
        .when(F.col("corrupt"), "corrupt")
        .when(_was_received(), "received")
        .otherwise("ended")
    )
    return messages.where(~_is_open()).select("*", fate.alias("fate"))


def unaccounted(messages: DataFrame) -> DataFrame:
    """Return the messages with a send event only."""
    return messages.where(_is_open())


def purged(open_messages: DataFrame, purges: DataFrame) -> DataFrame:
    """Set `ended_ms` and `end_cause` of unaccounted messages to the first purge after their send."""
    sent_ms = F.col("sent_ms")
    purge = F.get(F.filter("purges", lambda purge: purge["at_ms"] >= sent_ms), 0)
    return (
        open_messages.join(F.broadcast(purges), on="queue", how="left")
        .withColumn("ended_ms", purge["at_ms"])
        .withColumn("end_cause", purge["cause"])
        .drop("purges")
    )


def at_rest(
    open_messages: DataFrame, empty_times: DataFrame, end_ms: int, *, lost_after_ms: int, all_at_rest: bool
) -> DataFrame:
    """Add `rest_ms`: the time at which the message is overdue, or null. If a queue was empty between a send and a
    purge, the purge did not end the message.

    `end_ms` is the time of the newest event, `lost_after_ms` the longest time that a message waits; `all_at_rest`: all
    queues are empty at the end.
    """
    points = empty_times.select("queue", (F.col("rest_ms") - REST_MARGIN_MS).alias("sent_ms"), "rest_ms")
    later = Window.partitionBy("queue").orderBy(F.desc("sent_ms"))
    too_old_ms = F.col("sent_ms") + lost_after_ms
    gone_ms = F.least("empty_ms", F.when(too_old_ms <= end_ms, too_old_ms))
    at_end_ms = F.lit(end_ms if all_at_rest else None).cast("long")
    was_gone = F.coalesce(F.col("empty_ms") <= F.col("ended_ms") - PURGE_MARGIN_MS, F.lit(False))
    return (
        open_messages.unionByName(points, allowMissingColumns=True)
        .select("*", F.min("rest_ms").over(later).alias("empty_ms"))
        .where(F.col("message_id").isNotNull())
        .withColumn("end_cause", F.when(~was_gone, F.col("end_cause")))
        .withColumn("ended_ms", F.when(~was_gone, F.col("ended_ms")))
        .select(*open_messages.columns, F.coalesce(gone_ms, at_end_ms).alias("rest_ms"))
    )


def judged(open_messages: DataFrame, gaps: DataFrame, queue_spans: DataFrame) -> DataFrame:
    """Set the fate by `rest_ms`. `gaps` hide events of all queues, `queue_spans` those of one queue each."""
    everywhere = gaps.agg(F.collect_list(_span()).alias("everywhere"))
    here = queue_spans.groupBy("queue").agg(F.collect_list(_span()).alias("here"))
    fate = (
        F.when(F.col("end_cause").isNotNull(), "ended")
        .when(F.col("rest_ms").isNull(), "waiting")
        .when(_is_hidden("everywhere") | F.coalesce(_is_hidden("here"), F.lit(False)), "unknown")
        .otherwise("missing")
    )
    return (
        open_messages.crossJoin(F.broadcast(everywhere))
        .join(F.broadcast(here), on="queue", how="left")
        .select(*open_messages.columns, fate.alias("fate"))
        .drop("rest_ms")
    )


def _is_purge() -> Column:
    """Whether the event is of a purge or of a queue's deletion: it names no message."""
    return (F.col(EVENT) == ENDED) & (F.coalesce("message_id", F.lit("")) == "")


def _span() -> Column:
    return F.struct("from_ms", F.coalesce("to_ms", F.lit(_NEVER_MS)).alias("to_ms"))


def _is_hidden(spans: str) -> Column:
    """Whether events between the send and `rest_ms` may be missing."""
    sent_ms, rest_ms = F.col("sent_ms"), F.col("rest_ms")
    return F.exists(spans, lambda span: (span["from_ms"] <= rest_ms) & (span["to_ms"] >= sent_ms))


def _was_received() -> Column:
    """Whether the message was received: a deleted message was."""
    return (F.col("receives") > 0) | (F.col("deletes") > 0)


def _is_open() -> Column:
    return F.col("sent_ms").isNotNull() & ~_was_received() & F.col("end_cause").isNull()
