"""Makes a verified copy of the store and its master key, whether the service runs or not."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import apsw
import msgspec

import cns
from cns_backend.backups.manifest import KEY_COPIED, KEY_GIVEN, MANIFEST_FILE, MANIFEST_FORMAT, BackupManifest, facts_of
from cns_backend.backups.record import BackupRecord, record_backup
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE, sync_directory, unusable
from cns_common.errors import StartError
from cns_common.process.kill_points import BACKUP_COPIED, kill_point
from cns_common.sqlite.database import STORE_FILE
from cns_common.sqlite.integrity_check import check_integrity
from cns_common.sqlite.opening import MASTER_KEY_FILE

PAGES_PER_STEP = 1_000


class BackupSteps(Protocol):
    """Shows the progress of one step of a backup."""

    def reach(self, done: float, total: float) -> None: ...


OpenSteps = Callable[[str], AbstractContextManager[BackupSteps]]
"""Opens the display of a step, which it gets the title of."""


class _NoSteps(BackupSteps):
    def reach(self, done: float, total: float) -> None: ...


@contextmanager
def no_steps(_: str) -> Iterator[BackupSteps]:
    """Show nothing."""
    yield _NoSteps()


def make_backup(settings: Settings, directory: Path, open_steps: OpenSteps = no_steps) -> BackupManifest:
    """Write the backup to a temporary directory, and rename that once the copy is verified. Raises StartError."""
    directory = directory.absolute()
    scratch = directory.parent / f".{directory.name}.partial"
    try:
        if directory.exists():  # raises OSError if the path is too long or its parent is not searchable
            raise StartError(f"{directory} exists: name a directory that does not", EXIT_DATA_UNUSABLE)
        shutil.rmtree(scratch, ignore_errors=True)  # of a backup that was killed
        scratch.mkdir(parents=True, mode=0o700)
        manifest = _write(settings, scratch, open_steps)
        scratch.rename(directory)
        sync_directory(directory.parent)
    except OSError as error:
        raise unusable(f"cannot write to {directory}", error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    record_backup(settings.data, BackupRecord(manifest.began_ms, str(directory)))
    return manifest


def _write(settings: Settings, scratch: Path, open_steps: OpenSteps) -> BackupManifest:
    began_ms = Clock().real_ms()
    with open_steps("copying the store") as steps:
        store_format = copy_store(settings.data / STORE_FILE, scratch / STORE_FILE, steps)
    key = settings.data / MASTER_KEY_FILE
    names = [STORE_FILE]
    if not settings.master_key and key.exists():  # a store without secrets may have none
        copy_file(key, scratch / MASTER_KEY_FILE)
        names.append(MASTER_KEY_FILE)
    kill_point(BACKUP_COPIED)
    with open_steps("verifying the copy"):
        found = check_integrity(scratch / STORE_FILE)
        facts = facts_of(scratch, names)
    if found.faults:
        text = f"the store is damaged, and so is its copy: {found.faults[0]}; `cns check` says more"
        raise StartError(text, EXIT_DATA_UNUSABLE)
    manifest = BackupManifest(
        format=MANIFEST_FORMAT,
        program=cns.__version__,
        store_format=store_format,
        began_ms=began_ms,
        ended_ms=Clock().real_ms(),
        pages=found.pages,
        master_key=KEY_GIVEN if settings.master_key else KEY_COPIED,
        files=facts,
    )
    write_durably(scratch / MANIFEST_FILE, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    sync_directory(scratch)
    return manifest


def copy_store(source: Path, target: Path, steps: BackupSteps, *, alone: bool = False) -> int:
    """Copy a snapshot of the store while other processes write to it. Returns its format.

    The read transaction holds the snapshot: without it, SQLite would restart the copy at each commit. With `alone`, a
    write-ahead log or journal beside the file is not read.
    """
    write_durably(target, b"")  # SQLite would create a file that others can read
    try:
        url = f"{source.absolute().as_uri()}?immutable={int(alone)}"
        reader = apsw.Connection(url, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        writer = apsw.Connection(str(target))
        try:
            reader.set_busy_timeout(5_000)
            reader.execute("BEGIN")
            store_format: int = reader.pragma("user_version")
            with writer.backup("main", reader, "main") as copying:
                while not copying.done:
                    _copy_pages(copying, target)
                    steps.reach(copying.page_count - copying.remaining, copying.page_count)
            writer.execute("PRAGMA journal_mode=DELETE").fetchall()  # the copy is one file
        finally:
            writer.close()
            reader.close()
    except apsw.BusyError as error:
        text = f"{source} cannot be read while its service runs on a full disk: {error}"
        raise StartError(text, EXIT_DATA_UNUSABLE) from error
    except apsw.FullError as error:
        raise no_room(target) from error
    except apsw.Error as error:
        raise StartError(f"cannot copy {source}: {error}", EXIT_DATA_UNUSABLE) from error
    _sync_file(target)
    return store_format


def _copy_pages(copying: apsw.Backup, target: Path) -> None:
    try:
        copying.step(PAGES_PER_STEP)
    except apsw.FullError as error:  # closing the copy would raise it again, without its text
        raise no_room(target) from error


def no_room(path: Path) -> StartError:
    return unusable(f"cannot write {path}", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def copy_file(source: Path, target: Path) -> None:
    write_durably(target, source.read_bytes())


def write_durably(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, and fsync it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
