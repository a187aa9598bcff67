"""The plots of docs/performance.md as SVG for light and dark pages: curves over depth, and bars of ratios."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from xml.etree.ElementTree import Element, indent, tostring

from cns_common.charts.markup import add, tag
from cns_common.charts.scales import LinearScale, LogScale, round_ticks
from cns_common.charts.shapes import box, curve, image, line, text

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 52, 230, 40, 44
LABEL_GAP = 15
TICKS = 5
NAMES_WIDTH, FIGURES_WIDTH, ROW_HEIGHT = 266, 204, 26
"""A plot of ratios: widths of the columns left and right of the bars, and the height of a row."""
RATE_HEIGHT, GROUP_GAP = 18, 10
COLOURS = ("#4c78a8", "#e45756", "#54a24b", "#f58518", "#b279a2", "#3fa7a0", "#9d755d", "#8a8f98")
DASHES = ("", "7 3", "2 3")
"""When the colours run out, lines repeat them with another dash."""
RATIO_MIN, RATIO_MAX = 0.5, 1.5
"""The smallest range of the axis, so that noise looks like noise."""
STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #57606a }
.title { font-size: 14px; font-weight: 600 }
.rule { stroke: #d0d7de; stroke-width: 1 }
.bar { stroke: #cf222e; stroke-width: 1; stroke-dasharray: 4 4 }
.curve { fill: none; stroke-width: 2 }
.met { fill: #4c78a8 }
.missed { fill: #e45756 }
.least { stroke: #f2a900; stroke-width: 2 }
@media (prefers-color-scheme: dark) { text { fill: #c9d1d9 } .rule { stroke: #3d444d } .bar { stroke: #ff7b72 } }"""

RATE_STYLE = """
.ours { fill: #54a24b }
.disk { fill: #4c78a8 }
.memory { fill: #8a8f98 }
.group { font-weight: 600 }"""


def draw(title: str, depths: Sequence[int], times: Mapping[str, Sequence[float]], bar: float) -> str:
    """One labelled line per operation; `bar` is the allowed ratio to the first depth."""
    ratios = {name: [value / values[0] for value in values] for name, values in times.items()}
    low = min(RATIO_MIN, *[min(values) for values in ratios.values()])
    high = max(RATIO_MAX, *[max(values) for values in ratios.values()])
    ticks = round_ticks(high, TICKS, low)
    across = LogScale(depths[0], depths[-1], LEFT, WIDTH - RIGHT)
    up = LinearScale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    svg = _image(title, HEIGHT)
    right = WIDTH - RIGHT
    for ratio in ticks:
        line(svg, "rule", (LEFT, up(ratio)), (right, up(ratio)))
        text(svg, None, (LEFT - 8, up(ratio) + 4), f"{ratio:g}×", "end")
    for depth in depths:
        line(svg, "rule", (across(depth), HEIGHT - BOTTOM), (across(depth), HEIGHT - BOTTOM + 5))
        text(svg, None, (across(depth), HEIGHT - BOTTOM + 20), f"{depth:,}", "middle")
    line(svg, "bar", (LEFT, up(bar)), (right, up(bar)))
    ends = _spread({name: up(values[-1]) for name, values in ratios.items()})
    for place, (name, values) in enumerate(ratios.items()):
        points = [(across(depth), up(value)) for depth, value in zip(depths, values, strict=True)]
        end = ends[name]
        for part in (points, [points[-1], (right + 18, end), (right + 26, end)]):
            dash = DASHES[place // len(COLOURS) % 3]
            curve(svg, "curve", part, stroke=COLOURS[place % len(COLOURS)], stroke_dasharray=dash)
        text(svg, None, (right + 31, end + 4), f"{name} {values[-1]:.2f}×")
    return _written(svg)


class RatioBar(NamedTuple):
    """A bar of `draw_ratios`, with the text beside it and the required minimum, if any."""

    name: str
    figures: str
    ratio: float
    least: float | None
    missed: bool


def draw_ratios(title: str, bars: Sequence[RatioBar]) -> str:
    """One horizontal bar each, with a tick at the required minimum, and in another colour if it is missed."""
    height = TOP + len(bars) * ROW_HEIGHT + BOTTOM
    ticks = round_ticks(max(1.0, *[bar.ratio for bar in bars]), TICKS)
    across = LinearScale(0.0, ticks[-1], NAMES_WIDTH, WIDTH - FIGURES_WIDTH)
    svg = _image(title, height)
    for ratio in ticks:
        line(svg, "rule", (across(ratio), TOP), (across(ratio), height - BOTTOM))
        text(svg, None, (across(ratio), height - BOTTOM + 18), f"{ratio:g}×", "middle")
    for place, bar in enumerate(bars):
        top = TOP + place * ROW_HEIGHT + 4
        size = across(bar.ratio) - NAMES_WIDTH, ROW_HEIGHT - 8
        text(svg, None, (NAMES_WIDTH - 8, top + 13), bar.name, "end")
        box(svg, "missed" if bar.missed else "met", (NAMES_WIDTH, top), size)
        text(svg, None, (WIDTH - FIGURES_WIDTH + 14, top + 13), bar.figures)
        if bar.least is not None:
            line(svg, "least", (across(bar.least), top - 2), (across(bar.least), top + ROW_HEIGHT - 6))
    text(svg, None, (8, height - 6), "1× is the bare program. Yellow line: the bar. Red: the bar is missed.")
    return _written(svg)


class RateBar(NamedTuple):
    """A bar of `draw_rates`; `kind` is its class: ours, disk or memory."""

    group: str
    name: str
    per_s: float
    kind: str


def draw_rates(title: str, bars: Iterable[RateBar]) -> str:
    """Groups of horizontal bars; the longest bar of each group has the same length."""
    groups = [(name, list(group)) for name, group in groupby(bars, attrgetter("group"))]
    height = TOP + sum((len(group) + 1) * RATE_HEIGHT + GROUP_GAP for _, group in groups)
    svg, top = _image(title, height, STYLE + RATE_STYLE), TOP
    for name, group in groups:
        text(svg, "group", (8, top + 13), name)
        across = LinearScale(0.0, max(bar.per_s for bar in group), 0.0, WIDTH - NAMES_WIDTH - FIGURES_WIDTH)
        for bar in group:
            top += RATE_HEIGHT
            text(svg, None, (NAMES_WIDTH - 8, top + 13), bar.name, "end")
            box(svg, bar.kind, (NAMES_WIDTH, top + 3), (across(bar.per_s), RATE_HEIGHT - 5))
            text(svg, None, (NAMES_WIDTH + across(bar.per_s) + 8, top + 13), f"{bar.per_s:,.0f}/s")
        top += RATE_HEIGHT + GROUP_GAP
    return _written(svg)


def _image(title: str, height: int, style: str = STYLE) -> Element:
    svg = image(title, None, WIDTH, height)
    svg.set("xmlns", "http://www.w3.org/2000/svg")
    add(svg, tag("title", title), tag("style", style))
    text(svg, "title", (8, TOP - 18), title)
    return svg


def _written(svg: Element) -> str:
    indent(svg, "")
    return tostring(svg, encoding="unicode") + "\n"


def _spread(places: Mapping[str, float]) -> dict[str, float]:
    """Coordinates of labels, moved apart until none covers another."""
    spread: dict[str, float] = {}
    below = -math.inf
    for name in sorted(places, key=lambda name: places[name]):
        below = spread[name] = max(places[name], below + LABEL_GAP)
    too_low = max(below - (HEIGHT - 8), 0)
    return {name: place - too_low for name, place in spread.items()}
