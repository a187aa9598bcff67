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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import apsw
import botocore

from lab.faults.accounting.causes import (
    CLIENT_RETRY,
    CRASH_BEFORE_RECEIVE,
    CRASH_BEFORE_SETTLE,
    HIDING_LOST,
    LEASE_OVER,
    MOVE_CUT_OFF,
    SETTLEMENT_FAILED,
)
from lab.faults.cluster.plan import CLUSTER_KINDS
from lab.faults.restarts.forms import FORMS
from lab.faults.results import ClusterResult, KillResult, PowerResult, RestartResult, RoundResult
from lab.faults.service.kills import RANDOM_TIME, VICTIMS
from lab.harness.processes import ROOT

SUMMARY_BEGIN = "<!-- summary, written by make faults: begin -->"
SUMMARY_END = "<!-- summary, written by make faults: end -->"
BEGIN = "<!-- written by make faults: begin -->"
END = "<!-- written by make faults: end -->"
POWER_BEGIN = "<!-- power loss, written by make faults: begin -->"
POWER_END = "<!-- power loss, written by make faults: end -->"
CLUSTER_BEGIN = "<!-- the cluster, written by make faults: begin -->"
CLUSTER_END = "<!-- the cluster, written by make faults: end -->"
RESTARTS_BEGIN = "<!-- restarts, written by make faults: begin -->"
RESTARTS_END = "<!-- restarts, written by make faults: end -->"
SYNCS_MEASURED = 50
EMBEDDED_CAUSES = (CLIENT_RETRY, LEASE_OVER, CRASH_BEFORE_RECEIVE, CRASH_BEFORE_SETTLE)
CLUSTER_CAUSES = (CLIENT_RETRY, LEASE_OVER, HIDING_LOST, CRASH_BEFORE_SETTLE, SETTLEMENT_FAILED, MOVE_CUT_OFF)
KILL_HEADS = (
    "killed",
    "rounds",
    "valid",
    "acknowledged sends",
    "acknowledged publishes",
    "of them to the FIFO topic",
    "deliveries",
    "messages lost",
    "notifications lost",
    "invented",
    "order broken",
)
BACK_HEAD = "recovered after, median / worst"
FAILING_HEADS = ("failed attempts at failing endpoints", "circuit breakers opened", "dead letters")
REPEATED_HEAD = "oldest answer before the kill that was sent again"
WAIT_HEAD = "longest wait of a sender for its acknowledgement, median / worst"
BODIES_HEAD = "unreferenced FIFO bodies"
RESTART_HEADS = ("killed", "stopped", "all replaced", "calls", "reported as failed", "attempts repeated")
DONE_HEAD = "repeats refused since the first attempt had its effect"
LOST = ("lost", "never deleted", "stuck")
INVENTED = ("invented", "came back", "twice", "dedup", "received too often", "moved again")
ORDER = ("order", "sequence", "two in flight", "lock")
_VERSION = re.compile(r"<version>(\d+\.\d+\.\d+)</version>")

