"""The cost of an attack: memory of a process, latency of normal calls during it, bytes written to the log."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.harness.waiting import wait_until

GROWTH_BYTES_MAX = 100_000_000
P99_MS_MAX = 100.0
LOG_BYTES_MAX = 1_000_000
CALLS_S = 120.0
"""The longest wait for normal calls beside an attack; they fail the attack, not the program, when they are slow."""
MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of an attack: connections opened, bytes sent, connections that the service closed."""

    connections: int = 0
    sent_bytes: int = 0
    ended: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Figures of one attack. `growth_bytes`: peak of resident memory minus resident memory at the start."""

    name: str
    tally: Tally
    growth_bytes: int
    log_bytes: int
    latencies_ms: Sequence[float]
    failures: Sequence[str]

    @property
    def p99_ms(self) -> float:
        return percentile(self.latencies_ms, 0.99)

    @property
    def faults(self) -> list[str]:
        """The bars that the attack missed."""
        missed = {
            "memory": self.growth_bytes > GROWTH_BYTES_MAX,
            "latency": not self.p99_ms < P99_MS_MAX,
            "log": self.log_bytes > LOG_BYTES_MAX,
            "failed calls": bool(self.failures),
        }
        return [name for name, is_missed in missed.items() if is_missed]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values do not exceed; NaN without values."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


# -- memory ------------------------------------------------------------------------------------------------------------


def resident_bytes(pid: int) -> int:
    return _status_bytes(pid, "VmRSS")


def peak_bytes(pid: int) -> int:
    """Peak of resident memory since `reset_peak`."""
    return _status_bytes(pid, "VmHWM")


def reset_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _status_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name} of process {pid}")


# -- latency -----------------------------------------------------------------------------------------------------------


class LatencyProbe:
    """`tests.attacks.probe` in its own process; see `probing`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.latencies_ms: list[float] = []
        self.failures: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __len__(self) -> int:
        return len(self.latencies_ms) + len(self.failures)

    def wait_for_calls(self, n: int) -> None:
        """Wait until so many more calls were answered or failed."""
        until = len(self) + n
        wait_until(lambda: len(self) >= until or self._process.poll() is not None, lambda: "calls hang")
        assert self._process.poll() is None, "the probe has ended"

    def forget(self) -> None:
        self.latencies_ms.clear()
        self.failures.clear()

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(CALLS_S)
        self._reader.join(CALLS_S)
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("failed"):
                self.failures.append(line.strip())
            else:
                self.latencies_ms.append(float(line))


@contextmanager
def probing(url: str, environment: Mapping[str, str]) -> Iterator[LatencyProbe]:
    """Normal calls to this address, with the keys of the environment, until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.attacks.probe", url],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    probe = LatencyProbe(process)
    try:
        yield probe
    finally:
        probe.end()


# -- all together ------------------------------------------------------------------------------------------------------


def measure(
    name: str, attack: Callable[[], Tally], *, pid: int, start_bytes: int, probe: LatencyProbe, said: Callable[[], int]
) -> Outcome:
    """Run the attack, which itself waits for calls beside it. `start_bytes` was resident before all attacks; `said` is
    the size of the service's log in bytes."""
    log_before = said()
    reset_peak(pid)
    probe.forget()
    tally = attack()
    return Outcome(
        name=name,
        tally=tally,
        growth_bytes=max(0, peak_bytes(pid) - start_bytes),
        log_bytes=said() - log_before,
        latencies_ms=tuple(probe.latencies_ms),
        failures=tuple(probe.failures),
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """A table with one line for each attack. The last column names the missed bars."""
    head = ("attack", "connections", "ended", "sent MB", "growth MB", "log kB", "calls", "failed", "p99 ms", "")
    rows = [head, *(_row(outcome) for outcome in outcomes)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    lines = [
        "  ".join(text.ljust(width) if at in (0, len(head) - 1) else text.rjust(width) for at, (text, width) in cells)
        for cells in (list(enumerate(zip(row, widths, strict=True))) for row in rows)
    ]
    return "\n".join(line.rstrip() for line in lines)


def _row(outcome: Outcome) -> tuple[str, ...]:
    return (
        outcome.name,
        str(outcome.tally.connections),
        str(outcome.tally.ended),
        f"{outcome.tally.sent_bytes / MB:.1f}",
        f"{outcome.growth_bytes / MB:.1f}",
        f"{outcome.log_bytes / 1000:.1f}",
        str(len(outcome.latencies_ms) + len(outcome.failures)),
        str(len(outcome.failures)),
        f"{outcome.p99_ms:.1f}",
        ", ".join(outcome.faults) or "ok",
    )
