"""Computes the figures of a period in DuckDB, and makes a report document of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cns_backend.optional_dependencies import EXIT_EXTRA_MISSING, how_to_install
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_pipeline.batches import event_directories
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import EVERYTHING, WEEK_MS, Period
from cns_pipeline.reports.buckets import NOTHING
from cns_pipeline.reports.document import Coverage, Figures, Report, Row, Table
from cns_pipeline.storage import Storage
from cns_pipeline.transforms.report.statements import BY_TARGET, EVENTS, ROW, WEEK, needed_for

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NO_PROGRESS = "SET enable_progress_bar = false"
"""Without it, DuckDB prints a progress bar on standard output."""
MEMORY = "1GB"
THREADS = 2
ROWS_SHOWN = 200
_MACROS = (
    "CREATE MACRO named_struct(a, x, b, y) AS row(x, y), (a, x, b, y, c, z) AS row(x, y, z),"
    " (a, u, b, v, c, x, d, y, e, z) AS row(u, v, x, y, z)"
)
"""Macros for a function of Spark. Structs are only compared, so they need no field names."""
_COLUMNS = {
    name: kind
    for kind, names in {
        "BIGINT": "at_ms sequence attempt since_publish_ms size_bytes matched filtered subscriptions status sent"
        " received deleted moved_in moved_out visible in_flight delayed oldest_age_s requests errors request_bytes"
        " response_bytes",
        "VARCHAR": "boot message_id message_type topic account subscription endpoint protocol outcome part cause phase"
        " reason queue",
        "BOOLEAN": "replayed",
    }.items()
    for name in names.split()
}
"""The columns that the statements read. A column that the files of an earlier version lack is null."""
_NOT_ASKED = (
    *("buckets", "days", "queues", "retries", "latency", "failures", "dead_letters", "drops", "slowest"),
    *("recoveries", "usage"),
)
_NOT_COUNTED = ("unknown", "malformed", "newer", "malformed_files")
"""Members of the report and of its coverage that only Spark computes."""
_TABLES = ("topics", "accounts", *BY_TARGET)
_EVENT = "regexp_extract(filename, 'event=([^/]*)/', 1)"
"""The event name, from the path: Spark partitions the table by it."""

Key = tuple[str, str, str, str, str]
"""Table, name, topic, protocol, endpoint."""


def quick_report(paths: PipelinePaths, period: Period, made_at_ms: int) -> Report:
    """The report of the table of events, which must be local. Raises StartError."""
    before = period.earlier(WEEK_MS)
    spans = [period] if before is None else [before, period]
    return report_of_files(sorted({file for span in spans for file in _files(paths, span)}), period, made_at_ms)


def known_members(report: Report) -> dict[str, Any]:
    """The report as JSON. Members that were not computed are null: 0 or an empty list would mean that there is none."""
    members: dict[str, Any] = msgspec.to_builtins(report) | dict.fromkeys(_NOT_ASKED)
    members["coverage"] |= dict.fromkeys(_NOT_COUNTED)
    return members


def report_of_files(files: Sequence[str], period: Period, made_at_ms: int) -> Report:
    """Return a document with totals, topics, accounts, subscriptions, endpoints and protocols. Raises StartError."""
    duckdb = _import_duckdb()
    with duckdb.connect(config={"memory_limit": MEMORY, "threads": THREADS}) as connection:
        try:
            return _report(connection, files, period, made_at_ms)
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise StartError(f"cannot read the table: {reason}", EXIT_DATA_UNUSABLE) from error


def _files(paths: PipelinePaths, period: Period) -> list[str]:
    bounds = (None, None) if period == EVERYTHING else (period.since_ms, period.until_ms)
    directories = event_directories(Storage(None), paths, *bounds)
    return [str(file) for directory in directories for file in Path(directory).rglob("*.parquet")]


def _report(connection: DuckDBPyConnection, files: Sequence[str], period: Period, made_at_ms: int) -> Report:
    connection.execute(NO_PROGRESS)
    create_views(connection, files, period)
    figures: tuple[dict[Key, Figures], ...] = ({}, {})
    for row in query(connection, "figures"):
        figures[row[WEEK]][_key(row)] = msgspec.convert(row, Figures)
    rows = _rows(*figures)
    shown = {
        name: Table(rows=tuple(rows[name][:ROWS_SHOWN]), left_out=len(rows[name][ROWS_SHOWN:])) for name in _TABLES
    }
    totals = rows["totals"]
    events, first_ms, last_ms = _known(connection)
    return Report(
        period=period,
        made_at_ms=made_at_ms,
        first_ms=first_ms,
        last_ms=last_ms,
        coverage=Coverage(events=events),
        totals=totals[0].figures if totals else NOTHING,
        before=totals[0].before if totals else None,
        topics=shown["topics"],
        subscriptions=shown["subscriptions"],
        endpoints=shown["endpoints"],
        protocols=shown["protocols"],
        accounts=shown["accounts"],
    )


def query(connection: DuckDBPyConnection, name: str) -> list[dict[str, Any]]:
    """The rows of a statement of the report, with the statements that it reads."""
    parts = [
        f"{one.name} AS {'MATERIALIZED ' if one.is_kept else ''}({one.sql(_SameNames())})" for one in needed_for(name)
    ]
    found = connection.execute(f"WITH {', '.join(parts)} SELECT * FROM {name}")
    columns = [column[0] for column in found.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]


class _SameNames(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name


def create_views(connection: DuckDBPyConnection, files: Sequence[str], period: Period) -> None:
    """Create the view `events` with all columns, whatever columns the files have, once for each week."""
    connection.execute(_MACROS)
    columns = ", ".join([f"NULL::{kind} AS {name}" for name, kind in _COLUMNS.items()])
    source = f"(SELECT '' AS event, {columns} WHERE false)"
    if files:
        source = _source_of(connection, files)
    spans = [span for span in (period, period.earlier(WEEK_MS)) if span is not None]
    weeks = [
        f"SELECT *, {week} AS {WEEK} FROM {source} WHERE at_ms >= {span.since_ms} AND at_ms < {span.until_ms}"
        for week, span in enumerate(spans)
    ]
    connection.execute(f"CREATE VIEW {EVENTS} AS {' UNION ALL '.join(weeks)}")


def _source_of(connection: DuckDBPyConnection, files: Sequence[str]) -> str:
    listed = ", ".join(["'" + file.replace("'", "''") + "'" for file in files])
    source = f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false, filename = true)"
    present = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    columns = [name if name in present else f"NULL::{kind} AS {name}" for name, kind in _COLUMNS.items()]
    return f"(SELECT {_EVENT} AS event, {', '.join(columns)} FROM {source})"


def _known(connection: DuckDBPyConnection) -> tuple[int, int | None, int | None]:
    """The number of events of the period, and the times of the first and the last one."""
    found = connection.execute(
        f"SELECT count(*), min(at_ms), max(at_ms) FROM {EVENTS} WHERE sequence > 0 AND {WEEK} = 0"
    )
    ((events, first_ms, last_ms),) = found.fetchall()
    return events, first_ms, last_ms


def _key(row: dict[str, Any]) -> Key:
    table, name, topic, protocol, endpoint = [row[column] for column in ROW]
    return table, name, topic, protocol, endpoint


def _rows(present: dict[Key, Figures], before: dict[Key, Figures]) -> dict[str, list[Row]]:
    """The rows of each table, most attempts first. A row that has only figures of a week before has figures of 0."""
    rows: dict[str, list[Row]] = defaultdict(list)
    keys = present.keys() | before.keys()
    found = {key: present.get(key) or (Figures() if key[0] in BY_TARGET else NOTHING) for key in keys}
    for key in sorted(keys, key=lambda key: (-found[key].attempts, -(found[key].accepted or 0), key)):
        table, name, topic, protocol, endpoint = key
        row = Row(
            name=name, topic=topic, protocol=protocol, endpoint=endpoint, figures=found[key], before=before.get(key)
        )
        rows[table].append(row)
    return rows


def _import_duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise StartError(f"DuckDB is not installed: run {how_to_install('pipeline')}", EXIT_EXTRA_MISSING) from None
    return duckdb
