"""The accounting of the attack programs: `tests.attacks`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tests.attacks.measure import (
    GROWTH_BYTES_MAX,
    LOG_BYTES_MAX,
    Outcome,
    Tally,
    peak_bytes,
    percentile,
    reset_peak,
    resident_bytes,
    table,
)


def outcome(
    growth_bytes: int = 0, log_bytes: int = 0, latencies_ms: Sequence[float] = (1.0,), failures: Sequence[str] = ()
) -> Outcome:
    return Outcome(
        name="an attack",
        tally=Tally(connections=3, sent_bytes=2_500_000, ended=1),
        growth_bytes=growth_bytes,
        log_bytes=log_bytes,
        latencies_ms=latencies_ms,
        failures=failures,
    )


@pytest.mark.parametrize(
    ("measured", "faults"),
    [
        (outcome(GROWTH_BYTES_MAX, LOG_BYTES_MAX), []),
        (outcome(GROWTH_BYTES_MAX + 1), ["memory"]),
        (outcome(latencies_ms=[1.0] * 98 + [100.0] * 2), ["latency"]),
        (outcome(latencies_ms=[1.0] * 99 + [5_000.0]), []),
        (outcome(latencies_ms=[]), ["latency"]),
        (outcome(log_bytes=LOG_BYTES_MAX + 1), ["log"]),
        (outcome(failures=["failed 503"]), ["failed calls"]),
    ],
)
def test_bars(measured: Outcome, faults: list[str]) -> None:
    assert measured.faults == faults


def test_percentiles() -> None:
    values = [float(number) for number in range(1, 201)]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 100.0, 198.0, 200.0]


def test_the_table() -> None:
    head, line = table([outcome(1_500_000, failures=["failed 503"])]).splitlines()
    assert head.split()[:3] == ["attack", "connections", "ended"]
    assert line.split() == ["an", "attack", "3", "1", "2.5", "1.5", "0.0", "2", "1", "1.0", "failed", "calls"]


def test_the_peak_is_of_what_came_after_its_reset() -> None:
    pid = os.getpid()
    reset_peak(pid)
    before = resident_bytes(pid)
    held = b"x" * 50_000_000
    assert peak_bytes(pid) - before > 40_000_000
    del held
    assert peak_bytes(pid) - before > 40_000_000
    reset_peak(pid)
    assert peak_bytes(pid) - before < 40_000_000
