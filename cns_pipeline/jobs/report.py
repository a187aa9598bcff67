"""`spark-submit cns_pipeline/jobs/report.py [--out DIR]`, and what `cns pipeline report` runs."""

from __future__ import annotations

from cns_pipeline.arguments import Arguments, main
from cns_pipeline.report import report
from cns_pipeline.session import open_session
from cns_pipeline.table import printed

TOP_ROWS = 40


def run(arguments: Arguments) -> str:
    """The table that is printed."""
    arguments.check_table()
    with open_session("cns-report") as spark:
        return printed(report(spark, arguments.places, TOP_ROWS))


if __name__ == "__main__":
    main(run)
