"""A length of time as the words of a command say it: 90s, 45m, 2h, 3d."""

from __future__ import annotations

import re

_SPAN = re.compile(r"([0-9]{1,9})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def span_ms(text: str) -> int | None:
    """None: it is no such word."""
    span = _SPAN.fullmatch(text)
    return None if span is None else int(span[1]) * _UNIT_MS[span[2]]
