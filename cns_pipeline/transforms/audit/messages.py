"""One row for each message of a queue, from all its events.

The first receive is the one with the lowest receive count, an order that needs no clock.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.schema import EVENT

KEY = ("queue", "message_id")
SENT = "message.sent"
RECEIVED = "message.received"
DELETED = "message.deleted"
ENDED = "message.ended"


def messages(events: DataFrame) -> DataFrame:
    """Return the messages. A message without a send event has a null `sent_ms`.

    Spark sorts the input of aggregates of strings. The repartition makes it sort once instead of twice.
    """
    return (
        events.where(F.col(EVENT).isin(SENT, RECEIVED, DELETED) | (_is(ENDED) & (F.col("message_id") != "")))
        .repartition(*KEY)
        .groupBy(*KEY)
        .agg(*_aggregates())
        .select(
            *KEY,
            F.coalesce("sent.group", "first.group", F.lit("")).alias("group"),
            F.coalesce("sent.sequence_number", F.lit("")).alias("sequence_number"),
            F.col("sent.at_ms").alias("sent_ms"),
            F.col("sent.boot").alias("sender"),
            F.col("sent.sequence").alias("sent_sequence"),
            F.col("first.at_ms").alias("received_ms"),
            F.col("first.boot").alias("receiver"),
            F.col("first.sequence").alias("received_sequence"),
            "receives",
            F.greatest(F.lit(0), F.col("receives") - F.col("distinct_at_most")).alias("repeated"),
            F.coalesce(_is_corrupt(), F.lit(False)).alias("corrupt"),
            "deletes",
            "deleted_ms",
            "ended_ms",
            F.col("end.cause").alias("end_cause"),
        )
    )


def _aggregates() -> tuple[Column, ...]:
    sent, received, deleted, ended = (_is(event) for event in (SENT, RECEIVED, DELETED, ENDED))
    duplicate = F.coalesce("duplicate", F.lit(False)).alias("duplicate")
    send = F.struct(duplicate, "at_ms", "boot", "sequence", "group", "sequence_number", "checksum")
    receive = F.struct("receive_count", "at_ms", "boot", "sequence", "group")
    counts = F.max(F.when(received, F.col("receive_count"))) - F.min(F.when(received, F.col("receive_count"))) + 1
    return (
        F.min(F.when(sent, send)).alias("sent"),  # prefers the original to its duplicates
        F.min(F.when(received, receive)).alias("first"),
        F.count_if(received).alias("receives"),
        counts.alias("distinct_at_most"),
        F.min(F.when(received, F.col("checksum"))).alias("checksum_min"),
        F.max(F.when(received, F.col("checksum"))).alias("checksum_max"),
        F.count_if(deleted).alias("deletes"),
        F.min(F.when(deleted, F.col("at_ms"))).alias("deleted_ms"),
        F.min(F.when(ended, F.col("at_ms"))).alias("ended_ms"),
        F.max(F.when(ended, F.struct("at_ms", "cause"))).alias("end"),
    )


def _is_corrupt() -> Column:
    """Whether the checksum of a receive differs from that of the send. Duplicate sends have no checksum."""
    sent = F.col("sent.checksum")
    return (sent != "") & ((F.col("checksum_min") != sent) | (F.col("checksum_max") != sent))


def _is(event: str) -> Column:
    return F.col(EVENT) == event
