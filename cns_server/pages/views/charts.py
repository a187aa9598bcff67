"""Sparklines: the points of small line charts of figures a minute. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MINUTES = 60
MINUTE_MS = 60_000
WIDTH, HEIGHT = 180, 36
_EDGE = 2


class Chart(NamedTuple):
    """`points` are those of an SVG polyline in a box of `width` and `height`."""

    title: str
    points: str
    most: int
    sum: int
    width: int = WIDTH
    height: int = HEIGHT


def charts(figures: Mapping[str, Sequence[tuple[int, float]]], now_ms: int) -> list[Chart]:
    """A chart for each kind of figures, of the last hour; one scale for all. None if there is no figure."""
    last = now_ms // MINUTE_MS
    lines = {title: _minutes(of_kind, last) for title, of_kind in figures.items()}
    most = max([max(line) for line in lines.values()], default=0.0)
    if not most:
        return []
    return [Chart(title, _points(line, most), int(max(line)), int(sum(line))) for title, line in lines.items()]


def _minutes(figures: Sequence[tuple[int, float]], last: int) -> list[float]:
    by_minute = dict(figures)
    return [by_minute.get(minute, 0.0) for minute in range(last - MINUTES + 1, last + 1)]


def _points(line: Sequence[float], most: float) -> str:
    step = (WIDTH - 2 * _EDGE) / (len(line) - 1)
    high = HEIGHT - 2 * _EDGE
    return " ".join(
        f"{_EDGE + n * step:.1f},{HEIGHT - _EDGE - high * value / most:.1f}" for n, value in enumerate(line)
    )
