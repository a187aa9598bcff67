"""The files of a report in a directory that is replaced atomically: no mix of two reports."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any

import msgspec
from pyspark.sql import DataFrame

from cns_common.durations import DAY_MS
from cns_pipeline.location import Location
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import Period
from cns_pipeline.reports.document import Report
from cns_pipeline.storage import Storage

DOCUMENT = "report.json"
PAGE = "report.html"
_NEW, _OLD = ".new-", ".old-"


def directory_name(period: Period) -> str:
    """`all`; `2026-11-22` for a day; `latest` for any other period, which the next report replaces."""
    if period.is_everything:
        return "all"
    is_day = period.span_ms == DAY_MS and period.since_ms % DAY_MS == 0
    return str(period).partition("T")[0] if is_day else "latest"


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """Writes the files into a new directory."""

    storage: Storage
    directory: Location

    def write_rows(self, table: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a CSV file. An empty cell is an unknown figure or an empty text."""
        text = StringIO(newline="")
        writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows([{name: _cell(row[name]) for name in columns} for row in rows])
        self.storage.write(self.directory / f"{table}.csv", text.getvalue().encode())

    def write_frame(self, table: str, frame: DataFrame) -> None:
        frame.coalesce(1).write.mode("overwrite").parquet(str(self.directory / f"{table}.parquet"))

    def write_document(self, report: Report) -> None:
        self.storage.write(self.directory / DOCUMENT, msgspec.json.format(msgspec.json.encode(report), indent=1))

    def write_page(self, page: str) -> None:
        self.storage.write(self.directory / PAGE, page.encode())


def _cell(value: object) -> object:
    """Keep a spreadsheet from reading an endpoint's text as a formula."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value


@contextmanager
def new_report(storage: Storage, paths: PipelinePaths, period: Period) -> Iterator[ReportFiles]:
    """Yield a new directory, which replaces that of the period if the block ends without an error.

    A job that dies between the two renames leaves none; the next report of the period restores the old one.
    """
    name = directory_name(period)
    place, new, old = paths.reports / name, paths.reports / f"{_NEW}{name}", paths.reports / f"{_OLD}{name}"
    if storage.exists(old) and not storage.exists(place):
        storage.rename(old, place)
    storage.delete(new)
    storage.make_directory(new)
    yield ReportFiles(storage, new)
    storage.sync(new)
    storage.delete(old)
    if storage.exists(place):
        storage.rename(place, old)
    storage.rename(new, place)
    storage.delete(old)
