"""The tables of a report: the columns of their files, and their first rows for the document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F

from cns_pipeline.reports.document import Figures, Row, Table
from cns_pipeline.reports.files import ReportFiles
from cns_pipeline.reports.frames import BEFORE, PRESENT
from cns_pipeline.transforms.report.statements import BY_TARGET, OF_TOPICS, ROW, TABLE

ROWS_SHOWN = 200
"""The limit of rows of a table in the document."""
S = TypeVar("S")
_FIGURES = Figures.__struct_fields__
_KEYS = {
    "topics": {"name": "topic"},
    "accounts": {"name": "account"},
    "days": {"name": "day"},
    "hours": {"name": "start_ms"},
    "subscriptions": {"topic": "topic", "name": "subscription", "protocol": "protocol", "endpoint": "endpoint"},
    "endpoints": {"name": "endpoint", "protocol": "protocol"},
    "protocols": {"name": "protocol"},
}
"""The columns that name the rows of a table in its files, by the columns of the frame."""


@dataclass(slots=True)
class FigureRows:
    """All rows of a table of figures, most attempts first."""

    rows: list[SparkRow] = field(default_factory=list)

    def table(self) -> Table:
        shown = tuple([_row(row) for row in self.rows[:ROWS_SHOWN]])
        return Table(rows=shown, left_out=len(self.rows) - len(shown))


def collect_figures(figures: DataFrame) -> dict[str, FigureRows]:
    """Return all rows of every table, most attempts first."""
    tables = {table: FigureRows() for table in (*_KEYS, "totals")}
    for row in sorted(figures.collect(), key=_busiest_first):
        tables[row[TABLE]].rows.append(row)
    return tables


def _busiest_first(row: SparkRow) -> tuple[int, int, *tuple[str, ...]]:
    figures = row[PRESENT]
    return -figures["attempts"], -(figures["accepted"] or 0), *[row[name] for name in ROW[1:]]


def write_figures(files: ReportFiles, figures: DataFrame, tables: dict[str, FigureRows]) -> None:
    """Write each table as a CSV and a Parquet file."""
    for table, keys in _KEYS.items():
        names = [name for name in _FIGURES if table not in BY_TARGET or name not in OF_TOPICS]
        rows = [
            {keys[name]: row[name] for name in keys} | {name: row[PRESENT][name] for name in names}
            for row in tables[table].rows
        ]
        files.write_rows(table, [*keys.values(), *names], rows)
        own = figures.where(F.col(TABLE) == table)
        columns = [F.col(name).alias(column) for name, column in keys.items()]
        files.write_frame(table, own.select(*columns, *[F.col(f"{PRESENT}.{name}") for name in names]))


def figures_of(row: SparkRow | None) -> Figures | None:
    return None if row is None else msgspec.convert(row.asDict(), Figures)


def _row(row: SparkRow) -> Row:
    return Row(
        name=row["name"],
        topic=row["topic"],
        protocol=row["protocol"],
        endpoint=row["endpoint"],
        figures=figures_of(row[PRESENT]) or Figures(),
        before=figures_of(row[BEFORE]),
    )


def collect_rows(
    files: ReportFiles, table: str, frame: DataFrame, struct: type[S], shown: int = ROWS_SHOWN
) -> tuple[tuple[S, ...], int]:
    """Write a frame as both files, in its order. Returns its first rows and the number of others."""
    found = frame.collect()
    rows: list[dict[str, Any]] = [row.asDict() for row in found]
    files.write_rows(table, frame.columns, rows)
    files.write_frame(table, frame.sparkSession.createDataFrame(found, frame.schema, verifySchema=False))
    first = tuple([msgspec.convert(row, struct) for row in rows[:shown]])
    return first, len(rows) - len(first)
