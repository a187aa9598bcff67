"""`spark-submit cns_pipeline/jobs/ingest.py [--events DIR] [--out DIR]`; `cns pipeline ingest` runs it too."""

from __future__ import annotations

from cns_common.data_directory import lock_directory
from cns_pipeline.arguments import LOCK, Arguments, main
from cns_pipeline.ingest import ingest
from cns_pipeline.session import open_session


def run(arguments: Arguments) -> str:
    """Run the job; return a line about its result."""
    arguments.check_events()
    lock_directory(arguments.paths.out, LOCK)  # two runs at once would write the same batch
    with open_session("cns-ingest") as spark:
        lines = ingest(spark, arguments.events, arguments.paths, arguments.retention_s)
    return f"{lines} new lines of {arguments.events} are in {arguments.paths.table}"


if __name__ == "__main__":
    main(run)
