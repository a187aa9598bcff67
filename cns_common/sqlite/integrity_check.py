"""Checks a whole store for damage, without writing to the store's file or its log."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import NamedTuple

import apsw

from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_common.sqlite.format import FORMAT
from cns_common.sqlite.wal import find_lost_commits, open_index

LOCK_FILE = "lock"
FAULTS_MAX = 100
"""At most this many faults are listed."""


class IntegrityReport(NamedTuple):
    """Each of `faults` is a line for a person."""

    pages: int
    faults: tuple[str, ...]


def check_integrity(path: Path) -> IntegrityReport:
    """Check all pages, trees and indexes, and the log if no process has the store open.

    Raises StartError when the store cannot be opened.
    """
    lock_fd = _lock(path.with_name(LOCK_FILE))
    try:
        connection = _open(path, is_ours=lock_fd is not None)
        try:
            pages: int = connection.pragma("page_count")
            faults = [*_version_faults(connection), *_page_faults(connection)]
            if lock_fd is not None:  # else a process adds frames to the log
                faults += _log_faults(path)
        finally:
            connection.close()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return IntegrityReport(0, (str(error),))
    except (apsw.Error, OSError) as error:
        raise StartError(f"cannot read {path}: {error}", EXIT_DATA_UNUSABLE) from error
    finally:
        if lock_fd is not None:
            os.close(lock_fd)
    return IntegrityReport(pages, tuple(faults))


def _lock(path: Path) -> int | None:
    """Keep a service from starting meanwhile; None when one is running."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if path.exists() else os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _open(path: Path, *, is_ours: bool) -> apsw.Connection:
    log = path.with_name(f"{path.name}-wal")
    if is_ours and not (log.exists() and log.stat().st_size):
        # without a log SQLite has nothing to recover, and makes no file beside this one
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=flags)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(5_000)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # the log stays as it is
    connection.execute("PRAGMA query_only=ON")
    return connection


def _version_faults(connection: apsw.Connection) -> list[str]:
    version: int = connection.pragma("user_version")
    return [f"the data is of version {version}, this program reads up to {FORMAT}"] if version > FORMAT else []


def _page_faults(connection: apsw.Connection) -> list[str]:
    lines = [str(line) for (line,) in connection.execute(f"PRAGMA integrity_check({FAULTS_MAX})")]
    return [] if lines == ["ok"] else lines


def _log_faults(path: Path) -> list[str]:
    index_fd = open_index(path)
    try:
        lost = find_lost_commits(path, index_fd)
    finally:
        if index_fd is not None:
            os.close(index_fd)  # the directory's lock keeps others away, so that the locks of the index do not matter
    faults = ["the log's header is damaged: nothing in the log counts"] if lost.is_header_damaged else []
    if lost.commits:
        faults.append(f"the log is cut after frame {lost.frames}: {lost.commits} commits behind it are missing")
    return faults
