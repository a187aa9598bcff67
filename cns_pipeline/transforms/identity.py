"""The identity of an event is (boot, sequence), however many copies its segment has."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cns_pipeline.schema import EVENT, FILE, LINE, NEWER

_KEYS = ("key_boot", "key_sequence", "key_rest")


def distinct_events(events: DataFrame) -> DataFrame:
    """Keep one row of each event."""
    return _with_keys(events).dropDuplicates(list(_KEYS)).drop(*_KEYS)


def new_events(events: DataFrame, known: DataFrame) -> DataFrame:
    """Keep the events that are not in `known`."""
    keys = _with_keys(known).select(*_KEYS)
    return _with_keys(events).join(keys, on=list(_KEYS), how="left_anti").drop(*_KEYS)


def spans(events: DataFrame) -> DataFrame:
    """Return the first and last number of each boot. Lines kept aside have none: for them, a row for each segment.

    `lines` exceeds `distinct` if there are copies.
    """
    return (
        events.groupBy("boot", F.when(F.col("boot").isNull(), F.col(FILE)).alias(FILE))
        .agg(
            F.min(F.coalesce("first_sequence", "sequence")).alias("first"),
            F.max(F.greatest("sequence", "first_sequence", "last_sequence")).alias("last"),
            F.count("*").alias("lines"),
            F.count_distinct(*_identity()).alias("distinct"),
            F.count_if(F.col(EVENT) == NEWER).alias("newer"),
        )
        .select("boot", FILE, "first", "last", "lines", "distinct", "newer")
    )


def _with_keys(events: DataFrame) -> DataFrame:
    return events.select("*", *[column.alias(name) for name, column in zip(_KEYS, _identity(), strict=True)])


def _identity() -> tuple[Column, Column, Column]:
    """Boot, sequence, and a text that distinguishes rows without a number: facts of segments, and lines kept aside."""
    numbered = F.col("sequence") > 0
    aside = F.concat_ws("\n", FILE, LINE)
    fact = F.concat_ws(" ", EVENT, F.col("first_sequence").cast("string"), F.col("last_sequence").cast("string"))
    rest = F.when(numbered, F.lit("")).when(F.col(LINE).isNotNull(), aside).otherwise(fact)
    return F.coalesce("boot", F.lit("")), F.coalesce("sequence", F.lit(0)), rest
