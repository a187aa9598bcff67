"""The periods in which events of a process may be missing from the table: messages in them count as unknown, not lost.

A process numbers its events from 1, and its segments state their numbers, so a missing number is known, as are the
times of its neighbours. The latest events of a running process are in no sealed segment yet. Boots (starts of a
process) without a message event are ignored: audited queues have writers of their own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cns_pipeline.schema import EVENT

OPEN_MS = 15 * 60_000
"""A running process seals a segment each minute, others seal those of dead ones, and `ingest` takes time."""
_OPENED = "segment.opened"
_SEALED = "segment.sealed"
_MESSAGES = "message."


def boots(events: DataFrame) -> DataFrame:
    """Return one row for each boot: its numbers, its times and its count of events.

    `ended`: no event follows. `base` is the number before the first.
    """
    number, before = _number(), F.col("first_sequence") - 1
    final = _is(_SEALED) & (F.col("recovered") | F.coalesce("stopped", F.lit(False)))
    return (
        events.where(F.col("boot").isNotNull())
        .groupBy("boot")
        .agg(
            F.count_if(F.col(EVENT).startswith(_MESSAGES)).alias("messages"),
            F.count_if(F.col("sequence") > 0).alias("events"),
            F.min(F.when(F.col("sequence") > 0, F.col("sequence") - 1).otherwise(before)).alias("base"),
            F.max(number).alias("last"),
            F.max(F.when(final, F.col("last_sequence"))).alias("final"),
            F.max("at_ms").alias("last_ms"),
        )
        .select(
            "boot",
            "messages",
            "events",
            "base",
            "last",
            "last_ms",
            F.coalesce(F.col("final") >= F.col("last"), F.lit(False)).alias("ended"),
        )
    )


def gaps(events: DataFrame, boots: DataFrame, *, from_the_first: bool) -> DataFrame:
    """Return boot, process, from_ms, to_ms and the number of missing events.

    `from_the_first`: `events` are complete; otherwise the first events of a boot may be older than those read.
    """
    base = F.lit(0) if from_the_first else F.col("base")
    incomplete = boots.where((F.col("messages") > 0) & (F.col("last") - base > F.col("events")))
    numbers = Window.partitionBy("boot").orderBy("number", F.desc("written"))
    before, missing = F.coalesce(F.lag("number").over(numbers), "base"), F.col("number") - F.col("before")
    return (
        events.join(F.broadcast(incomplete.select("boot", base.alias("base"))), on="boot", how="inner")
        .select("boot", "process", "at_ms", "base", _number().alias("number"), (F.col("sequence") > 0).alias("written"))
        .select("*", before.alias("before"), F.coalesce(F.lag("at_ms").over(numbers), F.lit(0)).alias("from_ms"))
        .select(
            "boot",
            F.first("process", ignorenulls=True).over(Window.partitionBy("boot")).alias("process"),
            "from_ms",
            F.greatest("from_ms", "at_ms").alias("to_ms"),
            (missing - F.col("written").cast("long")).alias("events"),
        )
        .where("events > 0")
    )


def open_ends(events: DataFrame, boots: DataFrame, end_ms: int) -> DataFrame:
    """Return the columns of `gaps` for processes that may still write; `to_ms` and `events` are null.

    `end_ms` is the time of the newest event.
    """
    processes = events.where(_is(_OPENED) | _is(_SEALED)).groupBy("boot").agg(F.max("process").alias("process"))
    return (
        boots.where((F.col("messages") > 0) & ~F.col("ended"))
        .join(processes, on="boot", how="left")
        .select(
            "boot",
            "process",
            F.greatest(F.col("last_ms"), F.lit(end_ms - OPEN_MS)).alias("from_ms"),
            F.lit(None).cast("long").alias("to_ms"),
            F.lit(None).cast("long").alias("events"),
        )
    )


def audits_off(events: DataFrame) -> DataFrame:
    """Return queue, from_ms, to_ms: when a queue was not audited, or not by all processes yet; `to_ms` may be null.

    The time between the deletion and the recreation of an audited queue is not a gap.
    """
    audits = Window.partitionBy("queue").orderBy("at_ms", "boot", "sequence")
    on = F.col("audit") == "on"
    return (
        events.where(_is("queue.audited"))
        .select("*", F.lag("at_ms").over(audits).alias("before_ms"), F.lead("at_ms").over(audits).alias("after_ms"))
        .withColumn("before_ms", F.when(F.lag(on).over(audits), F.col("at_ms")).otherwise(F.col("before_ms")))
        .select(
            "queue",
            F.when(on, F.coalesce("before_ms", F.lit(0))).otherwise(F.col("at_ms")).alias("from_ms"),
            F.when(on, F.col("complete_from_ms")).otherwise(F.col("after_ms")).alias("to_ms"),
        )
    )


def _number() -> Column:
    """The number of an event, or the last number that a segment states."""
    return (
        F.when(F.col("sequence") > 0, F.col("sequence"))
        .when(_is(_OPENED), F.col("first_sequence") - 1)
        .otherwise(F.col("last_sequence"))
    )


def _is(event: str) -> Column:
    return F.col(EVENT) == event
