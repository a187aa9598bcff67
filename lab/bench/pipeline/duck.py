"""The same work by DuckDB: what a program of one machine does without Spark's fixed cost."""

from __future__ import annotations

from pathlib import Path

import duckdb

from cns_pipeline.arguments import Arguments
from cns_pipeline.jobs import quick
from cns_pipeline.quick.figures import NO_PROGRESS

THREADS = 2


def ingest(events: Path, table: Path) -> None:
    """Parse all segments into Parquet files by date and event; without what makes each event be there once."""
    table.mkdir()
    with duckdb.connect(config={"threads": THREADS}) as connection:
        connection.execute(NO_PROGRESS)
        connection.execute(
            "COPY (SELECT *, CAST(to_timestamp(at_ms / 1000) AS DATE) AS date"
            " FROM read_json($events, format = 'newline_delimited', union_by_name = true))"
            f" TO '{table}' (FORMAT parquet, PARTITION_BY (date, event))",
            {"events": f"{events}/*/*/*.jsonl"},
        )


def report(arguments: Arguments) -> str:
    return quick.run(arguments).text
