"""`cns pipeline ingest`: reads new events into the table."""

from __future__ import annotations

import sys
from collections.abc import Callable

from cns_common.clock import Clock
from cns_pipeline.arguments import Arguments, JobResult
from cns_pipeline.batches import event_table
from cns_pipeline.checkpoint import Checkpoint
from cns_pipeline.follow import Follower, stopped_by_signals
from cns_pipeline.ingest import IngestOptions, IngestResult, SegmentIngest, ingest
from cns_pipeline.locking import table_lock
from cns_pipeline.reports.text import are, counted
from cns_pipeline.retention import remove_old_dates
from cns_pipeline.segments import sealed_segments
from cns_pipeline.session import open_job
from cns_pipeline.storage import Storage
from cns_pipeline.tables.table import TableWriter

FILES_NAMED = 5


def run(arguments: Arguments) -> JobResult:
    """Ingest the new segments."""
    arguments.check_events()
    with table_lock(arguments):
        if _has_all(arguments):
            return _maintained(arguments)
        with open_job("cns-ingest", arguments) as spark:
            return _result(arguments, ingest(spark, arguments.events, arguments.paths, options=_options(arguments)))


def follow(arguments: Arguments, every_s: float, tell: Callable[[str], None] | None = None) -> JobResult:
    """Ingest segments as they are sealed, until SIGTERM or SIGINT. `tell` gets a line for each batch; default: print
    it."""
    arguments.check_events()
    with table_lock(arguments), open_job("cns-ingest", arguments) as spark:
        segments = SegmentIngest(spark, arguments.events, arguments.paths, _options(arguments))
        follower = Follower(segments, every_s, tell or _say)
        with stopped_by_signals(follower.stop):
            return _result(arguments, follower.run())


def _options(arguments: Arguments) -> IngestOptions:
    return IngestOptions(keep_days=arguments.keep_days, has_lock=arguments.paths.out.local is not None)


def _has_all(arguments: Arguments) -> bool:
    """Whether all segments are ingested, as far as it can be seen without Spark, which takes seconds to start."""
    if arguments.paths.out.scheme or arguments.events.local is None:
        return False
    checkpoint = Checkpoint(Storage(None), arguments.paths)
    known = checkpoint.is_of(arguments.events) and checkpoint.is_ended()
    return known and sealed_segments(arguments.events.local) <= checkpoint.segments()


def _maintained(arguments: Arguments) -> JobResult:
    """Delete files that are due, when there are no new events."""
    now_ms = Clock().real_ms
    writer = TableWriter(event_table(Storage(None), arguments.paths), now_ms, has_lock=True)
    remove_old_dates(writer, arguments.keep_days, now_ms())
    return _result(arguments, IngestResult())


def _result(arguments: Arguments, ingested: IngestResult) -> JobResult:
    new = counted(ingested.lines, "new line")
    lines = [f"{new} of {arguments.events} {are(ingested.lines)} in {arguments.paths.table}"]
    if ingested.malformed:
        lines.append(f"{ingested.malformed:,} of them {are(ingested.malformed)} not of an event, and kept aside")
    if ingested.newer:
        newer = f"{ingested.newer:,} of them {are(ingested.newer)} of a newer version of the service"
        lines.append(f"{newer}, and kept aside: upgrade the pipeline")
    if ingested.files:
        lines.append(f"lines kept aside are of {', '.join(sorted(ingested.files)[:FILES_NAMED])}")
    facts = {
        "events": str(arguments.events),
        "table": str(arguments.paths.table),
        "lines": ingested.lines,
        "malformed": ingested.malformed,
        "newer": ingested.newer,
        "filesWithLinesAside": sorted(ingested.files),
    }
    return JobResult("\n".join(lines), facts=facts)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
