"""The regions in which an account has ARNs, of a table that is sorted by ARN: two look-ups per region of the table."""

from __future__ import annotations

from typing import Any

import apsw

_PREFIX = "arn:aws:sns:"
_AFTER_COLON = ";"
"""Sorts after all that begins with a colon."""


class ArnRegions:
    def __init__(self, table: str) -> None:
        self._next = f"SELECT arn FROM {table} WHERE arn >= ? AND arn < ? ORDER BY arn LIMIT 1"

    def of(self, reader: apsw.Connection, account: str) -> list[str]:
        """Sorted."""
        found: list[str] = []
        start, end = _PREFIX, _PREFIX + "\x7f"
        while (arn := self._first(reader, start, end)) is not None:
            region = arn.split(":", 4)[3]
            own = f"{_PREFIX}{region}:{account}"
            if self._first(reader, f"{own}:", own + _AFTER_COLON) is not None:
                found.append(region)
            start = f"{_PREFIX}{region}{_AFTER_COLON}"
        return found

    def _first(self, reader: apsw.Connection, start: str, end: str) -> str | None:
        row: Any = reader.execute(self._next, (start, end)).fetchone()
        return None if row is None else row[0]
