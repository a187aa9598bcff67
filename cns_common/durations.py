"""Lengths of time in the units of their names."""

from __future__ import annotations

HOUR_S = 3_600
HOUR_MS = HOUR_S * 1_000
DAY_MS = 24 * HOUR_MS
