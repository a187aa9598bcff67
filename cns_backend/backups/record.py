"""The record of the last backup, which `cns doctor` looks at."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from cns_common.errors import UNREADABLE

BACKUP_RECORD_FILE = "backup.json"


class BackupRecord(msgspec.Struct, frozen=True):
    at_ms: int
    directory: str


def last_backup(data: Path) -> BackupRecord | None:
    with contextlib.suppress(OSError, *UNREADABLE):
        return msgspec.json.decode((data / BACKUP_RECORD_FILE).read_bytes(), type=BackupRecord)
    return None


def record_backup(data: Path, record: BackupRecord) -> None:
    with contextlib.suppress(OSError):  # the backup is complete without its record
        scratch = data / f"{BACKUP_RECORD_FILE}.new"
        scratch.write_bytes(msgspec.json.encode(record))
        scratch.replace(data / BACKUP_RECORD_FILE)
