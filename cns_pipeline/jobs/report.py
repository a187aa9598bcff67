"""`cns pipeline report`: makes the report of a period."""

from __future__ import annotations

import shutil

from cns_common.clock import Clock
from cns_pipeline.arguments import Arguments, JobResult
from cns_pipeline.batches import removed_until_ms
from cns_pipeline.locking import directory_lock
from cns_pipeline.reports.files import directory_name, new_report
from cns_pipeline.reports.render import present
from cns_pipeline.reports.report import make_report, read_for_report
from cns_pipeline.session import open_job
from cns_pipeline.storage import Storage

LOCK = "report.lock"
TERMINAL = (120, 24)
"""The columns and lines if standard output is not a terminal."""


def run(arguments: Arguments, *, wide: bool = False) -> JobResult:
    """Write the report of the period. `wide`: show all columns and whole ARNs."""
    arguments.check_table()
    period = arguments.period
    with directory_lock(arguments.local, LOCK), open_job("cns-report", arguments) as spark:
        events = read_for_report(spark, arguments.paths, period)
        with new_report(Storage(spark), arguments.paths, period) as files:
            removed_ms = removed_until_ms(Storage(spark), arguments.paths)
            report = make_report(events, period, files, Clock().real_ms(), removed_ms)
            shown = present(spark, arguments.paths, events, report)
            files.write_page(shown.page)
    text = shown.text(shutil.get_terminal_size(TERMINAL).columns, wide=wide)
    directory = str(arguments.paths.reports / directory_name(period))
    return JobResult(
        f"{text}\n{directory} has the report: report.html, report.json, tables",
        facts={"directory": directory, "report": report},
    )
