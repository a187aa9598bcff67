"""The summary and the tables of docs/reliability.md: the findings of the rounds, and the machine they ran on."""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import botocore

from lab.bench.tables import table
from lab.faults.accounting.causes import (
    CLIENT_RETRY,
    CRASH_BEFORE_RECEIVE,
    CRASH_BEFORE_SETTLE,
    HIDING_LOST,
    LEASE_OVER,
    MOVE_CUT_OFF,
    SETTLEMENT_FAILED,
)
from lab.faults.accounting.ledger import grouped
from lab.faults.cluster.plan import CLUSTER_KINDS
from lab.faults.restarts.forms import FORMS
from lab.faults.results import ClusterResult, KillResult, LoadResult, PowerResult, RestartResult, RoundResult
from lab.faults.service.kills import RANDOM_TIME, VICTIMS
from lab.harness.processes import ROOT

SYNCS_MEASURED = 50
EMBEDDED_CAUSES = (CLIENT_RETRY, LEASE_OVER, CRASH_BEFORE_RECEIVE, CRASH_BEFORE_SETTLE)
CLUSTER_CAUSES = (CLIENT_RETRY, LEASE_OVER, HIDING_LOST, CRASH_BEFORE_SETTLE, SETTLEMENT_FAILED, MOVE_CUT_OFF)
LOST = ("lost", "never deleted", "stuck")
NOTIFICATION_LOST = "notification lost"
INVENTED = ("invented", "came back", "twice", "dedup", "received too often", "moved again")
ORDER = ("order", "sequence", "two in flight", "lock")
SUMMARY = "summary, "
_VERSION = re.compile(r"<version>(\d+\.\d+\.\d+)</version>")

Cell = Callable[[Sequence[Any]], object]
"""The text of a column for the results of one kind."""


class Facts(NamedTuple):
    command: str
    commit: str
    machine: str


class Section(NamedTuple):
    """A part of the page: a table with a row for each kind of round, and more tables."""

    marker: str
    storage: Callable[[], str]
    head: str
    columns: Mapping[str, Cell]
    kinds: Sequence[str]
    causes: Sequence[str]
    more: Callable[[Sequence[Any]], list[str]] = lambda _: []


def facts(command: str) -> Facts:
    machine = f"Linux {platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return Facts(command, _commit(), machine)


def write_summary(page: Path, results: Sequence[RoundResult]) -> None:
    """Put the result of all rounds on record between its markers, one line a part."""
    lines = _summary(
        [result for result in results if isinstance(result, KillResult)],
        [result for result in results if isinstance(result, PowerResult)],
        [result for result in results if isinstance(result, ClusterResult)],
        [result for result in results if isinstance(result, RestartResult)],
    )
    _put(page, SUMMARY, ["\n".join(f"- {line}" for line in lines)])


def write_part(page: Path, part: str, found: Facts, results: Sequence[Any]) -> None:
    """Put the tables of one part between their markers of the page."""
    section = SECTIONS[part]
    seeds = f"{min(result.seed for result in results)}–{max(result.seed for result in results)}"
    first = f"`{found.command}`, seeds {seeds}, commit {found.commit}. {found.machine}, {section.storage()}."
    tables = [] if part == "power" else [_kind_table(section, results), _cause_table(section, results)]
    _put(page, section.marker, [first, *tables, *section.more(results)])


def _put(page: Path, marker: str, parts: Sequence[str]) -> None:
    begin, end = (f"<!-- {marker}written by make faults: {which} -->" for which in ("begin", "end"))
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(before + begin + "\n\n" + "\n\n".join(parts) + "\n\n" + end + after)


# -- summary ----------------------------------------------------------------------------------------------------------


