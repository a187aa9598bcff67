"""Opens the store's file, and refuses it before anything is written when it is foreign, newer or damaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import apsw
import structlog

from cns_common.data_directory import EXIT_DATA_FULL, EXIT_DATA_UNUSABLE, unusable
from cns_common.errors import StartError
from cns_common.sqlite.disk_space import DiskSpace, is_full
from cns_common.sqlite.format import (
    FORMAT,
    PROGRAM_COLUMN,
    BeforeMigration,
    add_program_column,
    check_format,
    earlier_format,
    refuse_migration,
    table_names,
)
from cns_common.sqlite.wal import find_lost_commits, open_index

PAGE_BYTES = 4096
CACHE_KIB = 65_536
QUICK_CHECK_BYTES_MAX = 64 * 1024 * 1024
"""A larger store is not checked when it is opened, which must not take seconds; `cns check` checks it."""
MASTER_KEY_FILE = "master.key"
RESTORE_FILE = "restore.json"
"""The marker of a restore that is not complete: the files may be of two stores."""
_SEALED_TABLES = ("access_keys", "signing_keys")

log = structlog.get_logger(__name__)

Guard = Callable[[apsw.Connection], None]
"""May refuse a store by raising StartError; it only reads."""


class StoreConnections(NamedTuple):
    """An opened store. Where it is `single`, `reader` is the same connection as `writer`."""

    writer: apsw.Connection
    reader: apsw.Connection
    boot: int
    """The number of this start; it only rises."""
    high_ms: int
    """The highest time stored."""
    single: bool
    migrates: bool = False
    """Whether it is of an earlier format until `mark_format`."""
    index_fd: int | None = None
    """To be closed after the connections: see `cns_common.sqlite.wal.open_index`."""


def open_store(
    path: Path, vfs: str | None, guard: Guard, space: DiskSpace, before_migration: BeforeMigration = refuse_migration
) -> StoreConnections:
    """Open the store, on a full disk with the reserve's room, at worst with a single connection that writes nothing.

    Raises StartError when there is no room even for that, or when the store cannot be used.
    """
    try:
        if not vfs:
            prepare_file(path)
        opening = partial(_try_open, path, vfs, guard, before_migration)
        store = opening(single=False)
        if store is None:
            space.mark_full()
            store = opening(single=False) or opening(single=True)
    except OSError as error:
        raise unusable(f"cannot write to {path}", error) from error
    except apsw.Error as error:
        raise StartError(f"cannot use the data in {path.parent}: {error}", EXIT_DATA_UNUSABLE) from error
    if store is None:
        raise StartError(f"cannot use the data in {path.parent}: the disk is full", EXIT_DATA_FULL)
    return store


def _try_open(
    path: Path, vfs: str | None, guard: Guard, before_migration: BeforeMigration, *, single: bool
) -> StoreConnections | None:
    """None when the disk has no room for it."""
    writer: apsw.Connection | None = None
    index_fd: int | None = None
    try:
        writer = connect(str(path), vfs, single=single)
        check(writer, path)
        guard(writer)
        earlier = earlier_format(writer, path.parent)
        if single:
            if earlier is not None:
                return None  # its tables cannot be changed
            boot, high_ms = begin_boot(writer, stored=False)
            return StoreConnections(writer, writer, boot, high_ms, single)
        if earlier is not None:
            before_migration(earlier)
        index_fd = open_index(path)
        log_lost_commits(path, index_fd)
        boot, high_ms = begin_boot(writer, stored=earlier is None)  # else `mark_format` stores it
        reader = connect(str(path), vfs)
        reader.execute("PRAGMA query_only=ON")
        return StoreConnections(writer, reader, boot, high_ms, single, earlier is not None, index_fd)
    except apsw.Error as error:
        full = is_full(error, writer)
        _close(writer, index_fd)
        if not full:
            raise
        return None
    except StartError:
        _close(writer, index_fd)
        raise


def _close(connection: apsw.Connection | None, index_fd: int | None) -> None:
    if connection is not None:
        connection.close()
    if index_fd is not None:
        os.close(index_fd)


def connect(path: str, vfs: str | None, *, single: bool = False) -> apsw.Connection:
    """Open a connection. A `single` one excludes all others and keeps the log's index in memory, not on disk.

    Raises apsw.FullError when the disk has no room, whichever error SQLite reports then.
    """
    connection = apsw.Connection(path, vfs=vfs) if vfs else apsw.Connection(path)
    connection.set_busy_timeout(5_000)
    # without it SQLite plans a statement with a bound range anew at every use, in case the statistics would favour
    # another index for that value; there are no statistics here, and planning costs more than most look-ups
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    try:
        for pragma in (
            *(("locking_mode=EXCLUSIVE",) if single else ()),
            f"page_size={PAGE_BYTES}",
            "journal_mode=WAL",
            "synchronous=FULL",
            f"cache_size=-{CACHE_KIB}",
            "temp_store=MEMORY",
            "wal_autocheckpoint=0",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
    except apsw.Error as error:
        full = is_full(error, connection)
        connection.close()
        if full:
            raise apsw.FullError("the disk is full") from error
        raise
    return connection


def prepare_file(path: Path) -> None:
    """Make the file if it is missing, and let only its owner read it; SQLite gives the log and the index its mode.

    Raises StartError instead of making a new file beside an existing master key: the key belongs to lost data. Also
    while a restore is not complete.
    """
    if path.with_name(RESTORE_FILE).exists():
        text = f"a restore into {path.parent} was cut off: run `cns restore` again, which completes it"
        raise StartError(text, EXIT_DATA_UNUSABLE)
    try:
        is_new = path.stat().st_size == 0
    except FileNotFoundError:
        is_new = True
    key = path.with_name(MASTER_KEY_FILE)
    if is_new and key.exists():
        what = "is empty" if path.exists() else "is missing"
        raise StartError(
            f"{path} {what}, but {key} is there: restore {path.name}, or remove {key.name} to start anew",
            EXIT_DATA_UNUSABLE,
        )
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, 0o600)
    finally:
        os.close(fd)


def check(connection: apsw.Connection, path: Path) -> None:
    """Raise StartError for a store that is not ours, of a newer version, or damaged. Writes nothing."""
    check_format(connection, path)
    tables = table_names(connection)
    if "meta" not in tables:
        if tables:
            raise StartError(f"{path} is no store of cns", EXIT_DATA_UNUSABLE)
        if path.with_name(MASTER_KEY_FILE).exists():
            raise StartError(
                f"{path} holds nothing, but {path.with_name(MASTER_KEY_FILE)} is there: restore {path.name} and its"
                f" log, or remove both to start anew",
                EXIT_DATA_UNUSABLE,
            )
        return
    if connection.pragma("page_count") * PAGE_BYTES <= QUICK_CHECK_BYTES_MAX:
        damage = connection.execute("PRAGMA quick_check(1)").get
        if damage != "ok":
            text = f"{path} is damaged: {str(damage).splitlines()[-1]}: restore a copy; `cns check` says more"
            raise StartError(text, EXIT_DATA_UNUSABLE)


def begin_boot(connection: apsw.Connection, *, stored: bool) -> tuple[int, int]:
    """The number of this start and the highest time stored, in ms. Unless `stored`, the number is used without being
    written: no earlier start has it."""
    if not stored:
        boot, high_ms = connection.execute("SELECT boot + 1, high_ms FROM meta").get
        return boot, high_ms
    with connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS meta(one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL,"
            f" boot INTEGER NOT NULL, high_ms INTEGER NOT NULL, {PROGRAM_COLUMN})"
        )
        add_program_column(connection)
        connection.execute(f"INSERT OR IGNORE INTO meta VALUES (1, {FORMAT}, 0, 0, '')")
        if connection.changes():
            connection.pragma("user_version", FORMAT)
        connection.execute("UPDATE meta SET boot = boot + 1")
        boot, high_ms = connection.execute("SELECT boot, high_ms FROM meta").get
    return boot, high_ms


def create_tables(
    connection: apsw.Connection, schema: Sequence[str], added_columns: Mapping[str, Sequence[str]]
) -> None:
    """Make missing tables, and the columns (table → declarations) that tables of an older directory lack."""
    with connection:
        for statement in schema:
            connection.execute(statement)
        for table, declarations in added_columns.items():
            existing = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
            for declaration in declarations:
                if declaration.split()[0] not in existing:
                    connection.execute(f"ALTER TABLE {table} ADD COLUMN {declaration}")


def log_lost_commits(path: Path, index_fd: int | None) -> None:
    """Log the commits of the write-ahead log that SQLite skipped without a word, if there are any."""
    found = find_lost_commits(path, index_fd)
    if found.commits or found.is_header_damaged:
        log.error(
            "store.wal_truncated",
            frames_kept=found.frames,
            commits_missing=found.commits,
            header_damaged=found.is_header_damaged,
        )


def has_secrets(connection: apsw.Connection) -> bool:
    """Whether secrets are stored that only the master key opens."""
    tables = table_names(connection)
    return any(
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None
        for table in _SEALED_TABLES
        if table in tables
    )
