"""The manifest of a topic in the archive table: its files, and the publish time until which it was read.

out/archive/topic=arn%3Aaws%3Asns%3A…/_manifest.json
out/archive/topic=arn%3Aaws%3Asns%3A…/date=2026-11-22/000003-0.parquet    the third run that changed the topic wrote it
out/archive/_writing/                                                     the files of a run that has not ended
out/archive/_keep.json                                                    how long `cns pipeline archive` keeps messages

A manifest is replaced atomically, so a killed run changed a topic completely or not at all. The next run removes files
that no manifest names.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import UNREADABLE, StartError
from cns_pipeline.location import Location
from cns_pipeline.storage import Storage

MANIFEST = "_manifest.json"
WRITING = "_writing"
KEEP = "_keep.json"
_TOPIC = "topic="
_DATE = "date="
_COLON = "%3A"
"""A colon as Spark writes it in the name of a directory."""
_DIGITS = 6


class ArchivedUntil(msgspec.Struct, frozen=True):
    """The publish time, in ms, of the last message of a topic's archive that is in the table."""

    archive: str
    at_ms: int


class Day(msgspec.Struct, frozen=True):
    """The messages published on one date (UTC). They are sorted in the order of replay over all files in sequence."""

    date: str
    rows: int
    files: tuple[str, ...]
    """The names in the directory of the date."""


class ArchiveManifest(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    """ARN."""
    version: int = 0
    until: tuple[ArchivedUntil, ...] = ()
    days: tuple[Day, ...] = ()

    def read_until_ms(self, archive: str) -> int:
        """Returns 0 for an archive that was not read yet."""
        return next((each.at_ms for each in self.until if each.archive == archive), 0)

    @property
    def files(self) -> list[str]:
        """The paths of all files below the topic's directory."""
        return [f"{_DATE}{day.date}/{name}" for day in self.days for name in day.files]


class Keep(msgspec.Struct, frozen=True):
    """The time for which the table keeps messages. None: the period of each topic's ArchivePolicy; 0: without limit."""

    days: int | None = None


class DataFile(NamedTuple):
    """A file that a run wrote: the directory of its topic, its date, and its path below the directory of the run."""

    topic_directory: str
    date: str
    path: str


def topic_directory(topic_arn: str) -> str:
    return _TOPIC + topic_arn.replace(":", _COLON)


def topic_of(directory: str) -> str:
    return directory.removeprefix(_TOPIC).replace(_COLON, ":")


def date_directory(date: str) -> str:
    return f"{_DATE}{date}"


def file_name(version: int, number: int) -> str:
    return f"{version:0{_DIGITS}d}-{number}.parquet"


def written_files(storage: Storage, directory: Location) -> list[DataFile]:
    """The files that Spark wrote for a frame, by topic and date, in the order of their rows."""
    paths = [file.path for file in storage.files(directory)]
    parts = [(path, path.split("/")) for path in sorted(paths)]
    return [
        DataFile(names[0], names[1].removeprefix(_DATE), path)
        for path, names in parts
        if len(names) == 3 and names[0].startswith(_TOPIC)
    ]


def topic_directories(storage: Storage, archive: Location) -> list[str]:
    return [name for name in storage.names(archive) if name.startswith(_TOPIC)]


def read_manifest(storage: Storage, archive: Location, topic_arn: str) -> ArchiveManifest:
    """Returns an empty manifest for a topic that is not in the table."""
    place = archive / topic_directory(topic_arn) / MANIFEST
    try:
        return msgspec.json.decode(storage.read(place), type=ArchiveManifest)
    except FileNotFoundError:
        return ArchiveManifest(topic=topic_arn)
    except (OSError, *UNREADABLE) as error:
        reason = f"{place} cannot be read ({error}): restore it, or move the topic's directory away"
        raise StartError(reason, EXIT_DATA_UNUSABLE) from error


def write_manifest(storage: Storage, archive: Location, manifest: ArchiveManifest) -> None:
    storage.write(archive / topic_directory(manifest.topic) / MANIFEST, msgspec.json.encode(manifest))


def read_keep(storage: Storage, archive: Location) -> Keep:
    """The retention that the last `cns pipeline archive` was called with."""
    place = archive / KEEP
    try:
        return msgspec.json.decode(storage.read(place), type=Keep)
    except FileNotFoundError:
        return Keep()
    except (OSError, *UNREADABLE) as error:
        raise StartError(f"{place} cannot be read ({error}): run `cns pipeline archive`", EXIT_DATA_UNUSABLE) from error


def write_keep(storage: Storage, archive: Location, keep: Keep) -> None:
    storage.make_directory(archive)
    storage.write(archive / KEEP, msgspec.json.encode(keep))


def remove_strays(storage: Storage, archive: Location) -> None:
    """Remove the files of killed runs: those that no manifest names, and those of the directory for writing."""
    storage.delete(archive / WRITING)
    for name in topic_directories(storage, archive):
        manifest = read_manifest(storage, archive, topic_of(name))
        remove_files(storage, archive / name, manifest.files)


def remove_files(storage: Storage, directory: Location, kept: Sequence[str]) -> None:
    """Remove the files below a topic's directory except `kept`, and then empty directories."""
    names = set(kept)
    for date in [name for name in storage.names(directory) if name.startswith(_DATE)]:
        files = storage.names(directory / date)
        if not any(f"{date}/{file}" in names for file in files):
            storage.delete(directory / date)
            continue
        for file in files:
            if f"{date}/{file}" not in names:
                storage.delete(directory / date / file)
    if not storage.names(directory):
        storage.delete(directory)


def date_of(at_ms: int) -> str:
    """The date (UTC) of a time in ms since the epoch."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()


def date_ms(date: str) -> int:
    """The start of a date in ms since the epoch."""
    return int(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()) * 1000
