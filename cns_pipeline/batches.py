"""The table of events: its parts are dates, and each batch states which events it may contain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta

import msgspec

from cns_common.durations import DAY_MS
from cns_pipeline.location import located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.storage import Storage
from cns_pipeline.stored_file import FileStore
from cns_pipeline.tables.manifest import Part
from cns_pipeline.tables.table import BatchTable

DATE_PREFIX = "date="
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name for the directory of rows without a date."""
_MS_MAX = 253_402_300_799_999


class BatchSpan(msgspec.Struct, frozen=True):
    """The first and last number that a batch has of a boot (a start of a process); others may have some between."""

    boot: str
    first: int
    last: int


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a batch; later batches use it to find duplicates."""

    spans: tuple[BatchSpan, ...]
    files: tuple[str, ...]  # names of the segments with lines that were kept aside

    def may_repeat(self, other: Contents) -> bool:
        """Whether both may contain the same event or line."""
        known = {span.boot: span for span in other.spans}
        overlaps = [
            span.first <= known[span.boot].last and known[span.boot].first <= span.last
            for span in self.spans
            if span.boot in known
        ]
        return any(overlaps) or not set(self.files).isdisjoint(other.files)


def merged(all_contents: Iterable[Contents]) -> Contents:
    """The contents of a batch made of all these."""
    spans: dict[str, BatchSpan] = {}
    files: set[str] = set()
    for contents in all_contents:
        files.update(contents.files)
        for span in contents.spans:
            other = spans.get(span.boot, span)
            spans[span.boot] = BatchSpan(span.boot, min(span.first, other.first), max(span.last, other.last))
    return Contents(spans=tuple(spans.values()), files=tuple(sorted(files)))


EventTable = BatchTable[Contents]


def event_table(storage: FileStore, paths: PipelinePaths) -> EventTable:
    return BatchTable(storage, paths.table, Contents)


def event_directories(
    storage: FileStore, paths: PipelinePaths, since_ms: int | None = None, until_ms: int | None = None
) -> list[str]:
    """The directories `…/date=…` that contain all events of a period, and others; for readers of Parquet."""
    table = event_table(storage, paths)
    return table.directories(table.read(), in_period(since_ms, until_ms))


def in_period(since_ms: int | None, until_ms: int | None) -> Callable[[Part], bool]:
    """Returns a test whether a part may contain events of the period. Rows without a date may be of any period."""
    first = date.min if since_ms is None else utc_date(since_ms)
    last = date.max if until_ms is None else utc_date(until_ms - 1)

    def wanted(part: Part) -> bool:
        day = date_of(part)
        return day is None or first <= day <= last

    return wanted


def date_of(part: Part) -> date | None:
    """The date of the rows of a part."""
    text = part.name.removeprefix(DATE_PREFIX)
    return None if text == NO_DATE else date.fromisoformat(text)


def removed_until_ms(storage: FileStore, paths: PipelinePaths) -> int:
    """The time until which events were removed by age; 0: none."""
    name = event_table(storage, paths).read().removed
    if not name:
        return 0
    day = date.fromisoformat(name.removeprefix(DATE_PREFIX))
    return ((day - date(1970, 1, 1)).days + 1) * DAY_MS


def utc_date(at_ms: int) -> date:
    """The date (UTC) of a time; for a time outside the calendar the nearest date."""
    at_s = min(max(at_ms, 0), _MS_MAX) // 1000
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_s)).date()


def check_version(paths: PipelinePaths) -> None:
    """Raise a StartError for a table of an earlier version, which is always on this machine."""
    local = paths.table.local
    if local is not None:
        BatchTable(Storage(None), located(local), Contents).check_version()
