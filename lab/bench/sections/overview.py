"""Makes the first table of docs/performance.md and its plot from the tables further down the page.

python -m lab.bench.sections.overview     # after an edit by hand; `make bench` does the same after each section
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lab.bench.sections.drawing import RatioBar, draw_ratios

PAGE = Path(__file__).parents[3] / "docs" / "performance.md"
DRAWING = Path("curves") / "overview.svg"
NAME = "overview"
TITLE = "Throughput relative to a bare program that does the same I/O in the same run"
MISSED = "missed"
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Line(NamedTuple):
    """A row of the first table. `reference` and `ratio` are empty for workloads without a bare program."""

    workload: str
    service: str
    reference: str
    ratio: str
    bar: str


class Page:
    """The tables of the page, by section and by the first cell of their rows."""

    def __init__(self, text: str) -> None:
        self._text = text

    def row(self, section: str, first: str, second: str = "") -> list[str]:
        """The cells of the first row of a section that begins with the given cells; empty if there is none."""
        for line in self._section(section).splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if cells[0] == first and (not second or cells[1] == second):
                return [cell.replace("*", "") for cell in cells]
        return []

    def _section(self, name: str) -> str:
        return self._text.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]


def refresh(path: Path = PAGE) -> None:
    """Rewrite the first table and the plot; both leave out workloads without figures on the page."""
    text = path.read_text()
    page = Page(text)
    (path.parent / DRAWING).write_text(draw_ratios(TITLE, ratio_bars(page)))
    table = [
        "| workload | service | compared with | ratio | bar |",
        "|---|---|---|---|---|",
        *[f"| {' | '.join(line)} |" for line in lines(page)],
        "",
        f"![{TITLE}]({DRAWING})",
    ]
    path.write_text(with_section(text, NAME, table))


def with_section(text: str, name: str, section: Sequence[str]) -> str:
    """Replace the lines between the markers of a section; without markers, append the section."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if begin not in text:
        text += f"\n## {name.capitalize()}\n\n{begin}{end}\n"
    before, _, rest = text.partition(begin)
    return before + begin + "\n".join([*section, ""]) + end + rest.partition(end)[2]


def lines(page: Page) -> list[Line]:
    return [
        *_queues(page),
        *_publishes(page),
        *_fan_outs(page),
        *_depth(page),
        *_waits(page),
        *_isolation(page),
        *_cluster(page),
    ]


def _queues(page: Page) -> list[Line]:
    found = []
    for workload in ("send", "receive + delete", "batch send", "batch receive + delete"):
        if row := page.row("queues", workload):
            found.append(Line(workload, f"{row[2]}/s", f"floor {row[1]}/s", row[3], _bar(row[4])))
    if row := page.row("queues", "wake, p50 ms"):
        found.append(
            Line("send wakes a waiting receive, p50", f"{row[2]} ms", f"floor {row[1]} ms", row[3], _bar(row[4]))
        )
    return found


def _publishes(page: Page) -> list[Line]:
    found = []
    for workload in ("publish → HTTP, signed", "publish → HTTP, raw", "publish → 10 SQS"):
        if row := page.row("publish", workload):
            found.append(Line(workload, f"{row[1]}/s", "", "", _bar(row[4], missed=MISSED in row[5])))
    if row := page.row("publish", "… idle (25/s), signed"):
        p50_ms = numbers(row[2])[0]
        bar = _bar(row[4], missed=MISSED in row[5])
        found.append(Line("publish → HTTP, signed, idle, p50", f"{p50_ms:g} ms", "", "", bar))
    return found


def _fan_outs(page: Page) -> list[Line]:
    found = []
    for form in ("raw", "signed"):
        if row := page.row("fanout", f"{form}, bare client"):
            service, bare = row[3].split(", ")
            workload = f"fan-out to 10,000 web endpoints, {form}"
            found.append(Line(workload, f"{service}/s", f"bare client {bare}/s", row[4], _bar(row[5])))
    return found


def _depth(page: Page) -> list[Line]:
    row = page.row("curves", "receive")
    if not row:
        return []
    workload = "receive from a queue of 100,000 instead of 100"
    return [Line(workload, f"{row[3]} ms", f"{row[1]} ms", row[4], _bar(row[5]))]


def _waits(page: Page) -> list[Line]:
    row = page.row("waiting", "resident memory added")
    return [Line("10,000 waiting receives, memory", row[1], "", "", _bar(row[2]))] if row else []


def _isolation(page: Page) -> list[Line]:
    calm, ill = page.row("isolation", "all healthy"), page.row("isolation", "half failing: all timing out")
    if not calm or not ill:
        return []
    calm_ms, ill_ms = (numbers(row[1])[1] for row in (calm, ill))
    workload = "healthy endpoints while half of all time out, p99"
    return [Line(workload, f"{ill_ms:g} ms", f"none fails {calm_ms:g} ms", ill[2], _bar(ill[3]))]


def _cluster(page: Page) -> list[Line]:
    service, floor = page.row("cluster", "service"), page.row("cluster", "floor")
    if not service or not floor:
        return []
    shown, compared = (", ".join(row[3].split(", ")[:2]) for row in (service, floor))
    bar = _bar("p50 ≤ {}, p95 ≤ {}".format(*[f"{bar:g}" for bar in numbers(service[4])]), missed=MISSED in service[5])
    return [Line("cluster at half load: send, p50, p95", f"{shown} ms", f"floor {compared} ms", "", bar)]


def ratio_bars(page: Page) -> list[RatioBar]:
    """The workloads that have a bare program: queues, fan-out, and the cluster at its largest load."""
    found = [
        RatioBar(
            line.workload, f"{line.service} : {line.reference}", float(line.ratio), _least(line), MISSED in line.bar
        )
        for line in [*_queues(page)[:4], *_fan_outs(page)]
    ]
    for operation in ("send", "receive", "delete"):
        if row := page.row("cluster", operation, "64"):
            found.append(
                RatioBar(f"cluster: {operation}", f"{row[3]}/s : floor {row[2]}/s", float(row[5]), None, False)
            )
    return found


def _least(line: Line) -> float:
    return numbers(line.bar)[0]


def numbers(cell: str) -> Sequence[float]:
    return [float(number.replace(",", "")) for number in _NUMBER.findall(cell)]


def _bar(cell: str, *, missed: bool = False) -> str:
    """The bar, bold if it is missed."""
    missed = missed or MISSED in cell
    return cell.partition(f", {MISSED}")[0] + (f", **{MISSED}**" if missed else "")


def main() -> int:
    refresh()
    return 0


if __name__ == "__main__":
    sys.exit(main())
