"""`cns pipeline compact`: merges the files of each date, and removes old dates."""

from __future__ import annotations

from cns_common.clock import Clock
from cns_pipeline.arguments import Arguments, JobResult
from cns_pipeline.batches import Contents, event_table
from cns_pipeline.compaction import CompactionResult, compact
from cns_pipeline.locking import table_lock
from cns_pipeline.reports.text import counted
from cns_pipeline.retention import remove_old_dates
from cns_pipeline.session import open_job
from cns_pipeline.storage import Storage
from cns_pipeline.tables.table import TableWriter


def run(arguments: Arguments) -> JobResult:
    """Remove old dates, and merge the files of each other date."""
    arguments.check_table()
    clock = Clock()
    with table_lock(arguments), open_job("cns-compact", arguments) as spark:
        table = event_table(Storage(spark), arguments.paths)
        has_lock = arguments.paths.out.local is not None
        writer: TableWriter[Contents] = TableWriter(table, clock.real_ms, has_lock=has_lock)
        dates = remove_old_dates(writer, arguments.keep_days, clock.real_ms())
        return _result(arguments, dates, compact(spark, writer))


def _result(arguments: Arguments, dates: int, done: CompactionResult) -> JobResult:
    before = f"{counted(done.files_before, 'file')} of {counted(done.parts, 'part')}"
    lines = [f"{before} became {done.files_after:,} in {arguments.paths.table}"]
    if dates:
        lines.append(f"removed {counted(dates, 'date')} older than {counted(arguments.keep_days, 'day')}")
    facts = {
        "table": str(arguments.paths.table),
        "parts": done.parts,
        "filesBefore": done.files_before,
        "filesAfter": done.files_after,
        "datesRemoved": dates,
    }
    return JobResult("\n".join(lines), facts=facts)