def _summary(
    kills: Sequence[KillResult],
    power: Sequence[PowerResult],
    cluster: Sequence[ClusterResult],
    restarts: Sequence[RestartResult],
) -> list[str]:
    lines = _kill_summary("`kill -9` of the API, the worker or both (embedded)", kills)
    if power:
        cuts = sum(sum(result.cuts.values()) for result in power)
        lines.append(
            f"**Power loss: {_valid_of(power)}.** {cuts:,} cuts, each disk reopened twice,"
            f" {total('acknowledged')(power)} acknowledged calls: {_count(power)} broken guarantees."
        )
    lines += _kill_summary(
        "`kill -9` of Redis, a Cassandra node of three, an API process or a worker (cluster)", cluster
    )
    if restarts:
        lines.append(
            f"**Processes killed, stopped and replaced under boto3 with its defaults: {_valid_of(restarts)}.**"
            f" {sum(sum(result.kills.values()) for result in restarts)} kills, {total('stops')(restarts)} stops,"
            f" {total('restarts')(restarts)} times all processes; {total('calls')(restarts)} calls:"
            f" {total('failed')(restarts)} reported as failed, {_count(restarts, *LOST, NOTIFICATION_LOST)} lost."
        )
    rounds: list[LoadResult] = [*kills, *cluster, *restarts]
    if rounds:
        oldest_ms = max((result.repeated_ms for result in kills), default=0)
        lines.append(
            f"**Duplicates**: {sum(sum(result.duplicates.values()) for result in rounds):,} with a cause that permits"
            " them (an unanswered call sent again, a lease that ended, a crash before the settlement),"
            f" {_count(rounds, 'duplicate')} without. No delivery that was answered more than {oldest_ms} ms before a"
            " kill of the embedded form was sent again."
        )
    times = [f"{form} {spread('down_ms')(of)}" for form, of in (("embedded", kills), ("cluster", cluster)) if of]
    return lines + ([f"**Recovered after the kill**, median / worst: {', '.join(times)}."] if times else [])


def _kill_summary(title: str, results: Sequence[LoadResult]) -> list[str]:
    if not results:
        return []
    return [
        f"**{title}: {_valid_of(results)}.** {total('messages')(results)} sends and {total('notifications')(results)}"
        f" publishes were acknowledged: {_count(results, *LOST, NOTIFICATION_LOST)} lost,"
        f" {_count(results, *INVENTED)} invented, {_count(results, *ORDER)} out of FIFO order."
    ]


def _valid_of(results: Sequence[RoundResult]) -> str:
    return f"{_valid(results)} of {len(results)} rounds valid"


# -- tables -----------------------------------------------------------------------------------------------------------


def total(member: str) -> Cell:
    return lambda results: f"{sum(getattr(result, member) for result in results):,}"


def spread(member: str) -> Cell:
    """Median and worst of a time."""

    def cell(results: Sequence[Any]) -> str:
        times_ms = [getattr(result, member) for result in results]
        return f"{statistics.median(times_ms):,.0f} / {max(times_ms):,} ms"

    return cell


def faults(*kinds: str) -> Cell:
    return lambda results: _count(results, *kinds)


def _count(results: Sequence[RoundResult], *kinds: str) -> int:
    """The number of faults of these kinds, or of any."""
    found = [fault.partition(":")[0] for result in results for fault in result.faults]
    return sum(kind in kinds or not kinds for kind in found)


def _valid(results: Sequence[RoundResult]) -> int:
    return sum(result.valid for result in results)


def _kind_table(section: Section, results: Sequence[LoadResult]) -> str:
    columns = {**COLUMNS, **section.columns}
    of_kinds = [(kind, [result for result in results if result.kind == kind]) for kind in section.kinds]
    rows = [(kind, *[cell(of_kind) for cell in columns.values()]) for kind, of_kind in of_kinds if of_kind]
    return _table((section.head, *columns), rows)


def _cause_table(section: Section, results: Sequence[LoadResult]) -> str:
    of_kinds = [[result for result in results if result.kind == kind] for kind in section.kinds]
    rows: list[tuple[object, ...]] = [
        (cause, *[f"{sum(result.duplicates.get(cause, 0) for result in of_kind):,}" for of_kind in of_kinds])
        for cause in section.causes
    ]
    rows.append(("none that is known (a fault)", *[_count(of_kind, "duplicate") for of_kind in of_kinds]))
    return _table(("cause of duplicates", *section.kinds), rows)


def _point_table(results: Sequence[KillResult]) -> list[str]:
    """By named point, random times first."""
    of_points = grouped(results, lambda result: result.place.partition(":")[0])
    points = sorted(of_points.items(), key=lambda pair: (pair[0] != RANDOM_TIME, pair[0]))
    rows = [(point, len(of), total("reached")(of), _valid(of)) for point, of in points]
    return [_table(("killed at", "rounds", "reached", "valid"), rows)]


def _power_table(results: Sequence[PowerResult]) -> list[str]:
    cuts: Counter[str] = Counter()
    for result in results:
        cuts.update(result.cuts)
    faulty = Counter(name for result in results for fault in result.faults for name in cuts if f"({name}, " in fault)
    rows = [(name, n, 2 * n, faulty[name]) for name, n in cuts.items()]
    summary = (
        f"Power loss: {len(results)} rounds, {_valid(results)} valid, {total('acknowledged')(results)} acknowledged"
        f" calls, {total('records')(results)} writes and syncs recorded, {total('checkpoints')(results)} checkpoints."
    )
    return [summary, _table(("power cut", "cuts", "reopenings", "broken guarantees"), rows)]


