"""Adds archived messages to the archive table without duplicates, in files by topic and date."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from cns_common.ids import hex_id
from cns_common.process.kill_points import (
    ARCHIVE_CLEANED,
    ARCHIVE_LISTED,
    ARCHIVE_MOVED,
    ARCHIVE_WRITTEN,
    kill_point,
)
from cns_pipeline.archive.manifest import (
    WRITING,
    ArchivedUntil,
    ArchiveManifest,
    Day,
    date_directory,
    date_of,
    file_name,
    read_manifest,
    topic_directory,
    topic_of,
    write_manifest,
    written_files,
)
from cns_pipeline.archive.planning import ArchiveSpan, TopicPlan
from cns_pipeline.archive.reader import StorePlace, open_reader
from cns_pipeline.archive.rows import ArchiveRow, row_of
from cns_pipeline.archive.schema import DATE, TOPIC, archive_schema
from cns_pipeline.location import Location
from cns_pipeline.storage import Storage
from cns_pipeline.transforms.archive import days_of_archives, in_replay_order, new_messages, with_days

TASKS_PER_CORE = 4
"""More tasks than cores: they balance busy and quiet hours."""


class ChangedDay(NamedTuple):
    """A date of a topic with messages that are not in the table yet."""

    topic: str
    date: str


class WrittenDay(NamedTuple):
    """A date, and the paths of the files with all its messages below the directory of the run."""

    date: str
    rows_added: int
    paths: list[str]


class ArchiveTable:
    def __init__(self, spark: SparkSession, storage: Storage, directory: Location) -> None:
        self._spark = spark
        self._storage = storage
        self._directory = directory

    def manifest(self, topic_arn: str) -> ArchiveManifest:
        return read_manifest(self._storage, self._directory, topic_arn)

    def add(self, place: StorePlace, plans: Sequence[TopicPlan], now_ms: int) -> int:
        """Read the planned spans from the store once, and add the new messages. Returns their number."""
        # one directory per run: Java may outlive a killed run and still write
        writing = self._directory / WRITING / hex_id()
        spans = [span for plan in plans for span in plan.spans]
        if not spans:
            return 0
        self._read_spans(place, spans).write.parquet(str(writing / "read"))
        read = self._frame([str(writing / "read")])
        new_messages(read, self._archived(plans)).write.parquet(str(writing / "new"))
        added = self._add_written(writing, now_ms)
        self._storage.delete(self._directory / WRITING)
        return added

    def _read_spans(self, place: StorePlace, spans: Sequence[ArchiveSpan]) -> DataFrame:
        context = self._spark.sparkContext
        tasks = context.parallelize(list(spans), min(len(spans), TASKS_PER_CORE * context.defaultParallelism))
        rows = tasks.mapPartitions(partial(read_rows, place))
        return self._spark.createDataFrame(rows, archive_schema(), verifySchema=False)

    def _archived(self, plans: Iterable[TopicPlan]) -> DataFrame:
        """The rows of the table that the planned spans overlap."""
        dates = {(plan.topic_arn, date_of(span.since_ms)) for plan in plans for span in plan.spans}
        return self._days({ChangedDay(topic, date) for topic, date in dates})

    def _days(self, days: Iterable[ChangedDay]) -> DataFrame:
        by_topic: dict[str, set[str]] = defaultdict(set)
        for day in days:
            by_topic[day.topic].add(day.date)
        return self._frame(
            [
                str(self._directory / topic_directory(topic) / date_directory(day.date) / name)
                for topic, dates in sorted(by_topic.items())
                for day in self.manifest(topic).days
                if day.date in dates
                for name in day.files
            ]
        )

    def _frame(self, paths: list[str]) -> DataFrame:
        if not paths:
            return self._spark.createDataFrame([], archive_schema())
        return self._spark.read.schema(archive_schema()).parquet(*paths)

    def _add_written(self, writing: Location, now_ms: int) -> int:
        """Rewrite the changed days with the new messages, and replace them in the table topic by topic."""
        new = self._frame([str(writing / "new")])
        archives = days_of_archives(with_days(new)).collect()
        changed = {ChangedDay(row[TOPIC], str(row[DATE])) for row in archives}
        if not changed:
            return 0
        whole = with_days(new.union(self._days(changed)))
        in_replay_order(whole).write.partitionBy(TOPIC, DATE).parquet(str(writing / "days"))
        self._storage.sync(writing / "days")
        kill_point(ARCHIVE_WRITTEN)
        paths: dict[ChangedDay, list[str]] = defaultdict(list)
        for file in written_files(self._storage, writing / "days"):
            paths[ChangedDay(topic_of(file.topic_directory), file.date)].append(file.path)
        for topic in sorted({day.topic for day in changed}):
            rows = [row for row in archives if row[TOPIC] == topic]
            added: Counter[str] = Counter()
            for row in rows:
                added[str(row[DATE])] += row["rows"]
            # publish times ahead of now must not hide messages archived until then
            until = [ArchivedUntil(row["archive"], min(row["last_ms"], now_ms)) for row in rows]
            days = [WrittenDay(date, added[date], paths[ChangedDay(topic, date)]) for date in sorted(added)]
            self._replace_days(writing / "days", topic, days, until)
        return sum([row["rows"] for row in archives])

    def _replace_days(
        self, written: Location, topic: str, new: Sequence[WrittenDay], until: Sequence[ArchivedUntil]
    ) -> None:
        before = self.manifest(topic)
        version = before.version + 1
        days = {day.date: day for day in before.days}
        for day in new:
            directory = self._directory / topic_directory(topic) / date_directory(day.date)
            self._storage.make_directory(directory)
            names = tuple([file_name(version, number) for number in range(len(day.paths))])
            for path, name in zip(day.paths, names, strict=True):
                self._storage.rename(written / path, directory / name)
                kill_point(ARCHIVE_MOVED)
            self._storage.sync(directory)
            earlier = days.get(day.date)
            days[day.date] = Day(day.date, day.rows_added + (earlier.rows if earlier else 0), names)
        archives = {each.archive: each.at_ms for each in before.until}
        for each in until:
            archives[each.archive] = max(each.at_ms, archives.get(each.archive, 0))
        after = replace(
            before,
            version=version,
            days=tuple([days[date] for date in sorted(days)]),
            until=tuple([ArchivedUntil(*each) for each in archives.items()]),
        )
        self._change(before, after)

    def expire(self, topic: str, first_date: str) -> int:
        """Remove the days before a date. Returns the number of removed messages."""
        before = self.manifest(topic)
        expired = [day for day in before.days if day.date < first_date]
        if expired:
            kept = tuple([day for day in before.days if day.date >= first_date])
            self._change(before, replace(before, version=before.version + 1, days=kept))
        return sum(day.rows for day in expired)

    def _change(self, before: ArchiveManifest, after: ArchiveManifest) -> None:
        """Replace the manifest, then remove the files that it no longer names."""
        directory = self._directory / topic_directory(after.topic)
        write_manifest(self._storage, self._directory, after)
        kill_point(ARCHIVE_LISTED)
        for path in sorted(set(before.files).difference(after.files)):
            self._storage.delete(directory / path)
            kill_point(ARCHIVE_CLEANED)
        for day in {day.date for day in before.days}.difference(day.date for day in after.days):
            self._storage.delete(directory / date_directory(day))


def read_rows(place: StorePlace, spans: Iterable[ArchiveSpan]) -> Iterator[ArchiveRow]:
    """Read the spans; runs in Spark's tasks."""
    with open_reader(place) as reader:
        for span in spans:
            for message in reader.messages(span.archive, span.since_ms, span.until_ms):
                yield row_of(span.archive, span.began_ms, message)
