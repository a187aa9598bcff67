"""Traffic and latency over the period, as charts and as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2
from xml.etree.ElementTree import Element

from cns_common.charts.markup import tag
from cns_common.durations import HOUR_MS
from cns_pipeline.reports.document import Figures, LatencyBin, Report
from cns_pipeline.reports.page.bar_charts import Bin, Mark, histogram
from cns_pipeline.reports.page.tables import (
    arn,
    at,
    details,
    number,
    number_columns,
    numbers,
    section,
    span_ms,
    table,
    text_columns,
    words,
)
from cns_pipeline.reports.page.time_charts import ChartBuckets, Series, Span, bar_panels, time_lines
from cns_pipeline.reports.text import count, milliseconds


def buckets_of(report: Report) -> ChartBuckets | None:
    if not report.buckets:
        return None
    return ChartBuckets(tuple([one.start_ms for one in report.buckets]), report.buckets[0].span_ms)


def traffic_section(report: Report, spans: Sequence[Span]) -> Element:
    buckets = buckets_of(report)
    if buckets is None:
        return section("traffic", "Traffic", tag("p", "no events"))
    good = (
        _series(report, "messages accepted", "accepted", lambda one: one.accepted),
        _series(report, "notifications delivered", "delivered", lambda one: one.delivered),
    )
    bad = (
        _series(report, "failed attempts", "failed", lambda one: one.attempts_failed),
        _series(report, "given up (dead-lettered or dropped)", "dropped", lambda one: one.dead_lettered + one.dropped),
    )
    each = "hour" if buckets.length_ms == HOUR_MS else "day"
    return section(
        "traffic",
        "Traffic",
        tag("p", "Shaded: an endpoint was failing or slow.", class_="muted") if spans else None,
        tag(
            "div",
            tag("figure", bar_panels(f"Traffic per {each}", buckets, good, spans)),
            tag("figure", bar_panels(f"Failures per {each}", buckets, bad, spans)),
            class_="charts",
        ),
        details("Traffic as a table", _traffic_table(report)),
    )


def latency_section(report: Report, spans: Sequence[Span]) -> Element:
    buckets = buckets_of(report)
    figures = []
    if buckets is not None:
        lines = (
            _series(report, "p50", "p50", lambda one: one.p50_ms),
            _series(report, "p90", "p90", lambda one: one.p90_ms),
            _series(report, "p99", "p99", lambda one: one.p99_ms),
            _series(report, "max", "slowest", lambda one: one.max_ms),
        )
        title = "Time from publish to delivery"
        figures.append(tag("figure", time_lines(title, buckets, lines, spans), tag("figcaption", title)))
    if report.latency:
        title = "Deliveries by their time from publish"
        figures.append(tag("figure", _latency_histogram(title, report), tag("figcaption", title)))
    return section(
        "latency",
        "Latency",
        tag("p", "From publish to the first delivery; replays are left out.", class_="muted"),
        tag("div", *figures, class_="charts"),
        details("Latency as a table", _latency_table(report)) if buckets else None,
        _slowest(report),
    )


def _series(report: Report, name: str, style: str, value: Callable[[Figures], int | None]) -> Series:
    return Series(name, style, tuple([value(bucket.figures) for bucket in report.buckets]))


def _latency_histogram(title: str, report: Report) -> Element:
    bins = [
        Bin(milliseconds(one.from_ms), f"{milliseconds(one.from_ms)} to {milliseconds(one.to_ms)}", one.deliveries)
        for one in report.latency
    ]
    percentiles = (("p50", report.totals.p50_ms), ("p99", report.totals.p99_ms))
    marks = [
        Mark(_place(report.latency, value_ms), f"{name} {milliseconds(value_ms)}")
        for name, value_ms in percentiles
        if value_ms is not None
    ]
    return histogram(title, bins, marks)


def _place(bins: Sequence[LatencyBin], value_ms: float) -> float:
    """The position of a time, in bins that double."""
    for place, one in enumerate(bins):
        if value_ms < one.to_ms:
            low = max(one.from_ms, 0.5)
            return place + log2(max(value_ms, low) / low) / log2(one.to_ms / low)
    return len(bins)


def _traffic_table(report: Report) -> Element:
    columns = (
        *text_columns("from (UTC)"),
        *number_columns("accepted", "matched", "filtered", "attempts", "failed", "delivered", "dead-lettered"),
        *number_columns("dropped", "duplicates"),
    )
    rows = []
    for bucket in report.buckets:
        one = bucket.figures
        published = numbers(one.accepted, one.matched, one.filtered)
        attempted = numbers(one.attempts, one.attempts_failed, one.delivered)
        others = numbers(one.dead_lettered, one.dropped, one.duplicates)
        rows.append((at(bucket.start_ms), *published, *attempted, *others))
    return table("Traffic", columns, rows)


def _latency_table(report: Report) -> Element:
    columns = (*text_columns("from (UTC)"), *number_columns("delivered", "p50", "p90", "p99", "p99.9", "max"))
    rows = []
    for bucket in report.buckets:
        one = bucket.figures
        times_ms = (one.p50_ms, one.p90_ms, one.p99_ms, one.p999_ms, one.max_ms)
        rows.append((at(bucket.start_ms), number(one.delivered), *[span_ms(value) for value in times_ms]))
    return table("Latency", columns, rows)


def _slowest(report: Report) -> Element | None:
    if not report.slowest:
        return None
    columns = (
        *text_columns("message", "subscription"),
        *number_columns("from publish", "attempts"),
        *text_columns("delivered"),
    )
    rows = [
        (
            words(one.message_id),
            arn(one.subscription),
            span_ms(one.since_publish_ms),
            number(one.attempts),
            at(one.at_ms),
        )
        for one in report.slowest
    ]
    return details(f"Slowest deliveries ({count(len(rows))})", table("The slowest deliveries", columns, rows))
