"""Removes old dates from the table of events."""

from __future__ import annotations

from cns_pipeline.batches import Contents, date_of, utc_date
from cns_pipeline.tables.manifest import PlacedPart, TableManifest
from cns_pipeline.tables.table import TableWriter


def old_parts(manifest: TableManifest[Contents], keep_days: int, now_ms: int) -> list[PlacedPart]:
    """The parts of dates more than `keep_days` before the newest; 0 keeps all. Rows without a date stay.

    A date after today, UTC, comes from a wrong clock and does not count as the newest.
    """
    dated = [(placed, day) for placed in manifest.parts() if (day := date_of(placed.part)) is not None]
    if keep_days == 0 or not dated:
        return []
    newest = min(max([day for _, day in dated]), utc_date(now_ms))
    return [placed for placed, day in dated if (newest - day).days > keep_days]


def remove_old_dates(writer: TableWriter[Contents], keep_days: int, now_ms: int) -> int:
    """Remove old dates. Returns how many."""
    old = old_parts(writer.manifest, keep_days, now_ms)
    writer.retire(old)
    return len({placed.part.name for placed in old})
