"""The frame of a chart: its size, its title for screen readers, its axes, and spans of time that it marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from cns_common.durations import DAY_MS
from cns_pipeline.reports.page.markup import add, tag
from cns_pipeline.reports.page.scales import LinearScale, time_ticks
from cns_pipeline.reports.text import clock_time, day_of_month

WIDTH = 480.0
"""All charts are this wide in their own units, and are scaled to the column: text stays readable on a phone."""
LEFT = 58.0
RIGHT = 12.0
TIME_TICKS = 6
_TEXT_DOWN = 4.5
_LABEL_GAP = 6.0
_TICK_DOWN = 16.0

Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """A span of time that a chart marks, with the words that say why."""

    since_ms: int
    until_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class TimeAxis:
    since_ms: int
    until_ms: int

    @property
    def scale(self) -> LinearScale:
        return LinearScale(self.since_ms, self.until_ms, LEFT, WIDTH - RIGHT)

    def draw(self, svg: Element, y: float) -> None:
        """Draw the times below `y`. Midnight is named by its day."""
        for tick in time_ticks(self.since_ms, self.until_ms, TIME_TICKS):
            x = self.scale(tick)
            text = day_of_month(tick) if tick % DAY_MS == 0 else clock_time(tick)
            anchor = "end" if x > WIDTH - RIGHT - 14 else "middle"
            add(
                svg,
                tag("line", class_="tick", x1=x, x2=x, y1=y, y2=y + 4),
                tag("text", text, class_="label", x=x, y=y + _TICK_DOWN, text_anchor=anchor),
            )

    def mark(self, svg: Element, spans: Sequence[AxisSpan], top: float, bottom: float) -> None:
        """Shade spans behind what is drawn next, each at least two units wide."""
        for span in spans:
            start, end = self.scale(max(span.since_ms, self.since_ms)), self.scale(min(span.until_ms, self.until_ms))
            if end >= start:
                width = max(end - start, 2.0)
                add(
                    svg,
                    tag(
                        "rect",
                        tag("title", span.text),
                        class_="span",
                        x=start,
                        y=top,
                        width=width,
                        height=bottom - top,
                    ),
                )


def chart(title: str, description: str, height: float) -> Element:
    """An empty chart. Screen readers say its title and description instead of its shapes."""
    return tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        class_="chart",
        role="img",
        aria_label=f"{title}. {description}",
        viewBox=f"0 0 {WIDTH:g} {height:g}",
    )


def draw_value_axis(svg: Element, scale: Scale, ticks: Sequence[float], text: Callable[[float], str]) -> None:
    """Draw a line across the chart for each tick, with its value on the left."""
    for tick in ticks:
        y = scale(tick)
        add(
            svg,
            tag("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y),
            tag("text", text(tick), class_="label", x=LEFT - _LABEL_GAP, y=y + _TEXT_DOWN, text_anchor="end"),
        )
