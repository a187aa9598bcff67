"""The tables and the plot of `make compare`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from lab.bench.compare import pressure
from lab.bench.compare.kept import Survival
from lab.bench.compare.pressure import CELLS, Cell
from lab.bench.compare.rates import LONE, NO_TOPICS, WAKE, WORKLOADS, Load, Result
from lab.bench.compare.sides import Side
from lab.bench.drawing import RateBar
from lab.bench.tables import joined, table
from lab.measure.figures import Figures, median_run

DRAWING = Path("curves") / "compare.svg"
TITLE = "Messages a second of ours and others, on many connections"


@dataclass(slots=True)
class Measured:
    """All results of one side: by connections and workload those of each round, the others once."""

    side: Side
    runs: dict[tuple[int, str], list[Result]] = field(default_factory=lambda: defaultdict(list))
    cells: dict[str, Cell] = field(default_factory=dict)
    kept: Survival | str = ""

    @property
    def is_durable(self) -> bool:
        return isinstance(self.kept, Survival) and self.kept.all

    def of(self, connections: int, workload: str) -> Result:
        """The median run, or why there is none."""
        results = self.runs[connections, workload]
        figures = [one for one in results if isinstance(one, Figures)]
        return median_run(figures) if figures else str(results[0])


def lines(
    measured: Sequence[Measured], absent: Mapping[str, str], loads: Sequence[Load], size: pressure.Size
) -> list[str]:
    """Tables of what was compared, of rates and of pressure, and where ours is not the first."""
    parts = [_sides(measured, absent)]
    for load in loads:
        parts.append(_rates(measured, load))
    parts += [_under_pressure(measured, size), _behind(measured, loads), _reasons(measured)]
    many = loads[0].connections
    picture = [f"![{TITLE}]({DRAWING})", "", f"{many} connections. Green: ours; blue: others on disk; grey: in memory."]
    return [line for part in [*parts, picture] if part for line in (*part, "")][:-1]


def _sides(measured: Sequence[Measured], absent: Mapping[str, str]) -> list[str]:
    rows = [
        (
            f"**{one.side.name}**" if one.side.is_ours else one.side.name,
            one.side.version or "this commit",
            one.side.keeps,
            "yes" if one.side.checks_signatures else "no",
            f"{one.kept.there:,} of {one.kept.acknowledged:,}" if isinstance(one.kept, Survival) else f"– ({one.kept})",
        )
        for one in measured
    ]
    gone = [(name, "absent", reason, "", "") for name, reason in absent.items()]
    header = ("", "version", "keeps messages in", "checks signatures", "acknowledged, and there after `kill -9`")
    return table(header, [*rows, *gone])


def _rates(measured: Sequence[Measured], load: Load) -> list[str]:
    """Bold is the first of those that kept all."""
    names = [name for name in WORKLOADS if (load.connections, name) in measured[0].runs]
    first = {name: best[0] for name in names if (best := _ranked(measured, load.connections, name))}

    def cell(one: Measured, name: str) -> str:
        result = one.of(load.connections, name)
        if isinstance(result, str):
            return "–"
        text = joined((result.p50_ms, result.p99_ms)) if name == WAKE else f"{result.per_s:,.0f}"
        text = f"{text}; {result.server_us:,.0f} µs" if name == LONE else text
        return f"**{text}**" if first.get(name) is one else text

    units = {WAKE: "wake, p50, p99 ms", LONE: f"{LONE}: calls/s; CPU a call"}
    places = f"{load.connections} connection{'s' if load.connections > 1 else ''}: messages/s"
    rows = [(one.side.name, *[cell(one, name) for name in names]) for one in measured]
    return table((places, *[units.get(name, name) for name in names]), rows)


def _ranked(measured: Sequence[Measured], connections: int, name: str) -> list[Measured]:
    """Sort the sides that kept all, the best first: by rate, wake-ups by their median."""

    def rank(one: Measured) -> float:
        result = one.of(connections, name)
        assert isinstance(result, Figures)
        return result.p50_ms if name == WAKE else -result.per_s

    durable = [one for one in measured if one.is_durable and isinstance(one.of(connections, name), Figures)]
    return sorted(durable, key=rank)


def _under_pressure(measured: Sequence[Measured], size: pressure.Size) -> list[str]:
    wanted = {
        CELLS[1]: f"{CELLS[1]}: {size.backlog:,} left",
        CELLS[2]: f"{size.in_flight:,} in flight",
        CELLS[4]: f"{size.deleted:,} deleted",
    }
    full = {CELLS[1]: size.backlog, CELLS[2]: size.in_flight, CELLS[4]: size.deleted}

    def cell(one: Measured, name: str) -> str:
        result, amount = one.cells[name]
        if isinstance(result, str):
            return "–"
        less = f" ({amount:,})" if amount < full.get(name, 0) or name == CELLS[5] else ""
        return f"{result.per_s:,.0f}, {result.p99_ms:,.1f}{less}"

    header = (f"calls/s, p99 ms on {pressure.CONNECTIONS} connections", *[wanted.get(name, name) for name in CELLS])
    rows = [(one.side.name, *[cell(one, name) for name in CELLS]) for one in measured]
    reads = "In parentheses: how many there were, if fewer; of reads, how many ended."
    shares = [
        one.others_share for each in measured for runs in each.runs.values() for one in runs if isinstance(one, Figures)
    ]
    noise = f"The rest of the machine used {median(shares or [0.0]):.0%} of its CPU meanwhile (median of all runs)."
    backups = [one.side.name for one in measured if one.side.long_read]
    how = f"The long read is a backup of the store ({', '.join(backups)}), else the queue's attributes in a loop."
    return [*table(header, rows), "", f"{reads} {how} {noise}"]


def _behind(measured: Sequence[Measured], loads: Sequence[Load]) -> list[str]:
    """Where our default form is not the first of those that kept all."""
    ours, behind = measured[0], list[str]()
    for load in loads:
        for name in WORKLOADS:
            if (load.connections, name) not in ours.runs:
                continue
            better = [one for one in _ranked(measured, load.connections, name) if not one.side.is_ours]
            mine, theirs = (one.of(load.connections, name) for one in (ours, (better or [ours])[0]))
            if isinstance(mine, str):
                behind.append(f"{name} at {load.connections}: {mine}")
            elif isinstance(theirs, Figures) and _value(name, theirs) > _value(name, mine):
                figures = (
                    f"{theirs.p50_ms} ms : {mine.p50_ms}"
                    if name == WAKE
                    else f"{theirs.per_s:,.0f} : {mine.per_s:,.0f}"
                )
                behind.append(f"{name} at {load.connections} ({better[0].side.name} {figures})")
    return [f"**Not the first of those that keep all, by default:** {'; '.join(behind) or 'nowhere'}."]


def _value(name: str, figures: Figures) -> float:
    return -figures.p50_ms if name == WAKE else figures.per_s


def _reasons(measured: Sequence[Measured]) -> list[str]:
    """Why a cell is empty."""
    found = defaultdict[tuple[str, str], list[str]](list)
    for one in measured:
        results = {f"{name} at {at}": one.of(at, name) for at, name in one.runs}
        results |= {name: cell.result for name, cell in one.cells.items()}
        for name, result in results.items():
            if isinstance(result, str) and result != NO_TOPICS:
                found[one.side.name, result].append(name)
    parts = [f"{side} ({', '.join(names)}): `{why}`" for (side, why), names in found.items()]
    return [f"Failed: {'; '.join(parts)}."] if parts else []


def bars(measured: Sequence[Measured], connections: int) -> Iterator[RateBar]:
    """The plot's bars, workload by workload."""
    for name in WORKLOADS:
        for one in measured:
            result = one.of(connections, name) if (connections, name) in one.runs else ""
            if isinstance(result, Figures) and name != WAKE:
                kind = "ours" if one.side.is_ours else one.side.keeps
                yield RateBar(name, one.side.name, result.per_s, kind)
