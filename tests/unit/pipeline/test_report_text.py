"""The report on a terminal: it fits, cuts no number, and obeys nothing that an event says."""

from __future__ import annotations

import msgspec
import pytest

from cns_pipeline.reports.document import Figures, Report, Row, Table
from cns_pipeline.reports.findings.find import find
from cns_pipeline.reports.page.page import draw_page
from cns_pipeline.reports.terminal import format_report
from tests.pipeline.health.sample_health import SAMPLE_HEALTH
from tests.pipeline.reports.sample_report import SAMPLE, SHOP, TOPIC

FOUND = find(SAMPLE, SAMPLE_HEALTH)


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (20, ["failed", "delivered", "success", "p99"]),
        (80, ["failed", "delivered", "success", "p99"]),
        (120, ["accepted", "attempts", "failed", "delivered", "success", "dead-lettered", "dropped", "p50", "p99"]),
    ],
)
def test_a_narrow_terminal_has_fewer_columns(width: int, columns: list[str]) -> None:
    lines = format_report(SAMPLE, FOUND, width).splitlines()
    assert max([len(line) for line in lines]) <= max(width, 60)
    heads = [line.split() for line in lines if line.startswith(("endpoint ", "topic ", "subscription "))]
    assert heads == [[name, *columns] for name in ("endpoint", "topic", "subscription")]
    assert "1,750" in " ".join(lines)
    assert "…" not in "".join(lines)


def test_a_wide_table_has_all_columns_and_whole_arns() -> None:
    text = format_report(SAMPLE, FOUND, 220, wide=True)
    assert {TOPIC, SHOP} <= set(text.split())
    assert "replayed" in text
    assert SHOP not in format_report(SAMPLE, FOUND, 220)


def test_what_went_wrong_comes_first() -> None:
    lines = format_report(SAMPLE, FOUND, 200).splitlines()
    at = lines.index("What went wrong")
    assert lines[at + 1 : at + 11] == [
        f"{number:>2}. {one.severity.name.lower():<6} {one}" for number, one in enumerate(FOUND, 1)
    ]
    assert "What went wrong: nothing that this report looks for" in format_report(SAMPLE, (), 80)
    empty: Report = msgspec.structs.replace(SAMPLE, first_ms=None)
    assert "What went wrong: unknown, no event of this period was ingested" in format_report(empty, (), 80)
    assert "Unknown: no event of this period was ingested." in draw_page(empty, ())


def test_texts_of_events_are_neither_markup_nor_commands() -> None:
    hostile = "[red]x[/red] \x1b[2J\u202e :smile:"
    figures = Figures(attempts=1_234_567, delivered=1_234_567)
    report = msgspec.structs.replace(
        SAMPLE, endpoints=Table(rows=(Row(name=hostile, figures=figures),)), topics=Table(), subscriptions=Table()
    )
    text = format_report(report, (), 120)
    assert "[red]x[/red] \ufffd[2J\ufffd :smile:" in text
    assert "1,234,567" in text


def test_rows_that_are_left_out_are_counted() -> None:
    many = Table(rows=SAMPLE.topics.rows * 10, left_out=180)
    assert "190 more are in the files" in format_report(msgspec.structs.replace(SAMPLE, topics=many), (), 80)
    assert "190 more are left out" in format_report(msgspec.structs.replace(SAMPLE, topics=many), None, 80)


def test_a_report_without_a_week_before() -> None:
    report: Report = msgspec.structs.replace(SAMPLE, before=None)
    assert "a week before" not in format_report(report, (), 80)
