"""The report's page: one file, whatever the texts of events say, readable in light and dark."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import msgspec
import pytest

from cns_common.charts.scales import (
    SPAN_TICKS,
    LinearScale,
    LogScale,
    round_ticks,
    span_ticks,
    time_ticks,
    whole_ticks,
)
from cns_common.durations import HOUR_MS
from cns_pipeline.audit.document import Audit
from cns_pipeline.health.document import Health
from cns_pipeline.period import END_MS
from cns_pipeline.reports.buckets import NOTHING
from cns_pipeline.reports.document import Report, Row, Table
from cns_pipeline.reports.findings.find import find
from cns_pipeline.reports.page.page import draw_page
from tests.pipeline.audit.sample_audit import SAMPLE_AUDIT
from tests.pipeline.health.sample_health import SAMPLE_HEALTH
from tests.pipeline.reports.sample_report import SAMPLE, START_MS, TOTALS

HOSTILE = "\"'></bdi></td></script><script>alert(1)</script><img src=//x onerror=alert(1)>&lt;b&#62;\u202e\x1b[2J"
KEYS = ("state", "kind", "measure", "day", "severity")
"""Their values choose what is drawn."""
CONTRAST_AA = 4.5
INK = ("ink", "muted", "link", "failed", "dropped", "delivered", "slow")
DRAWN = ("accepted", "delivered", "failed", "dropped", "p50", "p90", "p99", "slowest")
CONTRAST_SHAPES = 3.0


class Tags(HTMLParser):
    """Counts the elements of a page, and collects their attributes and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def filled(value: Any, text: str, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: filled(one, text, name) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [filled(one, text, key) for one in value]
    return text if isinstance(value, str) and key not in KEYS and value != "missing" else value


def page_of(report: Report, health: Health, audit: Audit = SAMPLE_AUDIT) -> str:
    return draw_page(report, find(report, health, audit), health, audit)


def test_texts_of_events_are_never_markup() -> None:
    attacked, calm = Tags(page_with(HOSTILE)), Tags(page_with(re.sub(r"[^a-z]", "x", HOSTILE)))
    assert attacked.counts == calm.counts
    assert attacked.counts["script"] == 1
    assert not [one for one in attacked.attributes if one[1].startswith("on") or one[1] == "style"]
    shown = "".join(attacked.text)
    assert "<script>alert(1)</script>" in shown
    assert not set("\u202e\x1b") & set(shown)


def page_with(text: str) -> str:
    """The page of the samples with `text` in place of every text."""
    return page_of(
        msgspec.convert(filled(msgspec.to_builtins(SAMPLE), text), Report),
        msgspec.convert(filled(msgspec.to_builtins(SAMPLE_HEALTH), text), Health),
        msgspec.convert(filled(msgspec.to_builtins(SAMPLE_AUDIT), text), Audit),
    )


def test_an_audit_and_a_report_without_an_end() -> None:
    page = page_of(SAMPLE, SAMPLE_HEALTH, msgspec.structs.replace(SAMPLE_AUDIT, since_ms=0, until_ms=END_MS))
    assert "Audited: all events" in page
    last = msgspec.structs.replace(SAMPLE.buckets[-1], start_ms=END_MS - HOUR_MS)
    draw_page(msgspec.structs.replace(SAMPLE, last_ms=END_MS - 1, buckets=(last,)), ())


def test_a_latency_without_neighbours_is_seen() -> None:
    """A line of one point has no length: its dot is drawn."""
    quiet = msgspec.structs.replace(SAMPLE.buckets[0], figures=NOTHING)
    busy = [one for one in SAMPLE.buckets if one.figures.p50_ms is not None]
    alone, pair = [
        draw_page(msgspec.structs.replace(SAMPLE, buckets=shown), ()) for shown in ((quiet, busy[0], quiet), busy[:2])
    ]
    assert alone.count(' alone"') == 4  # p50, p90, p99, max
    assert ' alone"' not in pair
    style = files("cns_pipeline.reports.page").joinpath("page.css").read_text()
    assert ".dot.alone { fill-opacity: 1; }" in style


def test_the_page_loads_nothing() -> None:
    page = Tags(page_of(SAMPLE, SAMPLE_HEALTH))
    assert [one for one in page.attributes if one[1] in ("src", "srcset", "data", "action", "xlink:href")] == []
    links = {value for _, name, value in page.attributes if name == "href"}
    assert all(link.startswith("#") or re.fullmatch(r"[a-z_]+\.csv", link) for link in links)
    (policy,) = [value for tag, name, value in page.attributes if (tag, name) == ("meta", "content") and "src" in value]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/]{43}='; script-src 'sha256-[\w+/]{43}='; "
        r"base-uri 'none'; form-action 'none'",
        policy,
    )
    anchors = {value for _, name, value in page.attributes if name == "id"}
    assert {link[1:] for link in links if link.startswith("#")} <= anchors


