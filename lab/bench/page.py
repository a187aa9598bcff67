"""The tables of docs/performance.md: a section between its markers, and the first table and its plot made from them.

python -m lab.bench.page     # after an edit by hand; `make bench` does the same after each section
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lab.bench.drawing import RatioBar, draw_ratios
from lab.bench.tables import MISSED, bar_cell, table

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "performance.md"
DRAWING = Path("curves") / "overview.svg"
NAME = "overview"
TITLE = "Throughput relative to a bare program that does the same I/O in the same run"
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Source(NamedTuple):
    """A row of the first table: the row of a section that has its figures, and its cells as formats of that row.

    `row[n]` is a cell, `part[n][m]` a part of it between commas, `other` the parts of the row that is compared.
    """

    workload: str
    section: str
    first: str  # the first cell of the section's row
    service: str
    compared: str = ""
    ratio: str = ""
    bar_at: int = 4  # the cell of the bar; this one or the next says whether it is missed
    bar: str = "{bar}"
    other: str = ""  # the first cell of the compared row
    drawn: bool = False


def _of_queues(name: str) -> Source:
    return Source(name, "queues", name, "{row[2]}/s", "floor {row[1]}/s", "{row[3]}", drawn=True)


def _fan_out(form: str) -> Source:
    name, first = f"fan-out to 10,000 web endpoints, {form}", f"{form}, bare client"
    return Source(
        name, "fanout", first, "{part[3][0]}/s", "bare client {part[3][1]}/s", "{row[4]}", bar_at=5, drawn=True
    )


TOPICS = ("topic → 1 queue, raw", "topic → 1 queue, signed")
SOURCES = (
    *map(_of_queues, ("send", "receive + delete", "batch send", "batch receive + delete")),
    Source(
        "send wakes a waiting receive, p50",
        "queues",
        "wake, p50 ms",
        service="{row[2]} ms",
        compared="floor {row[1]} ms",
        ratio="{row[3]}",
    ),
    *(Source(name, "publish", name, "{row[1]}/s") for name in ("publish → HTTP, signed", "publish → HTTP, raw")),
    *(Source(name, "topics", name, "{row[1]}/s", "send {other[1][0]}/s", bar_at=4, other="send") for name in TOPICS),
    Source("publish → HTTP, signed, idle, p50", "publish", "… idle (25/s), signed", "{part[2][0]} ms"),
    *map(_fan_out, ("raw", "signed")),
    Source(
        "receive from a queue of 100,000 instead of 100",
        "curves",
        "receive",
        service="{row[3]} ms",
        compared="{row[1]} ms",
        ratio="{row[4]}",
        bar_at=5,
    ),
    Source("10,000 waiting receives, memory", "waiting", "resident memory added", "{row[1]}", bar_at=2),
    Source(
        "healthy endpoints while half of all time out, p99",
        "isolation",
        "half failing: all timing out",
        service="{part[1][1]} ms",
        compared="none fails {other[1][1]} ms",
        ratio="{row[2]}",
        bar_at=3,
        other="all healthy",
    ),
    Source(
        "cluster at half load: send, p50, p95",
        "cluster",
        "service",
        service="{part[3][0]}, {part[3][1]} ms",
        compared="floor {other[3][0]}, {other[3][1]} ms",
        bar="p50 {part[4][0]}, p95 {part[4][1]}",
        other="floor",
    ),
)


class Line(NamedTuple):
    """A row of the first table. `compared` and `ratio` are empty for workloads without a bare program."""

    workload: str
    service: str
    compared: str
    ratio: str
    bar: str


class Page:
    """The tables of the page, by section and by the first cells of their rows."""

    def __init__(self, text: str) -> None:
        self._text = text

    def row(self, section: str, *first: str) -> list[str]:
        """The cells of the first row of a section that begins with the given cells; empty if there is none."""
        text = self._text.partition(f"<!-- {section} -->")[2].partition(f"<!-- /{section} -->")[0]
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if tuple(cells[: len(first)]) == first:
                return [cell.replace("*", "") for cell in cells]
        return []


def lines(page: Page) -> list[Line]:
    """The rows that have figures on the page."""
    return [line for source in SOURCES if (line := _line(page, source))]


def _line(page: Page, source: Source) -> Line | None:
    row = page.row(source.section, source.first)
    other = page.row(source.section, source.other) if source.other else row
    if not row or not other:
        return None
    at, cells = source.bar_at, {"row": row, "part": _parts(row), "other": _parts(other)}
    missed = any(MISSED in cell for cell in row[at : at + 2])
    bar = source.bar.format(**cells, bar=row[at].partition(f", {MISSED}")[0])
    return Line(
        workload=source.workload,
        service=source.service.format(**cells),
        compared=source.compared.format(**cells),
        ratio=source.ratio.format(**cells),
        bar=bar_cell(bar, met=not missed),
    )


def _parts(row: Sequence[str]) -> list[list[str]]:
    return [cell.split(", ") for cell in row]


def ratio_bars(page: Page) -> Iterator[RatioBar]:
    """The workloads that have a bare program: queues, fan-out, and the cluster at its largest load."""
    for source in SOURCES:
        if source.drawn and (line := _line(page, source)):
            least = float(_NUMBER.findall(line.bar)[0].replace(",", ""))
            figures = f"{line.service} : {line.compared}"
            yield RatioBar(line.workload, figures, float(line.ratio), least, MISSED in line.bar)
    for operation in ("send", "receive", "delete"):
        if row := page.row("cluster", operation, "64"):
            yield RatioBar(f"cluster: {operation}", f"{row[3]}/s : floor {row[2]}/s", float(row[5]), None, False)


def refresh(path: Path = PAGE) -> None:
    """Rewrite the first table and the plot; both leave out workloads without figures on the page."""
    text = path.read_text()
    page = Page(text)
    (path.parent / DRAWING).write_text(draw_ratios(TITLE, list(ratio_bars(page))))
    shown = table(("workload", "service", "compared with", "ratio", "bar"), lines(page))
    path.write_text(with_section(text, NAME, [*shown, "", f"![{TITLE}]({DRAWING})"]))


def with_section(text: str, name: str, section: Sequence[str]) -> str:
    """Replace the lines between the markers of a section; without markers, append the section."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if begin not in text:
        text += f"\n## {name.capitalize()}\n\n{begin}{end}\n"
    before, _, rest = text.partition(begin)
    return before + begin + "\n".join([*section, ""]) + end + rest.partition(end)[2]


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    refresh()
