"""The tables of docs/reliability.md: what the rounds found, and on what they ran."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw

from tests.faults import accounting
from tests.faults.kills import RANDOM_TIME, VICTIMS
from tests.faults.results import KillResult, PowerResult
from tests.faults.site import ROOT

BEGIN = "<!-- written by make faults: begin -->"
END = "<!-- written by make faults: end -->"
SYNCS_MEASURED = 50
CAUSES = (
    accounting.CLIENT_RETRY,
    accounting.LEASE_OVER,
    accounting.CRASH_BEFORE_RECEIVE,
    accounting.CRASH_BEFORE_SETTLE,
)
LOST = ("lost", "never deleted", "stuck")
INVENTED = ("invented", "came back", "twice")
ORDER = ("order", "sequence", "two in flight", "lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    command: str
    commit: str
    machine: str


def facts(command: str) -> Facts:
    return Facts(command=command, commit=_commit(), machine=_machine())


def write_report(page: Path, found: Facts, results: Sequence[KillResult | PowerResult]) -> None:
    """Put the tables between the markers of the page."""
    kills = [result for result in results if isinstance(result, KillResult)]
    powers = [result for result in results if isinstance(result, PowerResult)]
    seeds = f"{min(result.seed for result in results)}–{max(result.seed for result in results)}"
    parts = [
        f"`{found.command}`, seeds {seeds}, commit {found.commit}. {found.machine}",
        _kill_table(kills),
        _cause_table(kills),
        _point_table(kills),
        _power_table(powers),
    ]
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + BEGIN + "\n\n" + "\n\n".join(parts) + "\n\n" + END + after)


# -- tables -----------------------------------------------------------------------------------------------------------


def _kill_table(results: Sequence[KillResult]) -> str:
    rows = []
    for kind in VICTIMS:
        of_kind = [result for result in results if result.kind == kind]
        if not of_kind:
            continue
        faults = [fault for result in of_kind for fault in result.faults]
        down = [result.down_ms for result in of_kind]
        rows.append(
            (
                kind,
                len(of_kind),
                sum(result.valid for result in of_kind),
                f"{sum(result.messages for result in of_kind):,}",
                f"{sum(result.notifications for result in of_kind):,}",
                f"{sum(result.deliveries for result in of_kind):,}",
                _count(faults, LOST),
                _count(faults, ("notification lost",)),
                _count(faults, INVENTED),
                _count(faults, ORDER),
                f"{statistics.median(down):,.0f} / {max(down):,} ms",
            )
        )
    heads = (
        "killed",
        "rounds",
        "valid",
        "acknowledged sends",
        "acknowledged publishes",
        "deliveries",
        "messages lost",
        "notifications lost",
        "invented",
        "order broken",
        "back after, median / worst",
    )
    return _table(heads, rows)


def _cause_table(results: Sequence[KillResult]) -> str:
    rows = []
    for cause in CAUSES:
        counts = [sum(result.duplicates.get(cause, 0) for result in results if result.kind == kind) for kind in VICTIMS]
        rows.append((cause, *[f"{n:,}" for n in counts]))
    unknown = [
        _count([fault for result in results if result.kind == kind for fault in result.faults], ("duplicate",))
        for kind in VICTIMS
    ]
    rows.append(("none that is known (a fault)", *[str(n) for n in unknown]))
    return _table(("cause of duplicates", *VICTIMS), rows)


def _point_table(results: Sequence[KillResult]) -> str:
    rounds: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    valid: Counter[str] = Counter()
    for result in results:
        point = result.place.partition(":")[0]
        rounds[point] += 1
        reached[point] += result.reached
        valid[point] += result.valid
    points = sorted(rounds, key=lambda point: (point != RANDOM_TIME, point))
    rows = [(point, rounds[point], reached[point], valid[point]) for point in points]
    return _table(("killed at", "rounds", "reached", "valid"), rows)


def _power_table(results: Sequence[PowerResult]) -> str:
    cuts: Counter[str] = Counter()
    for result in results:
        cuts.update(result.cuts)
    faulty = Counter(name for result in results for fault in result.faults for name in cuts if f"({name}, " in fault)
    rows = [(name, n, 2 * n, faulty[name]) for name, n in cuts.items()]
    summary = (
        f"Power loss: {len(results)} rounds, {sum(result.valid for result in results)} valid,"
        f" {sum(result.acknowledged for result in results):,} acknowledged calls,"
        f" {sum(result.records for result in results):,} writes and syncs recorded,"
        f" {sum(result.checkpoints for result in results):,} checkpoints."
    )
    return summary + "\n\n" + _table(("power cut", "cuts", "reopenings", "broken promises"), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _count(faults: Iterable[str], kinds: tuple[str, ...]) -> int:
    return sum(1 for fault in faults if fault.partition(":")[0] in kinds)


# -- facts ------------------------------------------------------------------------------------------------------------


def _commit() -> str:
    commit = _git("rev-parse", "--short", "HEAD")
    return f"{commit} with changes" if _git("status", "--porcelain", "--untracked-files=no") else commit


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or ("unknown" if done.returncode else "")


def _machine() -> str:
    return (
        f"Linux {platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()},"
        f" SQLite {apsw.sqlite_lib_version()}; an fsync takes {_sync_ms():.2f} ms."
    )


def _sync_ms() -> float:
    """The median of a few, where the rounds' data lies."""
    times_s = []
    with tempfile.TemporaryFile() as file:
        for _ in range(SYNCS_MEASURED):
            file.write(bytes(4096))
            file.flush()
            began_s = time.perf_counter()
            os.fsync(file.fileno())
            times_s.append(time.perf_counter() - began_s)
    return statistics.median(times_s) * 1000
