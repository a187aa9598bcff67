"""The delivery report as text for a terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.table import Table

from cns_pipeline.report import Report, Row

WIDTH_CHARS = 160
_COLUMNS = (
    ("topic", "topic"),
    ("subscription", "subscription"),
    ("accepted", "accepted"),
    ("attempts", "attempts"),
    ("attempts_failed", "failed"),
    ("delivered", "delivered"),
    ("dead_lettered", "dead-lettered"),
    ("dropped", "dropped"),
    ("fanouts_dropped", "fan-outs dropped"),
    ("replayed", "replayed"),
    ("success_share", "success"),
    ("p50_ms", "p50 ms"),
    ("p99_ms", "p99 ms"),
)


def format_report(report: Report) -> str:
    table = Table(box=None, pad_edge=False)
    for name, title in _COLUMNS:
        table.add_column(title, justify="left" if name in ("topic", "subscription") else "right", overflow="fold")
    for row in report.top:
        table.add_row(*[_cell(row, name) for name, _ in _COLUMNS])
    text = StringIO()
    console = Console(file=text, width=WIDTH_CHARS)
    console.print(table)
    left_out = report.rows - len(report.top)
    more = f"; {left_out} more rows are in the files" if left_out else ""
    lines = (
        f"{report.events} events, {report.unknown} unknown (never written, or removed before they were ingested), "
        f"{report.malformed} malformed lines kept aside{more}",
        *([f"malformed lines are in {', '.join(report.malformed_files)}"] if report.malformed else []),
        *([f"{report.newer} lines were written by a newer version: kept aside"] if report.newer else []),
        *[str(path) for path in report.files],
    )
    return text.getvalue() + "\n".join(lines)


def _cell(row: Row, name: str) -> str:
    value = row[name]
    if value is None:
        return "–"
    if name == "success_share":
        return f"{value:.2%}"
    return str(value).rpartition(":")[2] if name in ("topic", "subscription") else str(value)
