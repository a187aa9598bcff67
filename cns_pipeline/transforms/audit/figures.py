"""Counts and rates of messages by queue and by message group."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

END_CAUSES = ("expired", "purged", "dead_lettered", "moved", "queue_deleted")
FATES = ("waiting", "unknown", "missing", "corrupt", "unsent")
SUMS = ("sent", "received", "deleted", "receives", "duplicates", "repeated", *END_CAUSES, *FATES)
ORDER = ("compared", "out_of_order", "displacement_sum")
LOST_FATES = ("missing", "corrupt")
_FIRST = ("first_sent_ms", "first_received_ms")
_LAST = ("last_sent_ms", "last_deleted_ms")


def group_figures(fates: DataFrame, order: DataFrame) -> DataFrame:
    """Return queue, group, fifo and the figures of each group of a FIFO queue; another queue is one group, ''."""
    fifo = F.col("sequence_number") != ""
    by_group = order.groupBy("queue", "group").agg(*[F.sum(name).alias(name) for name in ORDER])
    return _with_rates(
        fates.withColumn("group", F.when(fifo, F.col("group")).otherwise(""))
        .groupBy("queue", "group")
        .agg(F.max(fifo).alias("fifo"), *_counts())
        .join(by_group, on=["queue", "group"], how="left")
        .fillna(0, list(ORDER))
    )


def queue_figures(groups: DataFrame) -> DataFrame:
    """Return queue, fifo and the figures of each queue, from the frame of `group_figures`."""
    return _with_rates(
        groups.groupBy("queue").agg(
            F.max("fifo").alias("fifo"),
            *[F.sum(name).alias(name) for name in (*SUMS, *ORDER)],
            *[F.min(name).alias(name) for name in _FIRST],
            *[F.max(name).alias(name) for name in _LAST],
        )
    )


def pair_figures(order: DataFrame) -> DataFrame:
    return order.select("*", *_order_rates())


def lost_messages(fates: DataFrame) -> DataFrame:
    """Return the lost messages of each queue, oldest first."""
    return (
        fates.where(F.col("fate").isin(*LOST_FATES))
        .orderBy("queue", "sent_ms", "sender", "sent_sequence")
        .select("queue", "message_id", "group", "sent_ms", F.col("fate").alias("cause"))
    )


def _counts() -> list[Column]:
    sent = F.col("sent_ms").isNotNull()
    counts = {
        "sent": F.count_if(sent),
        "received": F.count_if(sent & (F.col("receives") > 0)),
        "deleted": F.count_if(sent & (F.col("deletes") > 0)),
        "receives": F.coalesce(F.sum(F.when(sent, F.col("receives"))), F.lit(0)),
        "duplicates": F.coalesce(F.sum(F.when(sent & (F.col("receives") > 0), F.col("receives") - 1)), F.lit(0)),
        "repeated": F.coalesce(F.sum(F.when(sent, F.col("repeated"))), F.lit(0)),
        **{cause: F.count_if(sent & (F.col("end_cause") == cause)) for cause in END_CAUSES},
        **{fate: F.count_if(F.col("fate") == fate) for fate in FATES},
        "first_sent_ms": F.min("sent_ms"),
        "last_sent_ms": F.max("sent_ms"),
        "first_received_ms": F.min(F.when(sent, F.col("received_ms"))),
        "last_deleted_ms": F.max(F.when(sent, F.col("deleted_ms"))),
    }
    return [column.alias(name) for name, column in counts.items()]


def _with_rates(figures: DataFrame) -> DataFrame:
    """Add the rates. A rate over no messages, or over no time, is null."""
    lost = F.col("missing") + F.col("corrupt")
    names = [name for name in ("queue", "group", "fifo") if name in figures.columns]
    return figures.select(
        *names,
        *SUMS,
        lost.alias("lost"),
        *_FIRST,
        *_LAST,
        *ORDER,
        _share(lost, "sent").alias("loss_rate"),
        _share(lost + F.col("unknown"), "sent").alias("loss_rate_max"),
        _share(F.col("duplicates"), "sent").alias("duplicate_rate"),
        _per_s("sent", F.col("last_sent_ms") - F.col("first_sent_ms")).alias("send_per_s"),
        _per_s("deleted", F.col("last_deleted_ms") - F.col("first_received_ms")).alias("receive_delete_per_s"),
        *_order_rates(),
    )


def _order_rates() -> tuple[Column, Column]:
    return (
        _share(F.col("out_of_order"), "compared").alias("out_of_order_rate"),
        _share(F.col("displacement_sum"), "compared").alias("average_displacement"),
    )


def _share(part: Column, whole: str) -> Column:
    return F.when(F.col(whole) > 0, part / F.col(whole))


def _per_s(count: str, span_ms: Column) -> Column:
    return F.when(span_ms > 0, F.col(count) * 1000 / span_ms)
