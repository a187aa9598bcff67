"""Parses durations and times in options: 90s, 45m, 2h, 3d; 2026-11-21T08:00."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int | None:
    """Return the milliseconds, or None if the text is not a duration."""
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * _UNIT_MS[found[2]]


def time_ms(text: str, now_ms: int) -> int:
    """The time of a text: an age such as `2h`, or a time in UTC; 0 for an empty text. Raises ValueError."""
    if not text:
        return 0
    ago_ms = duration_ms(text)
    if ago_ms is not None:
        return now_ms - ago_ms
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text} is neither a time like 2026-11-21T08:00 (UTC) nor a span like 10m, 2h, 1d") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
