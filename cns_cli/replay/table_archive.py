"""Messages from the archive table, read by DuckDB: without Java and without a running service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from cns.archives.model import Archive
from cns.delivery.envelope import timestamp_text
from cns_backend.optional_dependencies import EXIT_EXTRA_MISSING, how_to_install
from cns_cli.replay.model import PAGE_MESSAGES, PastArchive, PastMessage, ReplaySource
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.durations import DAY_MS
from cns_common.errors import EXIT_USAGE, StartError
from cns_pipeline.archive.manifest import ArchiveManifest, date_directory, date_ms, read_manifest, topic_directory
from cns_pipeline.archive.rows import ArchivedAttribute, ArchiveRow, notification_of
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.storage import Storage

MEMORY = "512MB"
"""The memory limit of DuckDB; it sorts more data on disk."""
_POSITION = "printf('%014d %s %s', archive_began_ms, archive, key)"
"""Positions sort in the order of replay: archives of the topic by age, then keys."""
_QUERY = (
    f"SELECT {_POSITION} AS place, * FROM read_parquet(?, union_by_name = true, hive_partitioning = false)"
    " WHERE at_ms >= ? AND at_ms < ? AND place > ? ORDER BY archive_began_ms, archive, key"
)


def open_table(out: Path, topic_arn: str) -> TableArchive:
    """Open the table in an output directory of the pipeline. Raises StartError if it lacks the topic."""
    directory = PipelinePaths(out).archive
    if not Path(directory.text).is_dir():
        raise StartError(f"there is no archive table in {out}: `cns pipeline archive` makes it", EXIT_DATA_UNUSABLE)
    manifest = read_manifest(Storage(None), directory, topic_arn)
    if not manifest.days:
        raise StartError(f"the archive table in {out} has no messages of {topic_arn}", EXIT_DATA_UNUSABLE)
    return TableArchive(Path(directory.text) / topic_directory(topic_arn), manifest)


class TableArchive(PastArchive):
    def __init__(self, directory: Path, manifest: ArchiveManifest) -> None:
        self._directory = directory
        self._manifest = manifest

    @property
    def id(self) -> str:
        return ""

    @property
    def first_ms(self) -> int:
        return date_ms(self._manifest.days[0].date)

    def end_ms(self, now_ms: int) -> int:
        """The end of the table, also if the clock of its service was ahead."""
        return date_ms(self._manifest.days[-1].date) + DAY_MS

    def is_whole_in(self, archive: Archive, since_ms: int, until_ms: int) -> bool:
        archives = {each.archive for each in self._manifest.until}
        if archive.began_ms <= since_ms or archives == {archive.id}:
            return True
        if archive.id in archives and archive.began_ms < until_ms:
            began = timestamp_text(archive.began_ms)
            reason = f"the topic archives since {began}: replay what is in its archive with --since {began}"
            raise StartError(f"{reason}, and what is not with --until {began}", EXIT_USAGE)
        return False

    def messages_in(self, since_ms: int, until_ms: int) -> TableSource:
        days = [
            day for day in self._manifest.days if date_ms(day.date) < until_ms and date_ms(day.date) + DAY_MS > since_ms
        ]
        paths = [str(self._directory / date_directory(day.date) / name) for day in days for name in day.files]
        return TableSource(paths, since_ms, until_ms)


class TableSource(ReplaySource):
    def __init__(self, paths: list[str], since_ms: int, until_ms: int) -> None:
        self._paths = paths
        self._since_ms = since_ms
        self._until_ms = until_ms

    async def messages(self, after: str, after_ms: int) -> AsyncIterator[list[PastMessage]]:
        if not self._paths:
            return
        duckdb = _import_duckdb()
        with duckdb.connect(config={"memory_limit": MEMORY, "threads": 1}) as connection:
            connection.execute("SET enable_progress_bar = false")  # it would be on standard output
            try:
                values = [self._paths, self._since_ms, self._until_ms, after]
                found = await asyncio.to_thread(connection.execute, _QUERY, values)  # a large one takes long
                names = [column[0] for column in found.description]
                while rows := await asyncio.to_thread(found.fetchmany, PAGE_MESSAGES):
                    yield [_message(dict(zip(names, row, strict=True))) for row in rows]
            except duckdb.Error as error:
                reason = str(error).splitlines()[0]
                raise StartError(f"cannot read the archive table: {reason}", EXIT_DATA_UNUSABLE) from error


def _message(columns: dict[str, Any]) -> PastMessage:
    """Fill in columns that files of an earlier version lack."""
    read = ArchiveRow(**{name: columns[name] for name in ArchiveRow._fields if name in columns})
    structs: list[dict[str, str]] = columns["attributes"]
    attributes = [ArchivedAttribute(**each) for each in structs]
    return PastMessage(columns["place"], notification_of(read._replace(attributes=attributes)))


def _import_duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise StartError(f"DuckDB is not installed: run {how_to_install('pipeline')}", EXIT_EXTRA_MISSING) from None
    return duckdb
