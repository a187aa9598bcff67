"""Opening the store's file: what must hold before anything is written to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import apsw
import structlog

from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_common.sqlite.disk_space import is_full
from cns_common.sqlite.wal import cut_log

PAGE_BYTES = 4096
CACHE_KIB = 65_536
FORMAT = 1
"""Of the tables, in `meta` and as SQLite's user_version."""
QUICK_CHECK_BYTES_MAX = 64 * 1024 * 1024
"""A larger store is not looked through at its start, which must not take seconds: `cns check` does it."""
MASTER_KEY_FILE = "master.key"
_SEALED_TABLES = ("access_keys", "signing_keys")

log = structlog.get_logger(__name__)

Guard = Callable[[apsw.Connection], None]


def connect(path: str, vfs: str | None, *, alone: bool = False) -> apsw.Connection:
    """`alone`: this connection is the only one, and its log's index is kept in memory: that needs no room on disk.

    Raises apsw.FullError for whatever SQLite says when there is none.
    """
    connection = apsw.Connection(path, vfs=vfs) if vfs else apsw.Connection(path)
    connection.set_busy_timeout(5_000)
    # without it SQLite plans a statement with a bound range anew at every use, in case the statistics would favour
    # another index for that value; there are no statistics here, and planning costs more than most look-ups
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    try:
        for pragma in (
            *(("locking_mode=EXCLUSIVE",) if alone else ()),
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
    """Have a file that can be written and that nobody else can read, wherever the directory was made; the log and the
    index beside it take its mode over. A new one is not made beside the master key of another: see `StartError`."""
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
    version: int = connection.pragma("user_version")
    if version > FORMAT:
        raise StartError(f"the data is of version {version}, this program reads up to {FORMAT}", EXIT_DATA_UNUSABLE)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
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
    row = connection.execute("SELECT format FROM meta").fetchone()
    if row is not None and row[0] != FORMAT:
        raise StartError(f"the data is of format {row[0]}, this program reads {FORMAT}", EXIT_DATA_UNUSABLE)
    if connection.pragma("page_count") * PAGE_BYTES <= QUICK_CHECK_BYTES_MAX:
        damage = connection.execute("PRAGMA quick_check(1)").get
        if damage != "ok":
            text = f"{path} is damaged: {str(damage).splitlines()[-1]}: restore a copy; `cns check` says more"
            raise StartError(text, EXIT_DATA_UNUSABLE)


def begin_boot(connection: apsw.Connection, *, stored: bool) -> tuple[int, int]:
    """The number of this start, and the highest time seen (ms). Not `stored`: a number that no start has stored."""
    if not stored:
        boot, high_ms = connection.execute("SELECT boot + 1, high_ms FROM meta").get
        return boot, high_ms
    with connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS meta(one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL,"
            " boot INTEGER NOT NULL, high_ms INTEGER NOT NULL)"
        )
        connection.execute(f"INSERT OR IGNORE INTO meta VALUES (1, {FORMAT}, 0, 0)")
        connection.execute("UPDATE meta SET boot = boot + 1")
        connection.pragma("user_version", FORMAT)
        boot, high_ms = connection.execute("SELECT boot, high_ms FROM meta").get
    return boot, high_ms


def create_tables(
    connection: apsw.Connection, schema: Sequence[str], added_columns: Mapping[str, Sequence[str]]
) -> None:
    """Make tables that are missing, and columns (table → declarations) that older directories do not have."""
    with connection:
        for statement in schema:
            connection.execute(statement)
        for table, declarations in added_columns.items():
            there = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
            for declaration in declarations:
                if declaration.split()[0] not in there:
                    connection.execute(f"ALTER TABLE {table} ADD COLUMN {declaration}")


def log_cut(path: Path) -> None:
    """Log the commits that SQLite left out without a word, if there are any."""
    cut = cut_log(path)
    if cut.commits or cut.is_header_damaged:
        log.error(
            "store.wal_truncated",
            frames_kept=cut.frames,
            commits_missing=cut.commits,
            header_damaged=cut.is_header_damaged,
        )


def has_secrets(connection: apsw.Connection) -> bool:
    """Whether secrets are stored that only the master key opens."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return any(
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None
        for table in _SEALED_TABLES
        if table in tables
    )
