"""The report of an experiment: a table, and each statement of the seed with a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lab.bench.order.figures import Row

STATEMENTS, CONDITIONAL = "statements a receive+delete", "conditional a receive+delete"
HOLDS, FAILS = "holds", "**does not hold**"
Cell = Callable[[Row], str]


class Claim(NamedTuple):
    """A statement of a seed, by its rows in docs/seeds.md, and what was measured."""

    rows: str
    stated: str
    measured: str
    verdict: str


@dataclass(slots=True)
class Report:
    title: str
    setup: str
    table: list[str]
    claims: list[Claim] = field(default_factory=list)
    drawings: Mapping[str, str] = field(default_factory=dict)  # SVG by file name

    def lines(self, curves: Path) -> list[str]:
        """The section's lines; also writes the drawings."""
        for name, drawing in self.drawings.items():
            (curves / name).write_text(drawing)
        return [
            self.setup,
            "",
            *self.table,
            *[line for name in self.drawings for line in ("", f"![{self.title}](curves/{name})")],
            "",
            "| rows | the seed says | measured | verdict |",
            "|---|---|---|---|",
            *[f"| {' | '.join(claim)} |" for claim in self.claims],
        ]


def claim(rows: str, stated: str, measured: str, *, holds: bool) -> Claim:
    return Claim(rows, stated, measured, HOLDS if holds else FAILS)


def untestable(rows: str, stated: str, why: str) -> Claim:
    return Claim(rows, stated, "–", f"not testable here: {why}")


def table(first: str, runs: Mapping[str, Row], columns: Mapping[str, Cell]) -> list[str]:
    return [
        f"| {first} | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *[f"| {name} | {' | '.join(cell(row) for cell in columns.values())} |" for name, row in runs.items()],
    ]


def number(name: str, digits: int = 0) -> Cell:
    return lambda row: f"{row[name]:,.{digits}f}"


def percent(name: str) -> Cell:
    return lambda row: f"{row[name]:.2%}"


def statements(row: Row) -> str:
    """The statements of a receive and delete, and how many of them are conditional."""
    return f"{row[STATEMENTS]:.1f}, {row[CONDITIONAL]:.2f}"


def spread(rows: Sequence[Row]) -> Row:
    """The averages of repetitions of one run, with the largest difference from the average rate as `spread`."""
    averages = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    rate = "receive+delete rate, 1/s"
    most = max(abs(row[rate] - averages[rate]) for row in rows)
    return averages | {"spread": most / max(averages[rate], 1e-9)}


RATES: dict[str, Cell] = {
    "send/s": number("send rate, 1/s"),
    "receive+delete/s": number("receive+delete rate, 1/s"),
    "send, mean ms": number("send response, mean ms", 1),
    "receive, mean ms": number("receive response, mean ms", 1),
}
CONSISTENCY: dict[str, Cell] = {
    "loss ε": percent("loss rate ε"),
    "duplicates λ": percent("duplication rate λ"),
    "out of order": percent("out-of-order rate"),
    "displacement, average": number("average displacement", 2),
    "largest": number("largest displacement"),
}
