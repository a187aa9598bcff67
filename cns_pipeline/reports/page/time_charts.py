"""Charts over time: bars of counts in panels, and lines of durations on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.etree.ElementTree import Element

from cns_common.charts.markup import add, tag
from cns_common.charts.scales import SPAN_TICKS, LinearScale, LogScale, span_ticks, time_ticks, whole_ticks
from cns_common.charts.shapes import LEFT, RIGHT, WIDTH, bar, box, chart, curve, line, text, value_axis
from cns_common.durations import DAY_MS
from cns_pipeline.reports.text import clock_time, count, day_of_month, milliseconds, moment, rounded

_PANEL = 66.0
_PANEL_TITLE = 20.0
_AXIS = 24.0
_LINES_HEIGHT = 230.0
_LINES_TOP = 28.0
_TIME_TICKS = 6


@dataclass(frozen=True, slots=True)
class Span:
    """A period that a chart marks, and the words for it."""

    since_ms: int
    until_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class ChartBuckets:
    """The buckets of a chart, which are its horizontal axis."""

    starts_ms: tuple[int, ...]
    length_ms: int

    @property
    def until_ms(self) -> int:
        return self.starts_ms[-1] + self.length_ms

    @property
    def scale(self) -> LinearScale:
        return LinearScale(self.starts_ms[0], self.until_ms, LEFT, WIDTH - RIGHT)

    def draw(self, svg: Element, y: float) -> None:
        """Draw the times below `y`. Midnight is labelled with the day."""
        for tick in time_ticks(self.starts_ms[0], self.until_ms, _TIME_TICKS):
            x = self.scale(tick)
            name = day_of_month(tick) if tick % DAY_MS == 0 else clock_time(tick)
            line(svg, "tick", (x, y), (x, y + 4))
            text(svg, "label", (x, y + 16), name, "end" if x > WIDTH - RIGHT - 14 else "middle")

    def mark(self, svg: Element, spans: Sequence[Span], top: float, bottom: float) -> None:
        """Shade spans behind what is drawn later, each at least two units wide."""
        for span in spans:
            start = self.scale(max(span.since_ms, self.starts_ms[0]))
            end = self.scale(min(span.until_ms, self.until_ms))
            if end >= start:
                box(svg, "span", (start, top), (max(end - start, 2.0), bottom - top), span.text)


@dataclass(frozen=True, slots=True)
class Series:
    """A value for each bucket, or None. `style` is the CSS class."""

    name: str
    style: str
    values: tuple[float | None, ...]

    @property
    def sum(self) -> int:
        return int(sum([value or 0 for value in self.values]))


def bar_panels(title: str, buckets: ChartBuckets, panels: Sequence[Series], spans: Sequence[Span]) -> Element:
    """Bars of counts in a panel per series, each with its own scale, so that few failures are visible below many
    deliveries."""
    height = len(panels) * (_PANEL + _PANEL_TITLE) + _AXIS
    svg = chart(title, ", ".join([f"{count(one.sum)} {one.name}" for one in panels]), height)
    buckets.mark(svg, spans, _PANEL_TITLE / 2, height - _AXIS)
    for at, series in enumerate(panels):
        _draw_bars(svg, buckets, series, at * (_PANEL + _PANEL_TITLE) + _PANEL_TITLE)
    buckets.draw(svg, height - _AXIS)
    return svg


def _draw_bars(svg: Element, buckets: ChartBuckets, series: Series, top: float) -> None:
    high = whole_ticks(int(max([value or 0 for value in series.values])), 2)[-1]
    y = LinearScale(0, high, top + _PANEL, top)
    value_axis(svg, y, [0, high], rounded)
    text(svg, "heading", (LEFT, top - 5), f"{series.name}: {count(series.sum)}")
    width = (WIDTH - LEFT - RIGHT) / len(buckets.starts_ms)
    for start_ms, value in zip(buckets.starts_ms, series.values, strict=True):
        if value:
            words = f"{moment(start_ms)}: {count(int(value))} {series.name}"
            bar(svg, series.style, buckets.scale(start_ms), width, y, value, words)


def time_lines(title: str, buckets: ChartBuckets, lines: Sequence[Series], spans: Sequence[Span]) -> Element:
    """Lines of durations in ms on a logarithmic axis. A bucket without a value interrupts its line."""
    known = [value for one in lines for value in one.values if value is not None]
    svg = chart(title, ", ".join([one.name for one in lines]) if known else "no deliveries", _LINES_HEIGHT)
    bottom = _LINES_HEIGHT - _AXIS
    if known:
        ticks = span_ticks(max(min(known), 1.0), max(*known, 10.0))
        y = LogScale(ticks[0], ticks[-1], bottom, _LINES_TOP)
        buckets.mark(svg, spans, _LINES_TOP, bottom)
        value_axis(svg, y, ticks, SPAN_TICKS.__getitem__)
        for at, one in enumerate(lines):
            _draw_line(svg, buckets, one, y)
            key_x = LEFT + at * (WIDTH - LEFT - RIGHT) / len(lines)
            line(svg, f"line {one.style}", (key_x, 12), (key_x + 18, 12))
            text(svg, "heading", (key_x + 23, 16), one.name)
    buckets.draw(svg, bottom)
    return svg


def _draw_line(svg: Element, buckets: ChartBuckets, series: Series, y: LogScale) -> None:
    places = list(zip(buckets.starts_ms, series.values, strict=True))
    for there, part in groupby(places, key=lambda place: place[1] is not None):
        if not there:
            continue
        known = [(start_ms, value) for start_ms, value in part if value is not None]
        points = [(buckets.scale(start_ms + buckets.length_ms / 2), y(value)) for start_ms, value in known]
        curve(svg, f"line {series.style}", points)
        style = f"dot {series.style}" + (" alone" if len(points) == 1 else "")  # a line of one point is invisible
        for (x, height), (start_ms, value) in zip(points, known, strict=True):
            words = tag("title", f"{moment(start_ms)}: {series.name} {milliseconds(value)}")
            add(svg, tag("circle", words, class_=style, cx=x, cy=height, r="2.2"))
