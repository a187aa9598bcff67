"""K: a receive takes one of the oldest K messages at random. A greater K loses fewer races and keeps less of the order
(seed 004, III.B.2)."""

from __future__ import annotations

K_MAX = 1_000
AUTO_K_MAX = 64
CALM_RECEIVES = 20
"""After this many receives without a lost race an automatic K falls by one."""
AUTO = "auto"
NO_ORDER = "inf"


def check_order_hint(text: str) -> str:
    """For EngineOption.check."""
    lowered = text.lower()
    if lowered in (AUTO, NO_ORDER):
        return lowered
    if text.isascii() and text.isdigit() and 1 <= int(text) <= K_MAX:
        return str(int(text))
    raise ValueError(f"must be {AUTO}, {NO_ORDER} or a number from 1 to {K_MAX}")


class AutomaticK:
    """Doubles K when a race with another process is lost, and lowers it by one after `CALM_RECEIVES` without one."""

    def __init__(self) -> None:
        self.k = 1
        self._calm = 0

    def observe(self, lost_races: int) -> None:
        """Adapt K after a receive."""
        if lost_races:
            self.k = min(self.k * 2, AUTO_K_MAX)
            self._calm = 0
            return
        self._calm += 1
        if self._calm >= CALM_RECEIVES:
            self.k = max(self.k - 1, 1)
            self._calm = 0
