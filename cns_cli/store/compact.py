"""`cns compact`: returns unused space of the store's file to the disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import apsw

from cns_cli.options import Data, Json
from cns_cli.output import print_json, refuse
from cns_cli.progress import open_steps
from cns_cli.store.restore import locked
from cns_cli.store_access import require_store
from cns_common.configuration.settings import load_settings
from cns_common.data_directory import EXIT_DATA_FULL, EXIT_DATA_UNUSABLE
from cns_common.data_owner import give_to_owner
from cns_common.errors import StartError
from cns_common.logs import set_up_logs
from cns_common.sqlite.database import LOCK_FILE, STORE_FILE
from cns_common.sqlite.disk_space import is_full
from cns_common.sqlite.opening import PAGE_BYTES, check, connect, log_lost_commits, prepare_file
from cns_common.sqlite.wal import open_index


def compact(data: Data = None, json: Json = False) -> None:
    """Return the unused space of the store's file to the disk. The service must not run. The disk needs free space of
    twice the used size, which is printed first. If the command is killed, nothing changes.

    Example: cns compact --data data
    """
    settings = load_settings(data)
    if settings.store == "cassandra":
        refuse("this compacts the embedded store; Cassandra compacts its own")
    require_store(settings)
    directory = settings.data.absolute()
    store = directory / STORE_FILE
    with locked(directory):
        give_to_owner(directory, (LOCK_FILE,))
        set_up_logs("warning", "command")
        before = sum(one.stat().st_size for one in (store, store.with_name(f"{store.name}-wal")) if one.exists())
        try:
            prepare_file(store)
            _open_and_compact(store)
        except apsw.FullError as error:
            raise StartError(
                f"cannot compact {store}: the disk is full; nothing was changed", EXIT_DATA_FULL
            ) from error
        except apsw.Error as error:
            raise StartError(f"cannot compact {store}: {error}", EXIT_DATA_UNUSABLE) from error
    after = store.stat().st_size
    if json:
        print_json([{"store": str(store), "bytesBefore": before, "bytesAfter": after}])
    else:
        print(f"cns: {store} has {after:,} bytes; before it had {before:,}, with its log")


def _open_and_compact(store: Path) -> None:
    """Raises apsw.FullError when the disk is full, whatever error SQLite reports."""
    connection, index_fd = connect(str(store), None), None
    try:
        check(connection, store)
        index_fd = open_index(store)
        log_lost_commits(store, index_fd)  # before the log is removed
        _say_need(connection, store)
        with open_steps("compacting the store"):
            _compact(connection, str(store.parent))
    except apsw.Error as error:
        if is_full(error, connection):
            raise apsw.FullError("the disk is full") from error
        raise
    finally:
        connection.close()
        if index_fd is not None:
            os.close(index_fd)


def _say_need(connection: apsw.Connection, store: Path) -> None:
    """SQLite writes the used pages to a temporary file, then to the log. Raises StartError for a lack of space."""
    pages, unused = connection.pragma("page_count"), connection.pragma("freelist_count")
    needed, disk = 2 * (pages - unused) * PAGE_BYTES, os.statvfs(store.parent)
    free = disk.f_bavail * disk.f_frsize
    text = f"{unused * PAGE_BYTES:,} bytes of {store} are unused; to return them takes {needed:,} bytes meanwhile"
    if free < needed:
        raise StartError(f"{text}, and the disk has {free:,}", EXIT_DATA_FULL)
    print(f"cns: {text}, of {free:,} that are free", file=sys.stderr, flush=True)


def _compact(connection: apsw.Connection, directory: str) -> None:
    connection.pragma("temp_store", "FILE")
    connection.pragma("temp_store_directory", directory)
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
