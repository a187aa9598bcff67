"""The delivery report: a CSV file, a JSON file, and the rows that a person sees."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cns_pipeline.paths import PipelinePaths
from cns_pipeline.read import read_events
from cns_pipeline.schema import EVENT, FILE, MALFORMED, NEWER
from cns_pipeline.transforms.coverage import coverage
from cns_pipeline.transforms.deliveries import deliveries
from cns_pipeline.transforms.delivery_report import delivery_report
from cns_pipeline.transforms.publishes import publishes

CSV = "deliveries.csv"
JSON_LINES = "deliveries.jsonl"
FILES_NAMED = 5

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`top` are the first rows; the files have all. `unknown` counts the events that no segment has."""

    rows: int
    top: list[Row]
    events: int
    unknown: int
    malformed: int
    malformed_files: list[str]  # the first FILES_NAMED
    newer: int  # lines that a newer version of the service wrote
    files: tuple[Path, Path]


def report(spark: SparkSession, paths: PipelinePaths, top: int) -> Report:
    events = read_events(spark, paths.table)
    rows, first = _write(delivery_report(publishes(events), deliveries(events)), paths.reports, top)
    known = coverage(events).agg({"events": "sum", "unknown": "sum"}).first()
    assert known is not None  # an aggregate over all has one row
    malformed = events.where(F.col(EVENT) == MALFORMED)
    return Report(
        rows=rows,
        top=first,
        events=known["sum(events)"] or 0,
        unknown=known["sum(unknown)"] or 0,
        malformed=malformed.count(),
        malformed_files=[row[FILE] for row in malformed.select(FILE).distinct().orderBy(FILE).take(FILES_NAMED)],
        newer=events.where(F.col(EVENT) == NEWER).count(),
        files=(paths.reports / CSV, paths.reports / JSON_LINES),
    )


def _write(frame: DataFrame, directory: Path, top: int) -> tuple[int, list[Row]]:
    """Write both files row by row, to limit memory; return the number of rows and the top ones.

    Readers see complete files, old or new.
    """
    directory.mkdir(parents=True, exist_ok=True)
    table, lines = directory / f"{CSV}.new", directory / f"{JSON_LINES}.new"
    written, first = 0, []
    with table.open("w", newline="", encoding="utf-8") as csv_file, lines.open("wb") as json_file:
        writer = csv.DictWriter(csv_file, frame.columns)
        writer.writeheader()
        for row in frame.toLocalIterator():
            values = row.asDict()
            writer.writerow(values)
            json_file.write(msgspec.json.encode(values) + b"\n")
            written += 1
            if written <= top:
                first.append(values)
    table.replace(directory / CSV)
    lines.replace(directory / JSON_LINES)
    return written, first
