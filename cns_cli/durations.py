"""Durations as options of commands write them: 90s, 45m, 2h, 3d."""

from __future__ import annotations

import re

_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int | None:
    """Return the milliseconds, or None if the text is not a duration."""
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * _UNIT_MS[found[2]]
