"""The manifest of a backup: its files with their checksums, the version that wrote it, and the time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import UNREADABLE, StartError
from cns_common.sqlite.database import STORE_FILE
from cns_common.sqlite.format import FORMAT
from cns_common.sqlite.opening import MASTER_KEY_FILE

MANIFEST_FILE = "manifest.json"
MANIFEST_FORMAT = 1
KEY_COPIED = "copied"
KEY_GIVEN = "CNS_MASTER_KEY"
"""The key is not in the backup: the service gets it from the operator."""


class FileFact(msgspec.Struct, frozen=True):
    bytes: int
    sha256: str


class BackupManifest(msgspec.Struct, frozen=True):
    format: int
    program: str
    """The version of the program that made the backup."""
    store_format: int
    began_ms: int
    """The backup has every write that was acknowledged before this time."""
    ended_ms: int
    pages: int
    master_key: str
    files: dict[str, FileFact]


def file_fact(path: Path) -> FileFact:
    with path.open("rb") as file:
        return FileFact(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def facts_of(directory: Path, names: Iterable[str]) -> dict[str, FileFact]:
    return {name: file_fact(directory / name) for name in names}


def read_manifest(directory: Path) -> BackupManifest:
    """The manifest of a backup that this program can restore. Raises StartError."""
    path = directory / MANIFEST_FILE
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=BackupManifest)
    except FileNotFoundError:
        raise StartError(f"{directory} is no backup: it has no {MANIFEST_FILE}", EXIT_DATA_UNUSABLE) from None
    except (OSError, *UNREADABLE) as error:
        raise StartError(f"{path} cannot be read: {error}", EXIT_DATA_UNUSABLE) from error
    if manifest.format > MANIFEST_FORMAT or manifest.store_format > FORMAT:
        text = (
            f"{directory} was made by version {manifest.program} in format {manifest.store_format}; this program reads"
            f" formats up to {FORMAT}: install that version"
        )
        raise StartError(text, EXIT_DATA_UNUSABLE)
    if manifest.files.keys() - {STORE_FILE, MASTER_KEY_FILE} or STORE_FILE not in manifest.files:
        named = ", ".join(sorted(manifest.files)) or "no file"
        raise StartError(f"{path} names {named}: a backup has {STORE_FILE} and {MASTER_KEY_FILE}", EXIT_DATA_UNUSABLE)
    return manifest


def check_files(directory: Path, manifest: BackupManifest) -> None:
    """Compare all files with the manifest. Raises StartError that names the first that differs."""
    for name, fact in manifest.files.items():
        path = directory / name
        if not path.is_file():
            raise StartError(f"{directory} is damaged: {name} is missing", EXIT_DATA_UNUSABLE)
        if file_fact(path) != fact:
            raise StartError(f"{directory} is damaged: {name} does not match its checksum", EXIT_DATA_UNUSABLE)
