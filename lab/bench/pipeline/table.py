"""Measures the table of events: ingest, many small files against merged ones, a follower without new segments.

    python -m lab.bench.pipeline.table [--events 1000000] [--small 250000] [--segments 10000] [--idle-s 60]

CPU seconds are of Python and Java together, so they hold on a busy machine as well.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_pipeline.batches import Contents, Span, event_table
from cns_pipeline.compaction import compact
from cns_pipeline.follow import Follower
from cns_pipeline.ingest import IngestOptions, SegmentIngest, ingest
from cns_pipeline.location import located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.read import read_events
from cns_pipeline.schema import DATE, EVENT
from cns_pipeline.session import open_session
from cns_pipeline.storage import Storage
from cns_pipeline.tables.table import TableWriter
from lab.bench.pipeline.made_events import day, write_day, write_segment

START_MS = 20_000 * DAY_MS
WRITES = 58
FILES_PER_EVENT = 8
"""With five kinds of event, so many writes of so many files of each make 2,320 files."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Cost:
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.wall_s:.1f} s, {self.cpu_s:.1f} CPU s"


@contextmanager
def measured(spark: SparkSession) -> Iterator[Cost]:
    cost, wall_s, cpu_s = Cost(), time.monotonic(), _cpu_s(spark)
    yield cost
    cost.wall_s, cost.cpu_s = time.monotonic() - wall_s, _cpu_s(spark) - cpu_s


def main() -> None:
    parser = argparse.ArgumentParser(prog="lab.bench.pipeline.table")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--small", type=int, default=250_000)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--idle-s", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cns-table-") as scratch, open_session("bench") as spark:
        measure_ingest(spark, Path(scratch, "ingest"), options.events)
        measure_files(spark, Path(scratch, "files"), options.small)
        measure_idle(spark, Path(scratch, "idle"), options.segments, options.idle_s)


def measure_ingest(spark: SparkSession, directory: Path, events: int) -> None:
    """Two equal halves: the first warms Java up."""
    for part in ("cold", "warm"):
        size_bytes = write_day(directory / part, START_MS, events // 2, seed=len(part) + ord(part[0]))
        paths = PipelinePaths(directory / f"{part}-out")
        with measured(spark) as cost:
            ingest(spark, directory / part, paths)
        stored = sum([placed.part.size_bytes for placed in event_table(Storage(None), paths).read().parts()])
        print(
            f"ingest, {part}: {events // 2} events ({size_bytes >> 20} MiB of segments, {stored >> 20} MiB of table): "
            f"{cost}, {events / 2 / cost.cpu_s:,.0f} events a CPU second"
        )


def measure_files(spark: SparkSession, directory: Path, events: int) -> None:
    write_day(directory / "events", START_MS, events)
    whole = PipelinePaths(directory / "whole")
    ingest(spark, directory / "events", whole)
    paths = PipelinePaths(directory / "out")
    writer: TableWriter[Contents] = TableWriter(event_table(Storage(None), paths), Clock().real_ms, has_lock=True)
    all_rows = read_events(spark, whole)
    for number in range(WRITES):
        written = writer.new_directory()
        rows = all_rows.where(F.col("sequence") % WRITES == number).repartition(FILES_PER_EVENT)
        rows.write.partitionBy(DATE, EVENT).parquet(str(written))
        writer.add(written, Contents(spans=(Span("b", 1, events),), files=()))
    report(spark, paths, "warm-up")
    report(spark, paths, "small files")
    with measured(spark) as cost:
        done = compact(spark, writer)
    print(f"compaction: {events} events, {done.files_before} files to {done.files_after}: {cost}")
    report(spark, paths, "merged files")


def report(spark: SparkSession, paths: PipelinePaths, what: str) -> None:
    """Read the table as a report does: all events by topic and subscription."""
    with measured(spark) as cost:
        read_events(spark, paths).groupBy("topic", "subscription").agg(
            F.count("*"), F.sum("size_bytes"), F.percentile_approx("since_publish_ms", 0.99, 10_000)
        ).write.format("noop").mode("overwrite").save()
    files = sum([placed.part.files for placed in event_table(Storage(None), paths).read().parts()])
    print(f"a report over {files} files ({what}): {cost}")


def measure_idle(spark: SparkSession, directory: Path, segments: int, idle_s: float) -> None:
    """A follower that has read all segments and looks for new ones every 10 s."""
    events = directory / "events"
    made = list(day(START_MS, segments, Random(1)))
    for number in range(segments):
        write_segment(events, "b", number + 1, made[number : number + 1])
    paths = PipelinePaths(directory / "out")
    work = SegmentIngest(spark, located(events), paths, IngestOptions(files_per_batch=segments))
    begun = threading.Event()
    follower = Follower(work, 10.0, lambda _: begun.set())
    thread = threading.Thread(target=follower.run)
    thread.start()
    begun.wait()
    with measured(spark) as cost:
        threading.Event().wait(idle_s)
    follower.stop()
    thread.join()
    share = cost.cpu_s / cost.wall_s
    print(f"idle follower, {segments} segments, every 10 s: {share:.1%} of a core ({cost})")


def _cpu_s(spark: SparkSession) -> float:
    """CPU time of this process and of its Java process, in seconds."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    fields = Path(f"/proc/{gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S + time.process_time()


if __name__ == "__main__":
    main()