Result = RoundResult | PowerResult
Killed = TypeVar("Killed", KillResult, ClusterResult, RestartResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    command: str
    commit: str
    machine: str


def facts(command: str) -> Facts:
    return Facts(command=command, commit=_commit(), machine=_machine())


def write_summary(page: Path, results: Sequence[Result]) -> None:
    """Put the result of all rounds on record between its markers, one line a part."""
    kills = [result for result in results if isinstance(result, KillResult)]
    power = [result for result in results if isinstance(result, PowerResult)]
    cluster = [result for result in results if isinstance(result, ClusterResult)]
    restarts = [result for result in results if isinstance(result, RestartResult)]
    lines = [
        *_kill_summary("`kill -9` of the API, the worker or both (embedded)", kills),
        *_power_summary(power),
        *_kill_summary("`kill -9` of Redis, a Cassandra node of three, an API process or a worker (cluster)", cluster),
        *_restart_summary(restarts),
        *_duplicate_summary([*kills, *cluster, *restarts]),
        *_recovery_summary(kills, cluster),
    ]
    _put(page, SUMMARY_BEGIN, SUMMARY_END, ["\n".join(f"- {line}" for line in lines)])


def write_kill_report(page: Path, found: Facts, results: Sequence[KillResult]) -> None:
    """Put the tables of the embedded form's kills between their markers of the page."""
    parts = [
        _facts_line(found, results, _sqlite()),
        _table((*KILL_HEADS, *FAILING_HEADS, REPEATED_HEAD, BACK_HEAD), _kill_rows(results)),
        _cause_table(results, tuple(VICTIMS), EMBEDDED_CAUSES),
        _point_table(results),
    ]
    _put(page, BEGIN, END, parts)


def write_power_report(page: Path, found: Facts, results: Sequence[PowerResult]) -> None:
    """Put the table of the power losses between its markers of the page."""
    _put(page, POWER_BEGIN, POWER_END, [_facts_line(found, results, _sqlite()), _power_table(results)])


def write_cluster_report(page: Path, found: Facts, results: Sequence[ClusterResult]) -> None:
    """Put the tables of the cluster's kills between their markers of the page."""
    parts = [
        _facts_line(found, results, f"Cassandra {_cassandra_version()}, {_redis_version()}"),
        _table((*KILL_HEADS, BACK_HEAD, WAIT_HEAD, BODIES_HEAD), _cluster_rows(results)),
        _cause_table(results, CLUSTER_KINDS, CLUSTER_CAUSES),
    ]
    _put(page, CLUSTER_BEGIN, CLUSTER_END, parts)


def write_restart_report(page: Path, found: Facts, results: Sequence[RestartResult]) -> None:
    """Put the tables of the restarts under SDKs between their markers of the page."""
    cut = {kind: _cut_attempts(of_kind) for kind, of_kind in _by_kind(results, FORMS)}
    events = sorted({event for counts in cut.values() for event in counts})
    heads = ("form", *KILL_HEADS[1:], *RESTART_HEADS, DONE_HEAD)
    parts = [
        _facts_line(found, results, f"botocore {botocore.__version__}"),
        _table(heads, _restart_rows(results)),
        _table(("attempts that failed", *cut), [(event, *[n[event] for n in cut.values()]) for event in events]),
        _cause_table(results, FORMS, EMBEDDED_CAUSES),
    ]
    _put(page, RESTARTS_BEGIN, RESTARTS_END, parts)


def _put(page: Path, begin: str, end: str, parts: Sequence[str]) -> None:
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(before + begin + "\n\n" + "\n\n".join(parts) + "\n\n" + end + after)


def _facts_line(found: Facts, results: Sequence[Result], storage: str) -> str:
    seeds = f"{min(result.seed for result in results)}–{max(result.seed for result in results)}"
    return f"`{found.command}`, seeds {seeds}, commit {found.commit}. {found.machine}, {storage}."


# -- summary ----------------------------------------------------------------------------------------------------------


def _kill_summary(title: str, results: Sequence[RoundResult]) -> list[str]:
    if not results:
        return []
    faults = [fault for result in results for fault in result.faults]
    return [
        f"**{title}: {_valid(results)}.** {sum(result.messages for result in results):,} sends and"
        f" {sum(result.notifications for result in results):,} publishes were acknowledged:"
        f" {_count(faults, (*LOST, 'notification lost'))} lost, {_count(faults, INVENTED)} invented,"
        f" {_count(faults, ORDER)} out of FIFO order."
    ]


def _power_summary(results: Sequence[PowerResult]) -> list[str]:
    if not results:
        return []
    return [
        f"**Power loss: {_valid(results)}.** {sum(sum(result.cuts.values()) for result in results):,} cuts, each disk"
        f" reopened twice, {sum(result.acknowledged for result in results):,} acknowledged calls:"
        f" {sum(len(result.faults) for result in results)} broken guarantees."
    ]


def _restart_summary(results: Sequence[RestartResult]) -> list[str]:
    if not results:
        return []
    faults = [fault for result in results for fault in result.faults]
    return [
        f"**Processes killed, stopped and replaced under boto3 with its defaults: {_valid(results)}.**"
        f" {sum(sum(result.kills.values()) for result in results)} kills,"
        f" {sum(result.stops for result in results)} stops, {sum(result.restarts for result in results)} times all"
        f" processes; {sum(result.calls for result in results):,} calls:"
        f" {sum(result.failed for result in results)} reported as failed,"
        f" {_count(faults, (*LOST, 'notification lost'))} lost."
    ]


def _duplicate_summary(results: Sequence[RoundResult]) -> list[str]:
    if not results:
        return []
    unknown = _count([fault for result in results for fault in result.faults], ("duplicate",))
    known = sum(sum(result.duplicates.values()) for result in results)
    oldest_ms = max((result.repeated_ms for result in results if isinstance(result, KillResult)), default=0)
    return [
        f"**Duplicates**: {known:,} with a cause that permits them (an unanswered call sent again, a lease that ended,"
        f" a crash before the settlement), {unknown} without. No delivery that was answered more than {oldest_ms} ms"
        " before a kill of the embedded form was sent again."
    ]


def _recovery_summary(kills: Sequence[KillResult], cluster: Sequence[ClusterResult]) -> list[str]:
    forms = {"embedded": [result.down_ms for result in kills], "cluster": [result.down_ms for result in cluster]}
    times = [f"{form} {_middle_and_worst(times_ms)}" for form, times_ms in forms.items() if times_ms]
    return [f"**Recovered after the kill**, median / worst: {', '.join(times)}."] if times else []


def _valid(results: Sequence[Result]) -> str:
    return f"{sum(result.valid for result in results)} of {len(results)} rounds valid"


# -- tables -----------------------------------------------------------------------------------------------------------


def _kill_rows(results: Sequence[KillResult]) -> list[tuple[object, ...]]:
    return [
        (
            *_counts(kind, of_kind),
            f"{sum(result.failed for result in of_kind):,}",
            f"{sum(result.breakers for result in of_kind):,}",
            f"{sum(result.dead_letters for result in of_kind):,}",
            f"{max(result.repeated_ms for result in of_kind):,} ms",
            _middle_and_worst([result.down_ms for result in of_kind]),
        )
        for kind, of_kind in _by_kind(results, tuple(VICTIMS))
    ]


def _cluster_rows(results: Sequence[ClusterResult]) -> list[tuple[object, ...]]:
    return [
        (
            *_counts(kind, of_kind),
            _middle_and_worst([result.down_ms for result in of_kind]),
            _middle_and_worst([result.wait_ms for result in of_kind]),
            sum(result.bodies for result in of_kind),
        )
        for kind, of_kind in _by_kind(results, CLUSTER_KINDS)
    ]


def _restart_rows(results: Sequence[RestartResult]) -> list[tuple[object, ...]]:
    return [
        (
            *_counts(kind, of_kind),
            ", ".join(f"{name} {n}" for result in of_kind for name, n in sorted(result.kills.items())),
            *[sum(getattr(result, name) for result in of_kind) for name in ("stops", "restarts", "calls")],
            *[sum(getattr(result, name) for result in of_kind) for name in ("failed", "repeated", "done_before")],
        )
        for kind, of_kind in _by_kind(results, FORMS)
    ]


def _cut_attempts(results: Sequence[RestartResult]) -> Counter[str]:
    """By error and what was done before, without the number of the process."""
    counts: Counter[str] = Counter()
    for result in results:
        for event, n in result.cut.items():
            counts[re.sub(r"-\d", "", event)] += n
    return counts


def _by_kind(results: Sequence[Killed], kinds: Sequence[str]) -> list[tuple[str, list[Killed]]]:
    by_kind = [(kind, [result for result in results if result.kind == kind]) for kind in kinds]
    return [(kind, of_kind) for kind, of_kind in by_kind if of_kind]


def _counts(kind: str, results: Sequence[RoundResult]) -> tuple[object, ...]:
    """The cells under `KILL_HEADS`."""
    faults = [fault for result in results for fault in result.faults]
    return (
        kind,
        len(results),
        sum(result.valid for result in results),
        f"{sum(result.messages for result in results):,}",
        f"{sum(result.notifications for result in results):,}",
        f"{sum(result.in_order for result in results):,}",
        f"{sum(result.deliveries for result in results):,}",
        _count(faults, LOST),
        _count(faults, ("notification lost",)),
        _count(faults, INVENTED),
        _count(faults, ORDER),
    )


def _middle_and_worst(times_ms: Sequence[int]) -> str:
    return f"{statistics.median(times_ms):,.0f} / {max(times_ms):,} ms"


def _cause_table(results: Sequence[RoundResult], kinds: Sequence[str], known_causes: Sequence[str]) -> str:
    rows = []
    for cause in known_causes:
        counts = [sum(result.duplicates.get(cause, 0) for result in results if result.kind == kind) for kind in kinds]
        rows.append((cause, *[f"{n:,}" for n in counts]))
    unknown = [
        _count([fault for result in results if result.kind == kind for fault in result.faults], ("duplicate",))
        for kind in kinds
    ]
    rows.append(("none that is known (a fault)", *[str(n) for n in unknown]))
    return _table(("cause of duplicates", *kinds), rows)


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
    return summary + "\n\n" + _table(("power cut", "cuts", "reopenings", "broken guarantees"), rows)


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
    return f"Linux {platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _sqlite() -> str:
    return f"SQLite {apsw.sqlite_lib_version()}; an fsync takes {_sync_ms():.2f} ms"


def _cassandra_version() -> str:
    """The version that `deploy/servers` starts."""
    found = _VERSION.search((ROOT / "deploy" / "servers" / "pom.xml").read_text())
    return found[1] if found else "unknown"


def _redis_version() -> str:
    """Read from a line like "Redis server v=7.0.15 sha=…"."""
    line = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    return f"Redis {line.split('v=')[1].split()[0]}"


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
