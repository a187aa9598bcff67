"""The table of events: one directory for each batch, which a rename makes part of the table.

out/events/batch=000000000001/date=2026-11-21/event=publish.accepted/….parquet
out/events/batch=000000000001/_contents.json    what the batch has, so that later ones find their duplicates
out/writing/                                    what a batch is written to first; a killed one is removed

No file has an absolute path, so the table may be moved. Spark passes over names that begin with `_`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_pipeline.paths import PipelinePaths

_PREFIX = "batch="
_DIGITS = 12
_CONTENTS = "_contents.json"
_EARLIER_LOG = "_spark_metadata"
"""The log of the tables of version 0.1, which has absolute paths."""


class Span(msgspec.Struct, frozen=True):
    """The numbers of a boot in a batch, from the first to the last; some of those between may be elsewhere."""

    boot: str
    first: int
    last: int


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    spans: list[Span]
    files: list[str]  # with lines that were kept aside
    lines: int
    newer: int  # lines kept aside for their newer schema
    aside: int  # all lines kept aside

    def may_repeat(self, other: Contents) -> bool:
        known = {span.boot: span for span in other.spans}
        overlaps = [
            span.first <= known[span.boot].last and known[span.boot].first <= span.last
            for span in self.spans
            if span.boot in known
        ]
        return any(overlaps) or not set(self.files).isdisjoint(other.files)


@dataclass(frozen=True, slots=True)
class Batch:
    path: Path
    contents: Contents


def check_version(paths: PipelinePaths) -> None:
    """Raise a StartError for a table of an earlier version."""
    if (paths.table / _EARLIER_LOG).exists():
        reason = f"{paths.out} was made by an earlier version: move it away, and run `cns pipeline ingest` again"
        raise StartError(reason, EXIT_DATA_UNUSABLE)


def read_batches(paths: PipelinePaths) -> list[Batch]:
    """Return all batches of the table, oldest first; remove what a killed batch left."""
    shutil.rmtree(paths.writing, ignore_errors=True)
    paths.table.mkdir(parents=True, exist_ok=True)
    return [Batch(path, _read_contents(path)) for path in sorted(paths.table.glob(f"{_PREFIX}*"))]


def _read_contents(path: Path) -> Contents:
    try:
        return msgspec.json.decode((path / _CONTENTS).read_bytes(), type=Contents)
    except (OSError, msgspec.DecodeError) as error:
        reason = f"{path} is no whole batch ({error}): move the table away, and run `cns pipeline ingest` again"
        raise StartError(reason, EXIT_DATA_UNUSABLE) from error


def add_batch(paths: PipelinePaths, written: Path, contents: Contents, batches: Sequence[Batch]) -> Batch:
    """Make the written directory part of the table, all of it or nothing."""
    number = int(batches[-1].path.name.removeprefix(_PREFIX)) + 1 if batches else 1
    (written / _CONTENTS).write_bytes(msgspec.json.encode(contents))
    path = paths.table / f"{_PREFIX}{number:0{_DIGITS}d}"
    written.rename(path)
    return Batch(path, contents)
