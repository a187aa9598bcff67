"""Daily tables of few rows, so that a job need not read four weeks of events again.

out/health/hours/date=2026-11-21/….parquet      endpoints by hour
out/health/traffic/date=2026-11-21/….parquet    topics, queues and endpoints by hour

A date without a directory is computed again: after `kill -9`, or after an operator deleted a suspect one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from cns_common.durations import DAY_MS, HOUR_MS
from cns_pipeline.location import Location
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import Period
from cns_pipeline.read import read_events
from cns_pipeline.schema import DATE
from cns_pipeline.storage import Storage
from cns_pipeline.stored_file import FileStore
from cns_pipeline.transforms.health.slots import endpoint_slots
from cns_pipeline.transforms.health.time_of_day import hourly_traffic

HISTORY_DAYS = 28
GROWING_DAYS = 2
"""Events of a day may arrive for this many days after its start: until then its rows are computed anew in each run."""
_PREFIX = f"{DATE}="
_EPOCH = date(1970, 1, 1)

HOURS_SCHEMA = StructType(
    [
        StructField("endpoint", StringType()),
        StructField("slot_ms", LongType()),
        StructField("attempts", LongType()),
        StructField("failed", LongType()),
        StructField("p50_ms", LongType()),
        StructField(DATE, DateType()),
    ]
)
TRAFFIC_SCHEMA = StructType(
    [
        StructField("kind", StringType()),
        StructField("name", StringType()),
        StructField("measure", StringType()),
        StructField("hour", LongType()),
        StructField("number", LongType()),
        StructField(DATE, DateType()),
    ]
)


@dataclass(frozen=True, slots=True)
class DailyTable:
    """A table by date, with the function that makes the rows of a day from its events."""

    at: Location
    schema: StructType
    make: Callable[[DataFrame], DataFrame]

    def update(self, spark: SparkSession, paths: PipelinePaths, days: Sequence[date]) -> None:
        """Compute the missing days, the last ones, and those that were computed while events could still arrive."""
        storage = Storage(spark)
        storage.make_directory(self.at)
        there = set(storage.names(self.at))
        for name in there:
            if not name.startswith(_PREFIX):
                storage.delete(self.at / name)  # left by a killed run
        wanted = [
            day
            for day in days
            if f"{_PREFIX}{day}" not in there or day in days[-GROWING_DAYS:] or self._was_growing(storage, day)
        ]
        events = read_events(spark, paths, _start_ms(wanted[0]), _start_ms(wanted[-1]) + DAY_MS)
        (
            self.make(events.where(F.col(DATE).isin(wanted)))
            .select(*self.schema.fieldNames())
            .repartition(DATE)
            .write.mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy(DATE)
            .parquet(str(self.at))
        )

    def _was_growing(self, storage: FileStore, day: date) -> bool:
        """Whether events of the day could still arrive when its rows were computed."""
        return storage.modified_ms(self.at / f"{_PREFIX}{day}") < _start_ms(day) + GROWING_DAYS * DAY_MS

    def days(self, spark: SparkSession, days: Sequence[date]) -> int:
        """Count the days that have rows."""
        there = set(Storage(spark).names(self.at))
        return len([day for day in days if f"{_PREFIX}{day}" in there])

    def read(self, spark: SparkSession, days: Sequence[date]) -> DataFrame:
        """Read the rows of these days; none if the table does not exist."""
        if not Storage(spark).exists(self.at):
            return spark.createDataFrame([], self.schema)
        return spark.read.schema(self.schema).parquet(str(self.at)).where(F.col(DATE).isin(list(days)))


def hours_table(paths: PipelinePaths) -> DailyTable:
    return DailyTable(paths.health / "hours", HOURS_SCHEMA, _hours)


def traffic_table(paths: PipelinePaths) -> DailyTable:
    return DailyTable(paths.health / "traffic", TRAFFIC_SCHEMA, hourly_traffic)


def days_before(at_ms: int) -> list[date]:
    """The HISTORY_DAYS whole days (UTC) before the day of a time, earliest first."""
    last = _EPOCH + timedelta(days=at_ms // DAY_MS)
    return [last - timedelta(days=back) for back in range(HISTORY_DAYS, 0, -1)]


def days_of(period: Period) -> list[date]:
    """The days of a period; of a longer period its last HISTORY_DAYS."""
    first, last = period.since_ms // DAY_MS, (period.until_ms - 1) // DAY_MS
    return [_EPOCH + timedelta(days=day) for day in range(max(first, last - HISTORY_DAYS + 1), last + 1)]


def _start_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _hours(events: DataFrame) -> DataFrame:
    return endpoint_slots(events, HOUR_MS).withColumn(DATE, F.to_date(F.timestamp_millis(F.col("slot_ms"))))
