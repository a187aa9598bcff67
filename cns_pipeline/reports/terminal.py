"""The report as text for a terminal: findings, figures, and the busiest endpoints, topics and subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as TextTable
from rich.text import Text

from cns_pipeline.reports.document import Figures, Report, Row, Table
from cns_pipeline.reports.findings.finding import ReportIssue
from cns_pipeline.reports.text import are, count, milliseconds, plain, share, short_arn, size

ROWS_MAX = 10
"""The limit of rows in each table; the page has more, the files have all."""
NAME_CHARS_MIN = 24
WIDTH_CHARS_MIN = 60


@dataclass(frozen=True, slots=True)
class _Column:
    """`width`: the least width of a terminal that shows the column."""

    title: str
    width: int
    text: Callable[[Figures], str]


def _number(value: int | None) -> str:
    return "–" if value is None else count(value)


_FIGURES = (
    _Column("accepted", 120, lambda one: _number(one.accepted)),
    _Column("attempts", 100, lambda one: count(one.attempts)),
    _Column("failed", 0, lambda one: count(one.attempts_failed)),
    _Column("delivered", 0, lambda one: count(one.delivered)),
    _Column("success", 0, lambda one: share(one.success_share)),
    _Column("dead-lettered", 120, lambda one: count(one.dead_lettered)),
    _Column("dropped", 120, lambda one: count(one.dropped)),
    _Column("filtered", 160, lambda one: _number(one.filtered)),
    _Column("not ended", 160, lambda one: _number(one.pending)),
    _Column("repeated", 160, lambda one: count(one.duplicates)),
    _Column("replayed", 160, lambda one: count(one.replayed)),
    _Column("p50", 100, lambda one: milliseconds(one.p50_ms)),
    _Column("p99", 0, lambda one: milliseconds(one.p99_ms)),
    _Column("max", 160, lambda one: milliseconds(one.max_ms)),
)
_TOTALS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("accepted", lambda one: _number(one.accepted)),
    ("delivered", lambda one: count(one.delivered)),
    ("of all that ended", lambda one: share(one.success_share)),
    ("failed attempts", lambda one: count(one.attempts_failed)),
    ("dead-lettered", lambda one: count(one.dead_lettered)),
    ("dropped", lambda one: count(one.dropped)),
    ("filtered", lambda one: _number(one.filtered)),
    ("not ended", lambda one: _number(one.pending)),
    ("repeated", lambda one: count(one.duplicates)),
    ("replayed", lambda one: count(one.replayed)),
    ("p50", lambda one: milliseconds(one.p50_ms)),
    ("p99", lambda one: milliseconds(one.p99_ms)),
    ("max", lambda one: milliseconds(one.max_ms)),
    ("sent", lambda one: size(one.delivered_bytes)),
)


def format_report(report: Report, findings: Sequence[ReportIssue] | None, width: int, *, wide: bool = False) -> str:
    """Format the report for a width in characters. Numbers are never cut; `wide` has all columns and whole ARNs.

    `findings` is None if only figures were computed, and no files were written.
    """
    rest = "in the files" if findings is not None else "left out"
    width = max(width, WIDTH_CHARS_MIN)
    parts: list[RenderableType] = [
        Text(f"{report.period}, UTC"),
        *([] if findings is None else _findings(report, findings)),
        _heading("Figures"),
        _totals(report),
        *_ranked("Endpoints", "endpoint", report.endpoints, width, rest, wide=wide),
        *_ranked("Topics", "topic", report.topics, width, rest, wide=wide),
        *_ranked("Subscriptions", "subscription", report.subscriptions, width, rest, wide=wide),
    ]
    written = StringIO()
    console = Console(file=written, width=width, color_system=None, highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(part)
    return "\n".join([line.rstrip() for line in written.getvalue().splitlines()])


def _heading(text: str) -> RenderableType:
    return Padding(Text(text), (1, 0, 0, 0))


def _findings(report: Report, findings: Sequence[ReportIssue]) -> list[RenderableType]:
    if not findings and report.first_ms is None:
        return [_heading("What went wrong: unknown, no event of this period was ingested")]
    if not findings:
        return [_heading("What went wrong: nothing that this report looks for")]
    table = TextTable(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for number, one in enumerate(findings, 1):
        table.add_row(Text(f"{number}."), Text(one.severity.name.lower()), Text(plain(str(one))))
    return [_heading("What went wrong"), table]


def _totals(report: Report) -> RenderableType:
    table = TextTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("now", justify="right")
    if report.before is not None:
        table.add_column("a week before", justify="right")
    for name, text in _TOTALS:
        table.add_row(name, text(report.totals), *([] if report.before is None else [text(report.before)]))
    return table


def _ranked(title: str, name: str, ranked: Table, width: int, rest: str, *, wide: bool) -> list[RenderableType]:
    if not ranked.rows:
        return []
    columns = [column for column in _FIGURES if wide or column.width <= width]
    table = TextTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(name, overflow="fold", min_width=NAME_CHARS_MIN)
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True)
    for row in ranked.rows[:ROWS_MAX]:
        table.add_row(Text(_name(row, wide=wide)), *[column.text(row.figures) for column in columns])
    left_out = ranked.left_out + len(ranked.rows) - len(ranked.rows[:ROWS_MAX])
    more = [Text(f"{count(left_out)} more {are(left_out)} {rest}")] if left_out else []
    return [_heading(title), table, *more]


def _name(row: Row, *, wide: bool) -> str:
    if wide:
        return plain(row.name)
    shown = short_arn(row.name)
    return plain(f"{shown} → {short_arn(row.endpoint)}" if row.endpoint else shown)
