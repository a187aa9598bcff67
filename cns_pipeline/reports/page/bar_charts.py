"""Histograms, and the bars and sparklines in cells of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from cns_common.charts.markup import add, tag
from cns_common.charts.scales import LinearScale, whole_ticks
from cns_common.charts.shapes import LEFT, RIGHT, WIDTH, bar, box, chart, image, line, text, value_axis
from cns_pipeline.reports.text import count, rounded

_HEIGHT = 220.0
_TOP = 36.0
_AXIS = 24.0
_LABEL_WIDTH = 46.0
_CELL_SIZE = 100.0, 12.0
_SPARK_WIDTH, _SPARK_HEIGHT = 120.0, 22.0


@dataclass(frozen=True, slots=True)
class Bin:
    """A bar of a histogram: `edge` is the label at its left end, `words` names what it counts."""

    edge: str
    words: str
    count: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line in a histogram; `place` is its distance from the left, in bins."""

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
    value_axis(svg, y, ticks, rounded)
    label_each = max(round(_LABEL_WIDTH * len(bins) / (WIDTH - LEFT - RIGHT) + 0.5), 1)
    for at, one in enumerate(bins):
        if one.count:
            bar(svg, style, x(at), x(at + 1) - x(at), y, one.count, f"{one.words}: {count(one.count)}")
        if at % label_each == 0:
            text(svg, "label", (x(at), bottom + 16), one.edge, "start")
    for row, mark in enumerate(marks):
        at_x = x(min(max(mark.place, 0), len(bins)))
        anchor, aside = ("end", -4) if at_x > WIDTH / 2 else ("start", 4)
        line(svg, "mark", (at_x, _TOP), (at_x, bottom))
        text(svg, "heading", (at_x + aside, 14 + row * 15), mark.text, anchor)
    return svg


def cell_bar(part: float, style: str) -> Element:
    """A bar over a part of a cell. The number in the cell says the same."""
    width, height = _CELL_SIZE
    view = f"0 0 {width:g} {height:g}"
    svg = tag("svg", class_="cell-bar", aria_hidden="true", viewBox=view, preserveAspectRatio="none")
    box(svg, "track", (0, 0), _CELL_SIZE)
    box(svg, f"fill {style}", (0, 0), (min(part, 1.0) * width, height))
    return svg


def sparkline(words: str, shares: Sequence[float | None]) -> Element:
    """Shares from 0 to 1 as bars without axes; a None leaves a gap."""
    svg = image(words, "spark", _SPARK_WIDTH, _SPARK_HEIGHT)
    add(svg, tag("title", words))
    line(svg, "grid", (0, _SPARK_HEIGHT - 0.5), (_SPARK_WIDTH, _SPARK_HEIGHT - 0.5))
    width = _SPARK_WIDTH / max(len(shares), 1)
    for at, share in enumerate(shares):
        if share:
            high = max(share * (_SPARK_HEIGHT - 1), 1.0)
            box(svg, "fill failed", (at * width, _SPARK_HEIGHT - high), (max(width, 0.8), high))
    return svg
