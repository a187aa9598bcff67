"""`spark-submit workers/pipeline/jobs/ingest.py [--events DIR] [--out DIR]`, and what `cns pipeline ingest` runs."""

from __future__ import annotations

from common.directory import lock_directory
from workers.pipeline.arguments import LOCK, Arguments, main
from workers.pipeline.ingest import ingest
from workers.pipeline.session import open_session


def run(arguments: Arguments) -> str:
    """What to tell the person who started it."""
    arguments.check_events()
    lock_directory(arguments.places.out, LOCK)  # two at once would both write the same batch
    with open_session("cns-ingest") as spark:
        lines = ingest(spark, arguments.events, arguments.places, arguments.retention_s)
    return f"{lines} new lines of {arguments.events} are in {arguments.places.table}"


if __name__ == "__main__":
    main(run)
