"""The top of the page: the findings, and the figures of the period beside those of the week before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from cns_common.charts.markup import tag
from cns_pipeline.reports.document import Figures, Report
from cns_pipeline.reports.findings.finding import ReportIssue, Severity
from cns_pipeline.reports.page.tables import foreign, section
from cns_pipeline.reports.text import count, milliseconds, moment, share, size, times

_LABELS = {
    Severity.LOST: "lost",
    Severity.FAILED: "failed",
    Severity.SLOW: "slow",
    Severity.REPEATED: "repeated",
    Severity.UNSURE: "unsure",
}
_UNCHANGED = 0.005
"""A smaller relative change is shown as none."""
_LARGE = 3.0


def header(report: Report) -> Element:
    seen = "no events" if report.first_ms is None or report.last_ms is None else _seen(report.first_ms, report.last_ms)
    return tag(
        "header",
        tag("h1", "Delivery report"),
        tag("p", f"{report.period}; {seen}. Times are UTC. Made {moment(report.made_at_ms)}.", class_="muted"),
    )


def findings_section(report: Report, findings: Sequence[ReportIssue]) -> Element:
    if not findings and report.first_ms is None:
        content = tag("p", "Unknown: no event of this period was ingested.")
    elif not findings:
        content = tag("p", "Nothing that this report looks for.", class_="fine")
    else:
        content = tag("ol", *[_finding(one) for one in findings], class_="findings")
    return section("findings", "What went wrong", content)


def figures_section(report: Report) -> Element:
    now, before = report.totals, report.before
    compared = "compared with the same span a week before" if before else "nothing is known of the week before"
    return section(
        "figures",
        "Figures",
        tag("p", compared, class_="muted"),
        tag("dl", *[_tile(one, now, before) for one in _TILES], class_="tiles"),
    )


@dataclass(frozen=True, slots=True)
class _Tile:
    name: str
    value: Callable[[Figures], float | None]
    text: Callable[[float], str]
    more_is: str  # good, bad, or neither


def _whole(number: float) -> str:
    return count(int(number))


_TILES = (
    _Tile("messages accepted", lambda one: one.accepted, _whole, "neither"),
    _Tile("notifications delivered", lambda one: one.delivered, _whole, "neither"),
    _Tile("delivered of all that ended", lambda one: one.success_share, share, "good"),
    _Tile("attempts that failed", lambda one: one.attempts_failed, _whole, "bad"),
    _Tile("dead-lettered", lambda one: one.dead_lettered, _whole, "bad"),
    _Tile("dropped", lambda one: one.dropped, _whole, "bad"),
    _Tile("filtered by policies", lambda one: one.filtered, _whole, "neither"),
    _Tile("not ended", lambda one: one.pending, _whole, "bad"),
    _Tile("delivered twice or more", lambda one: one.duplicates, _whole, "bad"),
    _Tile("delivered by replays", lambda one: one.replayed, _whole, "neither"),
    _Tile("p50 from publish", lambda one: one.p50_ms, milliseconds, "bad"),
    _Tile("p90", lambda one: one.p90_ms, milliseconds, "bad"),
    _Tile("p99", lambda one: one.p99_ms, milliseconds, "bad"),
    _Tile("p99.9", lambda one: one.p999_ms, milliseconds, "bad"),
    _Tile("slowest", lambda one: one.max_ms, milliseconds, "bad"),
    _Tile("sent to endpoints", lambda one: one.delivered_bytes, size, "neither"),
)


def _tile(tile: _Tile, now: Figures, before: Figures | None) -> Element:
    value = tile.value(now)
    was = None if before is None else tile.value(before)
    return tag(
        "div",
        tag("dt", tile.name),
        tag("dd", "–" if value is None else tile.text(value), class_="value"),
        None if value is None or was is None else _trend(tile, value, was),
    )


def _trend(tile: _Tile, value: float, was: float) -> Element:
    """An arrow and a percentage. The colour adds no information."""
    change = (value - was) / was if was else (1.0 if value else 0.0)
    if abs(change) < _UNCHANGED:
        return tag("dd", f"= {tile.text(was)}", class_="trend")
    good = (change > 0) == (tile.more_is == "good")
    style = "trend" if tile.more_is == "neither" else f"trend {'better' if good else 'worse'}"
    arrow, percent = ("▲", "+") if change > 0 else ("▼", "−")
    by = _by(percent, change) if was else "new"
    return tag("dd", f"{arrow} {by}, ", tag("small", f"was {tile.text(was)}"), class_=style)


def _by(sign: str, change: float) -> str:
    """A change in percent, or as a ratio if it is large."""
    return times(1 + change) if change >= _LARGE else f"{sign}{abs(change):.0%}"


def _finding(finding: ReportIssue) -> Element:
    label = _LABELS[finding.severity]
    return tag(
        "li",
        tag("span", label, class_=f"label-{label}"),
        " ",
        tag("strong", foreign(finding.subject)),
        " ",
        foreign(finding.text),
        " ",
        tag("a", "details", href=f"#{finding.section}"),
    )


def _seen(first_ms: int, last_ms: int) -> str:
    return f"events from {moment(first_ms)} to {moment(last_ms)}"
