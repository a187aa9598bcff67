"""Measures elapsed time by the monotonic and the wall clock, and takes the longer one."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.clock import Clock


class Stopwatch(NamedTuple):
    """A moment on both clocks: the monotonic one stands still while a machine is suspended, the wall clock may be
    set."""

    monotonic_ms: int
    real_ms: int

    def elapsed_ms(self, clock: Clock) -> int:
        return max(clock.monotonic_ms() - self.monotonic_ms, abs(clock.real_ms() - self.real_ms))


def start_stopwatch(clock: Clock) -> Stopwatch:
    return Stopwatch(clock.monotonic_ms(), clock.real_ms())