def test_every_chart_has_words() -> None:
    """A reader who sees no shapes gets a title, a description, and tables."""
    page = Tags(page_of(SAMPLE, SAMPLE_HEALTH))
    charts = page.counts["svg"]
    named = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    hidden = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-hidden")]
    assert charts == len(named) + len(hidden)
    assert all(named)
    assert page.counts["caption"] == page.counts["table"] > 10


def test_requests_that_nobody_counted_are_not_0() -> None:
    page = draw_page(SAMPLE, ())
    assert page.count("not counted") == 1
    assert '<td class="number" data-value="-1">–</td>' in page


def test_a_report_without_events() -> None:
    empty = Report(period=SAMPLE.period, made_at_ms=1, coverage=SAMPLE.coverage, totals=TOTALS)
    page = draw_page(empty, ())
    assert "Unknown: no event of this period was ingested." in page
    assert "no events" in page


def test_thousands_of_subscriptions_are_a_link_to_the_file() -> None:
    rows = SAMPLE.subscriptions.rows * 10
    many = msgspec.structs.replace(SAMPLE, subscriptions=Table(rows=rows, left_out=9_970))
    page = draw_page(many, ())
    assert "9,975 more rows: " in page
    assert '<a href="subscriptions.csv">' in page
    assert len(page) < 200_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_enough_contrast(scheme: str) -> None:
    style = files("cns_pipeline.reports.page").joinpath("page.css").read_text()
    light, dark = [dict(re.findall(r"--([\w]+): (#\w{6})", part)) for part in style.split("@media", 2)[:2]]
    colours = light if scheme == "light" else dark
    assert colours.keys() == light.keys()
    poor = [
        (name, ground)
        for names, least in ((INK, CONTRAST_AA), (DRAWN, CONTRAST_SHAPES))
        for name in names
        for ground in ("ground", "panel")
        if contrast(colours[name], colours[ground]) < least
    ]
    assert poor == []


def contrast(one: str, other: str) -> float:
    """By WCAG 2."""
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum([weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)])


def test_ticks_are_round() -> None:
    assert round_ticks(0, 4) == [0, 1]
    assert round_ticks(34, 4) == [0, 10, 20, 30, 40]
    assert round_ticks(0.3, 3) == pytest.approx([0, 0.1, 0.2, 0.3])
    assert whole_ticks(2, 4) == [0, 1, 2]
    assert whole_ticks(1, 4) == [0, 1]
    assert span_ticks(3, 1_200) == [1, 10, 100, 1_000, 10_000]
    assert span_ticks(10, 10) == [10, 100]
    assert [SPAN_TICKS[tick] for tick in span_ticks(30_000, 5 * HOUR_MS)] == ["10 s", "1 min", "10 min", "1 h", "6 h"]
    assert list(span_ticks(0.1, 10**15)) == list(SPAN_TICKS)
    day = time_ticks(START_MS + 1, START_MS + 24 * HOUR_MS, 6)
    assert [(tick - START_MS) // HOUR_MS for tick in day] == [6, 12, 18, 24]
    assert len(time_ticks(0, 5_000 * 24 * HOUR_MS, 6)) == 7


def test_scales_map_their_ends() -> None:
    linear, logarithm = LinearScale(0, 10, 100, 0), LogScale(1, 1_000, 0, 90)
    assert (linear(0), linear(10), linear(5)) == (100, 0, 50)
    assert (logarithm(0), logarithm(1), logarithm(1_000)) == (0, 0, 90)
    assert logarithm(10) == pytest.approx(30)


def test_rows_without_a_week_before_have_a_dash() -> None:
    row = Row(name="t", figures=TOTALS)
    page = draw_page(msgspec.structs.replace(SAMPLE, topics=Table(rows=(row,)), before=None), ())
    assert "nothing is known of the week before" in page
