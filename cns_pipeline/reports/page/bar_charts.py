"""Histograms, and the bars in cells of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from cns_pipeline.reports.page.axes import LEFT, RIGHT, WIDTH, chart, draw_value_axis
from cns_pipeline.reports.page.markup import add, tag
from cns_pipeline.reports.page.scales import LinearScale, whole_ticks
from cns_pipeline.reports.text import count, rounded

_HEIGHT = 220.0
_TOP = 36.0
_AXIS = 24.0
_LABEL_WIDTH = 46.0
_CELL_WIDTH, _CELL_HEIGHT = 100.0, 12.0


@dataclass(frozen=True, slots=True)
class Bin:
    """A bar of a histogram: `edge` is the text at its left end, `words` says what it counts."""

    edge: str
    words: str
    count: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across a histogram; `place` is in bins from the left."""

    place: float
    text: str


def histogram(title: str, bins: Sequence[Bin], marks: Sequence[Mark] = (), style: str = "delivered") -> Element:
    svg = chart(title, f"{count(sum([one.count for one in bins]))} in all", _HEIGHT)
    if not bins:
        return svg
    ticks = whole_ticks(max([one.count for one in bins]), 4)
    bottom = _HEIGHT - _AXIS
    y = LinearScale(0, ticks[-1], bottom, _TOP)
    x = LinearScale(0, len(bins), LEFT, WIDTH - RIGHT)
    draw_value_axis(svg, y, ticks, rounded)
    label_each = max(round(_LABEL_WIDTH * len(bins) / (WIDTH - LEFT - RIGHT) + 0.5), 1)
    for at, one in enumerate(bins):
        if one.count:
            top = min(y(one.count), bottom - 1)
            words = tag("title", f"{one.words}: {count(one.count)}")
            width = x(at + 1) - x(at) - 1
            add(svg, tag("rect", words, class_=f"fill {style}", x=x(at), y=top, width=width, height=bottom - top))
        if at % label_each == 0:
            add(svg, tag("text", one.edge, class_="label", x=x(at), y=bottom + 16, text_anchor="start"))
    for row, mark in enumerate(marks):
        at_x = x(min(max(mark.place, 0), len(bins)))
        anchor = "end" if at_x > WIDTH / 2 else "start"
        add(
            svg,
            tag("line", class_="mark", x1=at_x, x2=at_x, y1=_TOP, y2=bottom),
            tag(
                "text",
                mark.text,
                class_="heading",
                x=at_x + (-4 if anchor == "end" else 4),
                y=14 + row * 15,
                text_anchor=anchor,
            ),
        )
    return svg


def cell_bar(part: float, style: str) -> Element:
    """A bar that fills the part of a cell; the cell's number says the same in words."""
    return tag(
        "svg",
        tag("rect", class_="track", x=0, y=0, width=_CELL_WIDTH, height=_CELL_HEIGHT),
        tag("rect", class_=f"fill {style}", x=0, y=0, width=min(part, 1.0) * _CELL_WIDTH, height=_CELL_HEIGHT),
        class_="cell-bar",
        aria_hidden="true",
        viewBox=f"0 0 {_CELL_WIDTH:g} {_CELL_HEIGHT:g}",
        preserveAspectRatio="none",
    )
