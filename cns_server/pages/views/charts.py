"""Small line charts of figures a minute, each with its sums as text. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element, tostring

from markupsafe import Markup

from cns_common.charts.markup import tag
from cns_common.charts.scales import LinearScale
from cns_common.charts.shapes import curve

MINUTES = 60
MINUTE_MS = 60_000
WIDTH, HEIGHT = 180, 36
_EDGE = 2


def charts(figures: Mapping[str, Sequence[tuple[int, float]]], now_ms: int) -> list[Markup]:
    """A chart for each kind of figures, of the last hour; one scale for all. None if there is no figure."""
    last = now_ms // MINUTE_MS
    lines = {title: _minutes(of_kind, last) for title, of_kind in figures.items()}
    most = max([max(line) for line in lines.values()], default=0.0)
    if not most:
        return []
    y = LinearScale(0, most, HEIGHT - _EDGE, _EDGE)
    drawn = [tostring(_figure(title, line, y), "unicode", "html") for title, line in lines.items()]
    return [Markup(figure) for figure in drawn]  # noqa: S704  # the tree escapes its texts


def _minutes(figures: Sequence[tuple[int, float]], last: int) -> list[float]:
    by_minute = dict(figures)
    return [by_minute.get(minute, 0.0) for minute in range(last - MINUTES + 1, last + 1)]


def _figure(title: str, line: Sequence[float], y: LinearScale) -> Element:
    """The text says what the line shows: screen readers leave the line out."""
    words = f"{title.capitalize()}: {int(sum(line))} in the last hour, {int(max(line))} a minute at most"
    x = LinearScale(0, MINUTES - 1, _EDGE, WIDTH - _EDGE)
    svg = tag("svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", width=WIDTH, height=HEIGHT, aria_hidden="true", focusable="false")
    curve(svg, None, [(x(minute), y(value)) for minute, value in enumerate(line)])
    return tag("figure", tag("figcaption", words), svg)
