"""Transforms of the archive table."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cns_pipeline.archive.schema import DATE, IDENTITY, REPLAY_ORDER, TOPIC, archive_schema


def new_messages(read: DataFrame, archived: DataFrame) -> DataFrame:
    """The messages in `read` that are not in `archived`, without duplicates."""
    return (
        read.dropDuplicates([*IDENTITY])
        .join(archived.select(*IDENTITY), on=[*IDENTITY], how="left_anti")
        .select(*archive_schema().fieldNames())
    )


def with_days(messages: DataFrame) -> DataFrame:
    """Add the columns for partitions: the topic, and the date of the publish time (UTC)."""
    published = F.timestamp_millis(F.col("at_ms"))
    return messages.withColumns({TOPIC: F.col("topic_arn"), DATE: F.to_date(published)}).select(
        TOPIC, DATE, *archive_schema().fieldNames()
    )


def in_replay_order(messages: DataFrame) -> DataFrame:
    """Sort messages with days in the order of replay, over all partitions."""
    order = [TOPIC, DATE, *REPLAY_ORDER]
    return messages.repartitionByRange(*order).sortWithinPartitions(*order).select(*messages.columns)


def days_of_archives(messages: DataFrame) -> DataFrame:
    """A row for each date of an archive: number of messages and last publish time in ms."""
    figures = (F.count("*").alias("rows"), F.max("at_ms").alias("last_ms"))
    return messages.groupBy(TOPIC, DATE, "archive").agg(*figures).select(TOPIC, DATE, "archive", "rows", "last_ms")
