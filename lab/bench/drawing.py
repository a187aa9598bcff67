"""The plots of docs/performance.md as SVG for light and dark pages: curves over depth, and bars of ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from cns_pipeline.reports.page.scales import LinearScale, LogScale

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 52, 230, 40, 44
LABEL_GAP = 15
NAMES_WIDTH, FIGURES_WIDTH, ROW_HEIGHT = 266, 204, 26
"""A plot of ratios: widths of the columns left and right of the bars, and the height of a row."""
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


def draw(title: str, depths: Sequence[int], times: Mapping[str, Sequence[float]], bar: float) -> str:
    """One labelled line per operation; `bar` is the allowed ratio to the first depth."""
    ratios = {name: [value / values[0] for value in values] for name, values in times.items()}
    low = min(RATIO_MIN, *[min(values) for values in ratios.values()])
    high = max(RATIO_MAX, *[max(values) for values in ratios.values()])
    across = LogScale(depths[0], depths[-1], LEFT, WIDTH - RIGHT)
    up = LinearScale(low, high, HEIGHT - BOTTOM, TOP)
    xs = list(map(across, depths))
    parts: list[str] = []
    for ratio in _ticks(low, high):
        parts.append(_line(LEFT, up(ratio), xs[-1], up(ratio), "rule"))
        parts.append(_text(LEFT - 8, up(ratio) + 4, f"{ratio:g}×", 'text-anchor="end"'))
    for x, depth in zip(xs, depths, strict=True):
        parts.append(_line(x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5, "rule"))
        parts.append(_text(x, HEIGHT - BOTTOM + 20, f"{depth:,}", 'text-anchor="middle"'))
    parts.append(_line(LEFT, up(bar), xs[-1], up(bar), "bar"))
    ends = _spread({name: up(values[-1]) for name, values in ratios.items()})
    for place, (name, values) in enumerate(ratios.items()):
        last, end = (xs[-1], up(values[-1])), ends[name]
        stroke = f'stroke="{COLOURS[place % len(COLOURS)]}" stroke-dasharray="{DASHES[place // len(COLOURS) % 3]}"'
        parts.append(_curve([(x, up(value)) for x, value in zip(xs, values, strict=True)], stroke))
        parts.append(_curve([last, (last[0] + 18, end), (last[0] + 26, end)], stroke))
        parts.append(_text(last[0] + 31, end + 4, f"{name} {values[-1]:.2f}×"))
    return _document(title, HEIGHT, parts)


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
    highest = max(1.0, *[bar.ratio for bar in bars])
    across = LinearScale(0.0, highest, NAMES_WIDTH, WIDTH - FIGURES_WIDTH)
    parts: list[str] = []
    for ratio in _ticks(0.0, highest):
        parts.append(_line(across(ratio), TOP, across(ratio), height - BOTTOM, "rule"))
        parts.append(_text(across(ratio), height - BOTTOM + 18, f"{ratio:g}×", 'text-anchor="middle"'))
    for place, bar in enumerate(bars):
        top = TOP + place * ROW_HEIGHT + 4
        width, colour = across(bar.ratio) - NAMES_WIDTH, "missed" if bar.missed else "met"
        parts.append(_text(NAMES_WIDTH - 8, top + 13, bar.name, 'text-anchor="end"'))
        parts.append(
            f'<rect class="{colour}" x="{NAMES_WIDTH}" y="{top}" width="{width:.1f}" height="{ROW_HEIGHT - 8}"/>'
        )
        parts.append(_text(WIDTH - FIGURES_WIDTH + 14, top + 13, bar.figures))
        if bar.least is not None:
            parts.append(_line(across(bar.least), top - 2, across(bar.least), top + ROW_HEIGHT - 6, "least"))
    parts.append(_text(8, height - 6, "1× is the bare program. Yellow line: the bar. Red: the bar is missed."))
    return _document(title, height, parts)


def _document(title: str, height: int, parts: Sequence[str]) -> str:
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        _text(8, TOP - 18, title, 'class="title"'),
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers."""
    step = next(step for step in (0.25, 0.5, 1, 2, 5, 10, 25, 50, 100, 1e9) if (high - low) / step <= 6)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _spread(places: Mapping[str, float]) -> dict[str, float]:
    """Coordinates of labels, moved apart until none covers another."""
    spread: dict[str, float] = {}
    below = -math.inf
    for name in sorted(places, key=lambda name: places[name]):
        below = spread[name] = max(places[name], below + LABEL_GAP)
    too_low = max(below - (HEIGHT - 8), 0)
    return {name: place - too_low for name, place in spread.items()}


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _curve(points: Sequence[tuple[float, float]], stroke: str) -> str:
    return f'<polyline class="curve" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" {stroke}/>'


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>'
