"""`cns upgrade`: migrates the data to this version after a backup, the only way back."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import apsw
import typer

import cns
from cns_backend.backups.backup import make_backup
from cns_backend.backups.manifest import MANIFEST_FILE
from cns_backend.backups.migration import backup_of
from cns_cli.options import Data, Json
from cns_cli.output import print_json, refuse
from cns_cli.progress import open_steps
from cns_cli.service.restart import restart_service, supervisor_of
from cns_cli.store_access import require_store
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings, load_settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE, lock_directory
from cns_common.errors import StartError
from cns_common.sqlite.database import LOCK_FILE, STORE_FILE
from cns_common.sqlite.format import FORMAT, Migration, check_format, table_names

EXIT_ELSEWHERE = 2


def upgrade(
    to: Annotated[Path | None, typer.Option("--backup", help="Default: DATA/backups/format-N-start-BOOT.")] = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Back up the store, then add the tables and columns of this version. A running `cns up` serves until it restarts
    with the same sockets: callers wait. Refuses a store of a newer version.

    Example: cns upgrade --backup /var/backups/cns/before-upgrade
    """
    settings = load_settings(data)
    if settings.store == "cassandra":
        print("nodetool snapshot, as `cns backup` says; then:\ncns schema apply")
        refuse("the store is Cassandra's: run these, nothing was changed", EXIT_ELSEWHERE)
    require_store(settings)
    before = _format(settings)
    is_running = supervisor_of(settings.data) != 0
    directory = to or (_backup_of_running(before) if is_running else backup_of(before))
    if is_running:
        added = _upgrade_running(settings, directory, before)
    else:
        added = _upgrade(settings, directory, found=to is None and (directory / MANIFEST_FILE).exists())
    facts = {
        "program": cns.__version__,
        "from": before.from_format,
        "to": FORMAT,
        "added": added,
        "backup": str(directory),
    }
    if json:
        print_json([facts])
    else:
        new = ", ".join(added) or "nothing"
        print(f"cns: the store is of format {FORMAT} (before: {before.from_format}); added: {new}; backup: {directory}")


def _upgrade(settings: Settings, directory: Path, *, found: bool) -> list[str]:
    """Add the tables and columns of this version. Returns their names. `found`: a killed upgrade already made the
    backup. Raises StartError before the backup if a service runs."""
    os.close(lock_directory(settings.data, LOCK_FILE))
    if not found:
        make_backup(settings, directory, open_steps)
    before = _columns(settings)
    asyncio.run(_open_once(settings))
    return sorted(_columns(settings) - before)


def _backup_of_running(migration: Migration) -> Path:
    """The path of the backup. A start uses another one: messages may arrive after this backup."""
    return backup_of(migration).with_name(f"format-{migration.from_format}-running-{Clock().real_ms()}")


def _upgrade_running(settings: Settings, directory: Path, before: Migration) -> list[str]:
    """Print how long callers will wait, estimated from a copy made while the service runs, and restart the service."""
    manifest = make_backup(settings, directory, open_steps)
    copied_s = (manifest.ended_ms - manifest.began_ms) / 1_000
    if before.from_format == FORMAT:
        text = "the format stays: callers wait about a second"
    else:
        text = f"the start copies it again and changes its tables: callers wait about {copied_s + 1:.0f} s"
    print(f"cns: copied and verified in {copied_s:.1f} s; {text}", file=sys.stderr)
    columns = _columns(settings)
    restart_service(settings.data)
    return sorted(_columns(settings) - columns)


async def _open_once(settings: Settings) -> None:
    """Open the store as the service does, which creates missing tables and columns."""
    from cns_backend.store_host import StoreHost  # slow to import

    host = StoreHost(settings, lambda _: None)  # the backup exists
    host.database.start(asyncio.get_running_loop())
    await host.database.close()


def _format(settings: Settings) -> Migration:
    """The format, and the number of the last start. Raises StartError for a store of a newer version."""
    path = settings.data / STORE_FILE
    with _reading(path) as connection:
        check_format(connection, path)
        version: int = connection.pragma("user_version")
        boot: int = connection.execute("SELECT boot FROM meta").get if "meta" in table_names(connection) else 0
    return Migration(settings.data, version, boot)


def _columns(settings: Settings) -> set[str]:
    text = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'"
    with _reading(settings.data / STORE_FILE) as connection:
        return {f"{table}.{column}" for table, column in connection.execute(text)}


@contextmanager
def _reading(path: Path) -> Iterator[apsw.Connection]:
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            yield connection
        finally:
            connection.close()
    except apsw.Error as error:
        raise StartError(f"cannot read the data in {path.parent.absolute()}: {error}", EXIT_DATA_UNUSABLE) from error
