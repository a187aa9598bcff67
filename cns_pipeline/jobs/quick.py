"""`cns pipeline report --quick`: the figures of a report by DuckDB, in a second and without Java."""

from __future__ import annotations

import shutil

from cns_common.clock import Clock
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_pipeline.arguments import Arguments, JobResult
from cns_pipeline.quick.figures import known_members, quick_report
from cns_pipeline.reports.terminal import format_report


def run(arguments: Arguments, *, wide: bool = False) -> JobResult:
    """Compute the report, and write no files."""
    if arguments.paths.out.local is None:
        raise StartError(f"--quick reads local tables, not {arguments.paths.out}", EXIT_DATA_UNUSABLE)
    arguments.check_table()
    report = quick_report(arguments.paths, arguments.period, Clock().real_ms())
    facts = {"directory": None, "report": known_members(report)}
    if report.first_ms is None:
        return JobResult(f"{report.period}: no event of this period was ingested", facts=facts)
    text = format_report(report, None, shutil.get_terminal_size().columns, wide=wide)
    hint = "figures only: without --quick, the report has what went wrong, unknown events, and the files"
    return JobResult(f"{text}\n\n{hint}", facts=facts)
