"""The Markdown tables of the measurements, and the cells that say whether a bar is met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MISSED = "missed"


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    return [_row(header), "|---" * len(header) + "|", *map(_row, rows)]


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def bar_cell(bar: str, *, met: bool) -> str:
    """A bar, marked if it is missed."""
    return bar if met else f"{bar}, **{MISSED}**"


def ratio_cells(ratio: float, most: float) -> tuple[str, str]:
    """A ratio and the most that it may be."""
    return f"**{ratio:.2f}**", bar_cell(f"≤ {most}", met=ratio <= most)


def joined(values: Iterable[float], digits: int = 1) -> str:
    """Several figures in one cell."""
    return ", ".join(f"{value:,.{digits}f}" for value in values)
