"""`spark-submit workers/pipeline/jobs/report.py [--out DIR]`, and what `cns pipeline report` runs."""

from __future__ import annotations

from workers.pipeline.arguments import Arguments, main
from workers.pipeline.printed import printed
from workers.pipeline.report import report
from workers.pipeline.session import open_session

TOP_ROWS = 40


def run(arguments: Arguments) -> str:
    """The table that is printed."""
    arguments.check_table()
    with open_session("cns-report") as spark:
        return printed(report(spark, arguments.places, TOP_ROWS))


if __name__ == "__main__":
    main(run)
