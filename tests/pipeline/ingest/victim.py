"""Ingests or compacts in a process of its own, which prints a line before each change of files, to be killed at one.

python -m tests.pipeline.ingest.victim ingest EVENTS OUT         a segment in each batch
python -m tests.pipeline.ingest.victim ingest-all EVENTS OUT     in batches of the usual size
python -m tests.pipeline.ingest.victim compact EVENTS OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from cns_common.clock import Clock
from cns_pipeline import compaction
from cns_pipeline.batches import event_table
from cns_pipeline.compaction import compact
from cns_pipeline.ingest import FILES_PER_BATCH, IngestOptions, SegmentIngest
from cns_pipeline.location import Location, located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.session import open_session
from cns_pipeline.storage import LocalFiles
from cns_pipeline.tables.table import TableWriter

FAN_IN = 3
"""Merges begin after three segments."""


class AnnouncingFiles(LocalFiles):
    """Prints a line before each change. `sync` is called between Spark's writing and the commit."""

    def write(self, file: Location, data: bytes) -> None:
        _announce()
        super().write(file, data)

    def delete(self, at: Location) -> None:
        _announce()
        super().delete(at)

    def sync(self, directory: Location) -> None:
        _announce()
        super().sync(directory)


def main(mode: str, events: Path, out: Path) -> None:
    compaction.FAN_IN = FAN_IN
    files, paths = AnnouncingFiles(), PipelinePaths(out)
    with open_session("victim") as spark:
        if mode == "compact":
            compact(spark, TableWriter(event_table(files, paths), Clock().real_ms, has_lock=True))
            return
        options = IngestOptions(files_per_batch=1 if mode == "ingest" else FILES_PER_BATCH)
        work = SegmentIngest(spark, located(events), paths, options, storage=files)

        def add(lines: DataFrame, _: int) -> None:
            work.add(lines)

        work.prepared_query().foreachBatch(add).trigger(availableNow=True).start().awaitTermination()


def _announce() -> None:
    print("step", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    print("ended", flush=True)
