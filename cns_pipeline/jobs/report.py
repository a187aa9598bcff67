"""`spark-submit cns_pipeline/jobs/report.py [--out DIR]`; `cns pipeline report` runs it too."""

from __future__ import annotations

from cns_pipeline.arguments import Arguments, main
from cns_pipeline.report import report
from cns_pipeline.session import open_job
from cns_pipeline.table import format_report

TOP_ROWS = 40


def run(arguments: Arguments) -> str:
    """Run the job; return the table to print."""
    arguments.check_table()
    with open_job("cns-report", arguments.paths.out) as spark:
        return format_report(report(spark, arguments.paths, TOP_ROWS))


if __name__ == "__main__":
    main(run)
