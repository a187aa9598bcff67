"""`cns pipeline archive`: copies archived messages into the table of the archive."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from cns_common.clock import Clock
from cns_common.configuration.settings import Settings, load_settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.durations import DAY_MS, HOUR_MS
from cns_common.errors import StartError
from cns_common.sqlite.database import STORE_FILE
from cns_pipeline.archive.manifest import (
    Keep,
    date_of,
    read_keep,
    remove_strays,
    topic_directories,
    topic_of,
    write_keep,
)
from cns_pipeline.archive.planning import first_kept_ms, plan_topics
from cns_pipeline.archive.reader import StorePlace, open_reader
from cns_pipeline.archive.table import ArchiveTable
from cns_pipeline.arguments import Arguments, JobResult, left_out
from cns_pipeline.locking import directory_lock
from cns_pipeline.reports.text import are, counted
from cns_pipeline.session import open_job
from cns_pipeline.storage import Storage

LOCK = "archive.lock"


class ArchiveOptions(NamedTuple):
    """`keep_days`: the retention of the table for all topics; None: that of each topic's policy, 0: without limit.
    `again_hours`: how much of each archive is read again; None: see `plan_topics`."""

    keep_days: int | None = None
    again_hours: int | None = None


def store_place(data: Path | None) -> StorePlace:
    """The store of the settings. Raises StartError for a data directory without one."""
    settings = load_settings(data)
    if settings.store == "cassandra":
        return _cassandra_place(settings)
    path = (settings.data / STORE_FILE).absolute()
    if not path.exists():
        text = f"there is no store in {settings.data.absolute()}: name its directory with --data or CNS_DATA"
        raise StartError(text, EXIT_DATA_UNUSABLE)
    return StorePlace(sqlite=path)


def _cassandra_place(settings: Settings) -> StorePlace:
    from cns_common.cassandra.connection import cassandra_address  # its driver is installed in the cluster form only

    return StorePlace(cassandra=cassandra_address(settings))


class ArchiveResult(NamedTuple):
    """The numbers of messages that a run added and removed."""

    topics: int
    added: int
    expired: int


def run(arguments: Arguments, place: StorePlace, options: ArchiveOptions = ArchiveOptions()) -> JobResult:  # noqa: B008  # the default is immutable
    """Run the job; return a line about its result."""
    with directory_lock(arguments.local, LOCK), open_job("cns-archive", arguments) as spark:
        return _result(arguments, archive(spark, arguments, place, options))


def run_as_before(arguments: Arguments) -> JobResult:
    """Run the job with the options of the last `cns pipeline archive`, if a topic has an archive."""
    settings = load_settings(arguments.data)
    if settings.store != "cassandra" and not (settings.data / STORE_FILE).exists():
        return left_out(f"there is no store in {settings.data.absolute()}")
    place = store_place(arguments.data)
    with open_reader(place) as reader:
        if next(reader.topics(), None) is None:
            return left_out("no topic has an ArchivePolicy")
    with directory_lock(arguments.local, LOCK), open_job("cns-archive", arguments) as spark:
        if place.sqlite is not None and not (spark.sparkContext.master or "").startswith("local"):
            return left_out("left out: the cluster cannot read the store, a file of this machine")
        keep = read_keep(Storage(spark), arguments.paths.archive)
        return _result(arguments, archive(spark, arguments, place, ArchiveOptions(keep.days)))


def _result(arguments: Arguments, done: ArchiveResult) -> JobResult:
    new = f"{counted(done.added, 'new message')} of {counted(done.topics, 'archived topic')}"
    lines = [f"{new} {are(done.added)} in {arguments.paths.archive}"]
    if done.expired:
        lines.append(f"removed {counted(done.expired, 'message')} older than the table keeps them")
    return JobResult("\n".join(lines), facts={"table": str(arguments.paths.archive), **done._asdict()})


def archive(spark: SparkSession, arguments: Arguments, place: StorePlace, options: ArchiveOptions) -> ArchiveResult:
    now_ms = Clock().real_ms()
    keep_ms = None if options.keep_days is None else options.keep_days * DAY_MS
    storage, directory = Storage(spark), arguments.paths.archive
    table = ArchiveTable(spark, storage, directory)
    remove_strays(storage, directory)
    with open_reader(place) as reader:
        again_ms = None if options.again_hours is None else options.again_hours * HOUR_MS
        plans = plan_topics(reader, table.manifest, keep_ms, again_ms, now_ms)
    if plans:
        write_keep(storage, directory, Keep(options.keep_days))  # before anything is removed
    added = table.add(place, plans, now_ms)
    kept = {plan.topic_arn: plan.keep_ms for plan in plans}
    if keep_ms is not None:
        kept |= {topic_of(name): keep_ms or None for name in topic_directories(storage, directory)}
    expired = sum([table.expire(topic, date_of(first_kept_ms(ms, now_ms))) for topic, ms in kept.items() if ms])
    return ArchiveResult(len(plans), added, expired)
