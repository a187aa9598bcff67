"""The difference between the order of first receives and that of sends, for each sending and receiving process.

The events of a process are ordered by their numbers, without a clock. Events of two processes have no such order, so
each pair of sender and receiver is compared separately. FIFO queues number the messages of all senders: there, each
pair of group and receiver is compared.

Built-in functions compute ranks, displacements and messages that are in place. Only the others, late messages and those
that overtook them, go through `IncreasingSubsequence`, in chunks (ADR 0016).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from cns_pipeline.transforms.audit.subsequence import IncreasingSubsequence

PAIR = ("queue", "group", "sender", "receiver")
CHUNK = 8_192
"""The number of messages in a row for Python: one row for each message would take ten times as long."""
SEQUENCE_NUMBER = "decimal(20,0)"
_COUNTS = ("compared", "out_of_order", "displacement_sum")
_SCHEMA = StructType(
    [
        *[StructField(name, StringType(), nullable=False) for name in PAIR],
        *[StructField(name, LongType(), nullable=False) for name in _COUNTS],
    ]
)


def order(messages: DataFrame) -> DataFrame:
    """Return PAIR and the counts of `audit.document.Order`, over messages that were both sent and received."""
    chunks = _chunks(_places(messages))
    rows = chunks.repartition(*PAIR).sortWithinPartitions(*PAIR, "chunk").rdd.mapPartitions(_measure)
    return messages.sparkSession.createDataFrame(rows, _SCHEMA, verifySchema=False)


def _places(messages: DataFrame) -> DataFrame:
    """Number the messages of each pair from 1, by receive (`position`) and by send (`right`).

    A message is `at_place` if the messages before it by receive are those before it by send.
    """
    fifo = F.col("sequence_number") != ""
    pair = Window.partitionBy(*PAIR)
    sends = pair.orderBy(F.col("sequence_number").try_cast(SEQUENCE_NUMBER), "sent_sequence")
    receives = pair.orderBy("received_sequence")
    furthest_before = F.coalesce(F.max("right").over(receives.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    position = F.row_number().over(receives)
    return (
        messages.where(F.col("sent_ms").isNotNull() & (F.col("receives") > 0))
        .withColumn("group", F.when(fifo, F.col("group")).otherwise(""))
        .withColumn("sender", F.when(fifo, "").otherwise(F.col("sender")))
        .select(*PAIR, "received_sequence", F.row_number().over(sends).alias("right"))
        .select(
            *PAIR,
            "right",
            position.alias("position"),
            ((F.col("right") == position) & (furthest_before == position - 1)).alias("at_place"),
        )
    )


def _chunks(places: DataFrame) -> DataFrame:
    """Collect the values of messages that are not in place into arrays, in the order of receives."""
    moved = F.when(~F.col("at_place"), F.struct("position", "right"))
    displacement = F.abs(F.col("position") - F.col("right"))
    return (
        places.groupBy(*PAIR, F.floor((F.col("position") - 1) / CHUNK).alias("chunk"))
        .agg(
            F.count("*").alias("compared"),
            F.count_if("at_place").alias("at_place"),
            F.sum(displacement).alias("displacement_sum"),
            F.sort_array(F.collect_list(moved)).alias("moved"),
        )
        .select(*PAIR, "chunk", "compared", "at_place", "displacement_sum", _rights().alias("rights"))
    )


def _rights() -> Column:
    return F.transform("moved", lambda moved: moved["right"])


def _measure(chunks: Iterable[Row]) -> Iterator[tuple[str | int, ...]]:
    """Sum up the consecutive chunks of each pair.

    A message in place is after all smaller and before all greater ones, so every longest subsequence contains it: the
    subsequence of the others can be found without it.
    """
    for pair, of_pair in groupby(chunks, key=lambda row: tuple(row[: len(PAIR)])):
        compared = at_place = displacement_sum = 0
        moved = IncreasingSubsequence()
        for row in of_pair:
            compared += row["compared"]
            at_place += row["at_place"]
            displacement_sum += row["displacement_sum"]
            moved.extend(row["rights"])
        yield *pair, compared, compared - at_place - len(moved), displacement_sum
