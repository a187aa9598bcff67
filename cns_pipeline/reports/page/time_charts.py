"""Charts over time: bars of counts one below the other, lines of times on a logarithmic axis, and sparklines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.etree.ElementTree import Element

from cns_pipeline.reports.page.axes import LEFT, RIGHT, WIDTH, AxisSpan, TimeAxis, chart, draw_value_axis
from cns_pipeline.reports.page.markup import add, tag
from cns_pipeline.reports.page.scales import SPAN_TICKS, LinearScale, LogScale, span_ticks, whole_ticks
from cns_pipeline.reports.text import count, milliseconds, moment, rounded

_PANEL = 66.0
_PANEL_TITLE = 20.0
_AXIS = 24.0
_LINES_HEIGHT = 230.0
_LINES_TOP = 28.0
_BAR_GAP = 1.0
_SPARK_WIDTH, _SPARK_HEIGHT = 120.0, 22.0


@dataclass(frozen=True, slots=True)
class ChartBuckets:
    """The equal parts of the time that a chart shows."""

    starts_ms: tuple[int, ...]
    length_ms: int

    @property
    def axis(self) -> TimeAxis:
        return TimeAxis(self.starts_ms[0], self.starts_ms[-1] + self.length_ms)


@dataclass(frozen=True, slots=True)
class Series:
    """A value for each bucket; None where there is none. `style` is the class that the style sheet colours."""

    name: str
    style: str
    values: tuple[float | None, ...]


def bar_panels(title: str, buckets: ChartBuckets, panels: Sequence[Series], spans: Sequence[AxisSpan]) -> Element:
    """Bars of counts, a panel for each series, each with its own scale: a few failures are seen below many
    deliveries."""
    height = len(panels) * (_PANEL + _PANEL_TITLE) + _AXIS
    totals = ", ".join([f"{count(_total(one))} {one.name}" for one in panels])
    svg = chart(title, totals, height)
    buckets.axis.mark(svg, spans, _PANEL_TITLE / 2, height - _AXIS)
    for at, series in enumerate(panels):
        _draw_bars(svg, buckets, series, at * (_PANEL + _PANEL_TITLE) + _PANEL_TITLE)
    buckets.axis.draw(svg, height - _AXIS)
    return svg


def _draw_bars(svg: Element, buckets: ChartBuckets, series: Series, top: float) -> None:
    high = max([value or 0 for value in series.values])
    ticks = whole_ticks(int(high), 2)
    y = LinearScale(0, ticks[-1], top + _PANEL, top)
    x = buckets.axis.scale
    draw_value_axis(svg, y, [ticks[0], ticks[-1]], rounded)
    heading = f"{series.name}: {count(_total(series))}"
    add(svg, tag("text", heading, class_="heading", x=LEFT, y=top - 5))
    width = (WIDTH - LEFT - RIGHT) / len(buckets.starts_ms)
    for start_ms, value in zip(buckets.starts_ms, series.values, strict=True):
        if value:
            bar_top = min(y(value), y(0) - 1)
            words = f"{moment(start_ms)}: {count(int(value))} {series.name}"
            bar = tag(
                "rect",
                tag("title", words),
                class_=f"fill {series.style}",
                x=x(start_ms) + _BAR_GAP / 2,
                y=bar_top,
                width=max(width - _BAR_GAP, 0.5),
                height=y(0) - bar_top,
            )
            add(svg, bar)


def time_lines(title: str, buckets: ChartBuckets, lines: Sequence[Series], spans: Sequence[AxisSpan]) -> Element:
    """Lines of times in ms on a logarithmic axis; a bucket without a value interrupts its line."""
    known = [value for one in lines for value in one.values if value is not None]
    svg = chart(title, ", ".join([one.name for one in lines]) if known else "no deliveries", _LINES_HEIGHT)
    bottom = _LINES_HEIGHT - _AXIS
    if known:
        ticks = span_ticks(max(min(known), 1.0), max(*known, 10.0))
        y = LogScale(ticks[0], ticks[-1], bottom, _LINES_TOP)
        buckets.axis.mark(svg, spans, _LINES_TOP, bottom)
        draw_value_axis(svg, y, ticks, SPAN_TICKS.__getitem__)
        for at, one in enumerate(lines):
            _draw_line(svg, buckets, one, y)
            _draw_key(svg, one, at, len(lines))
    buckets.axis.draw(svg, bottom)
    return svg


def _draw_line(svg: Element, buckets: ChartBuckets, series: Series, y: LogScale) -> None:
    middle_ms = buckets.length_ms / 2
    x = buckets.axis.scale
    places = [
        (x(start_ms + middle_ms), value, start_ms)
        for start_ms, value in zip(buckets.starts_ms, series.values, strict=True)
    ]
    for there, part in groupby(places, key=lambda place: place[1] is not None):
        points = [(at, value, start_ms) for at, value, start_ms in part if value is not None]
        if there and points:
            path = " ".join([f"{at:.1f},{y(value):.1f}" for at, value, _ in points])
            add(svg, tag("polyline", class_=f"line {series.style}", points=path))
            alone = " alone" if len(points) == 1 else ""  # a line of one point is not seen
            for at, value, start_ms in points:
                words = f"{moment(start_ms)}: {series.name} {milliseconds(value)}"
                add(
                    svg,
                    tag(
                        "circle", tag("title", words), class_=f"dot {series.style}{alone}", cx=at, cy=y(value), r="2.2"
                    ),
                )


def _draw_key(svg: Element, series: Series, at: int, number: int) -> None:
    x = LEFT + at * (WIDTH - LEFT - RIGHT) / number
    add(
        svg,
        tag("line", class_=f"line {series.style}", x1=x, x2=x + 18, y1=12, y2=12),
        tag("text", series.name, class_="heading", x=x + 23, y=16),
    )


def sparkline(words: str, shares: Sequence[float | None]) -> Element:
    """Shares from 0 to 1 as bars from the bottom, without axes; a part without a value stays empty."""
    svg = tag(
        "svg",
        tag("title", words),
        class_="spark",
        role="img",
        aria_label=words,
        viewBox=f"0 0 {_SPARK_WIDTH:g} {_SPARK_HEIGHT:g}",
    )
    add(svg, tag("line", class_="grid", x1=0, x2=_SPARK_WIDTH, y1=_SPARK_HEIGHT - 0.5, y2=_SPARK_HEIGHT - 0.5))
    width = _SPARK_WIDTH / max(len(shares), 1)
    for at, share in enumerate(shares):
        if share:
            high = max(share * (_SPARK_HEIGHT - 1), 1.0)
            top = _SPARK_HEIGHT - high
            add(svg, tag("rect", class_="fill failed", x=at * width, y=top, width=max(width, 0.8), height=high))
    return svg


def _total(series: Series) -> int:
    return int(sum([value or 0 for value in series.values]))
