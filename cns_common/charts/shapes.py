"""The shapes of charts, appended to an SVG element in their order; classes of the style sheet colour them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element

from cns_common.charts.markup import add, tag

WIDTH = 480.0
"""A chart with axes is this wide in its own units, and is scaled to the column: text stays readable on a phone."""
LEFT = 58.0
RIGHT = 12.0
BAR_GAP = 1.0
_TEXT_DOWN = 4.5
_LABEL_GAP = 6.0

Scale = Callable[[float], float]


def chart(title: str, description: str, height: float) -> Element:
    """An empty chart. Screen readers say its title and description instead of its shapes."""
    svg = image(f"{title}. {description}", "chart", WIDTH, height)
    add(svg, tag("title", title), tag("desc", description))
    return svg


def image(words: str, style: str | None, width: float, height: float) -> Element:
    """An empty image; `words` say what it shows."""
    return tag("svg", class_=style, role="img", aria_label=words, viewBox=f"0 0 {width:g} {height:g}")


def line(svg: Element, style: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    add(svg, tag("line", class_=style, x1=start[0], x2=end[0], y1=start[1], y2=end[1]))


def curve(svg: Element, style: str | None, points: Sequence[tuple[float, float]], **attributes: str) -> None:
    path = " ".join([f"{x:.1f},{y:.1f}" for x, y in points])
    add(svg, tag("polyline", class_=style, points=path, **attributes))


def box(svg: Element, style: str, place: tuple[float, float], size: tuple[float, float], words: str = "") -> None:
    """A rectangle from its upper left corner; `words` are shown when a pointer rests on it."""
    title = tag("title", words) if words else None
    add(svg, tag("rect", title, class_=style, x=place[0], y=place[1], width=size[0], height=size[1]))


def text(svg: Element, style: str | None, place: tuple[float, float], words: str, anchor: str | None = None) -> None:
    add(svg, tag("text", words, class_=style, x=place[0], y=place[1], text_anchor=anchor))


def bar(svg: Element, style: str, left: float, width: float, y: Scale, value: float, words: str = "") -> None:
    """A bar that stands on 0; the smallest is seen too."""
    top = min(y(value), y(0) - 1)
    box(svg, f"fill {style}", (left + BAR_GAP / 2, top), (max(width - BAR_GAP, 0.5), y(0) - top), words)


def value_axis(svg: Element, y: Scale, ticks: Sequence[float], name: Callable[[float], str]) -> None:
    """A line across the chart for each tick, with its value on the left."""
    for tick in ticks:
        line(svg, "grid", (LEFT, y(tick)), (WIDTH - RIGHT, y(tick)))
        text(svg, "label", (LEFT - _LABEL_GAP, y(tick) + _TEXT_DOWN), name(tick), "end")
