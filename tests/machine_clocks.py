"""The clocks of a machine, advanced and set by a test."""

from __future__ import annotations

from cns_common.clock import Clock

START_NS = 1_760_000_000 * 1_000_000_000


class MachineClocks:
    """`wall_ns` and `monotonic_ns` are what they show. `stopped_ns`: how long the process is stopped after each reading
    of the wall clock."""

    def __init__(self, wall_ns: int = START_NS) -> None:
        self.wall_ns = wall_ns
        self.monotonic_ns = 5_000_000_000
        self.stopped_ns = 0
        self._others: list[MachineClocks] = []

    def clock(self, *, test: bool = False) -> Clock:
        """The clock of another process of this machine."""
        return Clock(test=test, wall_ns=self._wall, monotonic_ns=lambda: self.monotonic_ns)

    def runs_with(self, other: MachineClocks) -> None:
        """Run whenever the clocks of another machine run."""
        other._others.append(self)

    def run(self, by_ns: int) -> None:
        self.wall_ns += by_ns
        self.monotonic_ns += by_ns
        for other in self._others:
            other.run(by_ns)

    def step(self, by_ns: int) -> None:
        """Set the wall clock. A suspended laptop looks the same: CLOCK_MONOTONIC stands still meanwhile."""
        self.wall_ns += by_ns

    def _wall(self) -> int:
        now_ns = self.wall_ns
        self.run(self.stopped_ns)
        return now_ns
