"""`spark-submit cns_pipeline/jobs/ingest.py [--events DIR] [--out DIR]`; `cns pipeline ingest` runs it too."""

from __future__ import annotations

from cns_common.data_directory import lock_directory
from cns_pipeline.arguments import LOCK, Arguments, main
from cns_pipeline.ingest import ingest
from cns_pipeline.report import FILES_NAMED
from cns_pipeline.session import open_job


def run(arguments: Arguments) -> str:
    """Run the job; return a line about its result."""
    arguments.check_events()
    lock_directory(arguments.paths.out, LOCK)  # two runs at once would write the same batch
    with open_job("cns-ingest", arguments.paths.out) as spark:
        ingested = ingest(spark, arguments.events, arguments.paths)
    lines = [f"{ingested.lines} new lines of {arguments.events} are in {arguments.paths.table}"]
    if ingested.malformed:
        lines.append(f"{ingested.malformed} of them are no events, and kept aside")
    if ingested.newer:
        lines.append(f"{ingested.newer} of them were written by a newer version, and kept aside: upgrade the pipeline")
    if ingested.files:
        lines.append(f"lines kept aside are of {', '.join(sorted(ingested.files)[:FILES_NAMED])}")
    return "\n".join(lines)


if __name__ == "__main__":
    main(run)