def _attempt_table(results: Sequence[RestartResult]) -> list[str]:
    """Attempts that failed, by error and what was done before, without the number of the process."""
    cut: dict[str, Counter[str]] = {kind: Counter() for kind in FORMS if any(one.kind == kind for one in results)}
    for result in results:
        for event, n in result.cut.items():
            cut[result.kind][re.sub(r"-\d", "", event)] += n
    events = sorted({event for counts in cut.values() for event in counts})
    rows = [(event, *[counts[event] for counts in cut.values()]) for event in events]
    return [_table(("attempts that failed", *cut), rows)]


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return "\n".join(table(heads, rows))


# -- facts ------------------------------------------------------------------------------------------------------------


def _commit() -> str:
    commit = _output("git", "rev-parse", "--short", "HEAD")
    return f"{commit} with changes" if _output("git", "status", "--porcelain", "--untracked-files=no") else commit


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or ("unknown" if done.returncode else "")


def _sqlite() -> str:
    return f"SQLite {apsw.sqlite_lib_version()}; an fsync takes {_sync_ms():.2f} ms"


def _cluster_servers() -> str:
    """The versions that `deploy/servers` starts; Redis prints a line like "Redis server v=7.0.15 sha=…"."""
    cassandra = _VERSION.search((ROOT / "deploy" / "servers" / "pom.xml").read_text())
    redis = _output("redis-server", "--version").partition("v=")[2].partition(" ")[0]
    return f"Cassandra {cassandra[1] if cassandra else 'unknown'}, Redis {redis}"


def _sync_ms() -> float:
    """The median time of an fsync on the disk where the rounds keep their data."""
    times_s = []
    with tempfile.TemporaryFile() as file:
        for _ in range(SYNCS_MEASURED):
            file.write(bytes(4096))
            file.flush()
            began_s = time.perf_counter()
            os.fsync(file.fileno())
            times_s.append(time.perf_counter() - began_s)
    return statistics.median(times_s) * 1000


COLUMNS: dict[str, Cell] = {
    "rounds": len,
    "valid": _valid,
    "acknowledged sends": total("messages"),
    "acknowledged publishes": total("notifications"),
    "of them to the FIFO topic": total("in_order"),
    "deliveries": total("deliveries"),
    "messages lost": faults(*LOST),
    "notifications lost": faults(NOTIFICATION_LOST),
    "invented": faults(*INVENTED),
    "order broken": faults(*ORDER),
}
KILL_COLUMNS: dict[str, Cell] = {
    "failed attempts at failing endpoints": total("failed"),
    "circuit breakers opened": total("breakers"),
    "dead letters": total("dead_letters"),
    "oldest answer before the kill that was sent again": lambda of: f"{max(one.repeated_ms for one in of):,} ms",
    "recovered after, median / worst": spread("down_ms"),
}
CLUSTER_COLUMNS: dict[str, Cell] = {
    "recovered after, median / worst": spread("down_ms"),
    "longest wait of a sender for its acknowledgement, median / worst": spread("wait_ms"),
    "unreferenced FIFO bodies": total("bodies"),
}
RESTART_COLUMNS: dict[str, Cell] = {
    "killed": lambda of: ", ".join(f"{name} {n}" for one in of for name, n in sorted(one.kills.items())),
    "stopped": total("stops"),
    "all replaced": total("restarts"),
    "calls": total("calls"),
    "reported as failed": total("failed"),
    "attempts repeated": total("repeated"),
    "repeats refused since the first attempt had its effect": total("done_before"),
}
SECTIONS = {
    "kills": Section("", _sqlite, "killed", KILL_COLUMNS, tuple(VICTIMS), EMBEDDED_CAUSES, _point_table),
    "power": Section("power loss, ", _sqlite, "", {}, (), (), _power_table),
    "restarts": Section(
        "restarts, ",
        lambda: f"botocore {botocore.__version__}",
        "form",
        RESTART_COLUMNS,
        FORMS,
        EMBEDDED_CAUSES,
        _attempt_table,
    ),
    "cluster": Section("the cluster, ", _cluster_servers, "killed", CLUSTER_COLUMNS, CLUSTER_KINDS, CLUSTER_CAUSES),
}
