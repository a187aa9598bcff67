"""`spark-submit cns_pipeline/jobs/ingest.py [--events DIR] [--out DIR]`, and what `cns pipeline ingest` runs."""

from __future__ import annotations

from cns_common.data_directory import lock_directory
from cns_pipeline.arguments import LOCK, Arguments, main
from cns_pipeline.ingest import ingest
from cns_pipeline.session import open_session


def run(arguments: Arguments) -> str:
    """What to tell the person who started it."""
    arguments.check_events()
    lock_directory(arguments.places.out, LOCK)  # two at once would both write the same batch
    with open_session("cns-ingest") as spark:
        lines = ingest(spark, arguments.events, arguments.places, arguments.retention_s)
    return f"{lines} new lines of {arguments.events} are in {arguments.places.table}"


if __name__ == "__main__":
    main(run)
