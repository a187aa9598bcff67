"""The distance of the first receives from the order of the sends, for each sending and receiving process.

Within a process the numbers of its events order them without a clock; between processes nothing does, so each pair of a
sender and a receiver is a sequence of its own. FIFO queues number their messages over all senders: there each group and
receiver is one.

Ranks, displacements and messages at their place are found by built-in functions. What is left, the messages between a
late one and those that overtook it, goes through `IncreasingSubsequence` in chunks (ADR 0016).
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
"""Messages in a row that goes to Python: a row each would cost ten times the time."""
SEQUENCE_NUMBER = "decimal(20,0)"
_COUNTS = ("compared", "out_of_order", "displacement_sum")
_SCHEMA = StructType(
    [
        *[StructField(name, StringType(), nullable=False) for name in PAIR],
        *[StructField(name, LongType(), nullable=False) for name in _COUNTS],
    ]
)


def order(messages: DataFrame) -> DataFrame:
    """Return PAIR and, of its messages that were both sent and received, counts as `audit.document.Order` has them."""
    chunks = _chunks(_places(messages))
    rows = chunks.repartition(*PAIR).sortWithinPartitions(*PAIR, "chunk").rdd.mapPartitions(_measure)
    return messages.sparkSession.createDataFrame(rows, _SCHEMA, verifySchema=False)


def _places(messages: DataFrame) -> DataFrame:
    """Number the messages of each pair from 1, by receive (`position`) and by send (`right`).

    A message is `at_place` if those before it are the ones that were sent before it.
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
    """Put the values of the messages that are not at their place into arrays, in the order of receives."""
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
    """Sum the chunks of each pair, which follow one another in order.

    A message at its place follows all that are smaller and precedes all that are greater, so it belongs to each longest
    subsequence: that of the others may be found without it.
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
