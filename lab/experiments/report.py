"""The report of an experiment: a table, and each statement of the seed with a verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from lab.bench import tables
from lab.bench.order.figures import Row
from lab.bench.order.run import measured
from lab.bench.order.workload import Load
from lab.bench.site import Site

SEND, POP = "send rate, 1/s", "receive+delete rate, 1/s"
SEND_MS, POP_MS = "send response, mean ms", "receive response, mean ms"
LOSS, TWICE, TWICE_BY_SENDERS = "loss rate ε", "duplication rate λ", "duplication by senders"
DISORDER, AWAY, FURTHEST = "out-of-order rate", "average displacement", "largest displacement"
STATEMENTS, CONDITIONAL = "statements a receive+delete", "conditional a receive+delete"
HOLDS, FAILS = "holds", "**does not hold**"

Runs = Mapping[str, Row]
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
    claims: list[Claim]
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
            *tables.table(("rows", "the seed says", "measured", "verdict"), self.claims),
        ]


def named(load: Load, name: str) -> Load:
    """With queues of its own, named after the run."""
    return msgspec.structs.replace(load, name=re.sub(r"\W+", "-", name))


def measured_each(loads: Mapping[str, Load], site: Site, seed: int, *, together: bool = False) -> dict[str, Row]:
    """All loads on one service, in turn."""
    return {name: measured(named(load, name), site, seed, together=together) for name, load in loads.items()}


def claim(rows: str, stated: str, measured: str, *, holds: bool) -> Claim:
    return Claim(rows, stated, measured, HOLDS if holds else FAILS)


def untestable(rows: str, stated: str, why: str) -> Claim:
    return Claim(rows, stated, "–", f"not testable here: {why}")


def no_loss(rows: str, stated: str, runs: Runs) -> Claim:
    return claim(rows, stated, loss(runs), holds=not lost(runs))


def lost(runs: Runs) -> float:
    """The highest loss rate."""
    return max(row[LOSS] for row in runs.values())


def loss(runs: Runs) -> str:
    return f"ε = {lost(runs):.2%} in {sum(row['messages'] for row in runs.values()):,.0f} messages"


def table(first: str, runs: Runs, columns: Mapping[str, Cell]) -> list[str]:
    rows = [(name, *[cell(row) for cell in columns.values()]) for name, row in runs.items()]
    return tables.table((first, *columns), rows)


def number(name: str, digits: int = 0) -> Cell:
    return lambda row: f"{row[name]:,.{digits}f}"


def percent(name: str) -> Cell:
    return lambda row: f"{row[name]:.2%}"


RATES: Mapping[str, Cell] = {
    "send/s": number(SEND),
    "receive+delete/s": number(POP),
    "send, mean ms": number(SEND_MS, 1),
    "receive, mean ms": number(POP_MS, 1),
}
CONSISTENCY: Mapping[str, Cell] = {
    "loss ε": percent(LOSS),
    "duplicates λ": percent(TWICE),
    "out of order": percent(DISORDER),
    "displacement, average": number(AWAY, 2),
    "largest": number(FURTHEST),
}
STATEMENTS_CELLS: Mapping[str, Cell] = {
    "statements, conditional": lambda row: f"{row[STATEMENTS]:.1f}, {row[CONDITIONAL]:.2f}"
}
"""The statements of a receive and delete, and how many of them are conditional."""
SENT_TWICE: Mapping[str, Cell] = {"sent twice": percent(TWICE_BY_SENDERS)}
FAILED_CALLS: Mapping[str, Cell] = {"failed calls": number("failed calls")}
