"""`cns upgrade`: brings the data to this program's version, after a backup, which is the only way back."""

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
from cns_cli.output import print_json
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
    """Back the store up, then add what this version's tables have more. A running `cns up` serves meanwhile, and is
    restarted then with the same sockets: callers wait. Refuses a store of a newer version.

    Example: cns upgrade --backup /var/backups/cns/before-upgrade
    """
    settings = load_settings(data)
    if settings.store == "cassandra":
        print("nodetool snapshot, as `cns backup` says; then:\ncns schema apply")
        print("cns: the store is Cassandra's: run these, nothing was changed", file=sys.stderr)
        sys.exit(EXIT_ELSEWHERE)
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
    """Add what this version's tables have more, and return the names of it. `found`: the backup is there, made by an
    upgrade that was killed. Raises StartError if a service runs, before the backup."""
    os.close(lock_directory(settings.data, LOCK_FILE))
    if not found:
        make_backup(settings, directory, open_steps)
    before = _columns(settings)
    asyncio.run(_open_once(settings))
    return sorted(_columns(settings) - before)


def _backup_of_running(migration: Migration) -> Path:
    """Not the one that a start looks for: messages come after it."""
    return backup_of(migration).with_name(f"format-{migration.from_format}-running-{Clock().real_ms()}")


def _upgrade_running(settings: Settings, directory: Path, before: Migration) -> list[str]:
    """Say how long callers will wait, by the time of a copy that is made while the service runs, and restart it."""
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
    """Open the store as the service does, which makes missing tables and columns."""
    from cns_backend.store_host import StoreHost  # slow to import

    host = StoreHost(settings, lambda _: None)  # it is backed up
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
