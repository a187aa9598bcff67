"""`cns restore`: puts a backup into a data directory that no service uses.

First a copy is made and verified beside the store. Then a marker, which prevents a start of the service, guards the
exchange of the files. The next `cns restore` completes a killed one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import apsw
import msgspec
import typer

from cns_backend.backups.backup import copy_file, copy_store, no_room, write_durably
from cns_backend.backups.manifest import KEY_GIVEN, BackupManifest, check_files, read_manifest
from cns_cli.activity import recorded
from cns_cli.options import Data, Json
from cns_cli.output import print_json
from cns_cli.progress import open_steps
from cns_cli.service.supervise import LOCK_FILE as UP_LOCK_FILE
from cns_cli.store.cluster_backup import print_cluster_steps
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings, load_settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE, lock_directory, sync_directory, unusable
from cns_common.data_owner import give_to_owner
from cns_common.errors import UNREADABLE, StartError
from cns_common.process.kill_points import (
    RESTORE_BEGUN,
    RESTORE_CLEARED,
    RESTORE_KEY_PLACED,
    RESTORE_PLACED,
    kill_point,
)
from cns_common.sqlite.database import LOCK_FILE, STORE_FILE
from cns_common.sqlite.integrity_check import check_integrity
from cns_common.sqlite.opening import MASTER_KEY_FILE, RESTORE_FILE

BOOTS_SKIPPED = 1_000
"""Receipt handles and message numbers contain the number of the start. The restore skips this many, so that those
issued after the backup, or by the replaced store, do not name messages of the restored store."""
SCRATCH = ".restored"
ASIDE = "before-restore-"
_LOGS = (f"{STORE_FILE}-wal", f"{STORE_FILE}-shm")


class StoreExchange(msgspec.Struct, frozen=True):
    """The content of the marker. `aside`: the directory for the former files."""

    backup: str
    aside: str


def restore(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="As `cns backup` made it.")],
    replace: Annotated[bool, typer.Option("--replace", help="Move an existing store aside, and replace it.")] = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """Put a backup into the data directory. Refused if a service runs, if the backup is damaged or of a newer version,
    or if there is a store and no --replace.

    Example: cns restore /var/backups/cns/2026-11-24 --data data
    """
    settings = load_settings(data)
    if settings.store == "cassandra":
        sys.exit(print_cluster_steps(settings))
    try:
        with locked(settings.data):
            aside = _restore(settings, directory.absolute(), replace=replace)
    except OSError as error:
        raise unusable(f"cannot restore into {settings.data.absolute()}", error) from error
    with recorded(data, "Restore", str(directory.absolute()), f"former store in {aside}" if aside else ""):
        pass  # done above: a refused restore writes nothing, not even this record
    if json:
        print_json([{"data": str(settings.data.absolute()), "backup": str(directory.absolute()), "aside": aside}])
        return
    print(f"cns: {directory} is restored into {settings.data.absolute()}")
    if aside:
        print(f"cns: the former store is in {aside}", file=sys.stderr)


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """Keep services from starting. Raises StartError if one runs."""
    fds = []
    try:
        for name in (UP_LOCK_FILE, LOCK_FILE):
            fds.append(lock_directory(data, name))  # noqa: PERF401  # the first stays held if the second fails
        yield
    finally:
        for fd in fds:
            os.close(fd)


def _restore(settings: Settings, backup: Path, *, replace: bool) -> str:
    """Returns the directory with the former files; '' if there were none."""
    data = settings.data.absolute()
    marker = data / RESTORE_FILE
    if marker.exists():
        cut_off = _read_marker(marker)
        print(f"cns: completing the restore of {cut_off.backup}, which was cut off", file=sys.stderr)
        _exchange(data, cut_off)
        if Path(cut_off.backup) == backup:
            return cut_off.aside if Path(cut_off.aside).exists() else ""
        replace = True
    manifest = read_manifest(backup)
    with open_steps("verifying the backup"):
        check_files(backup, manifest)
    _check_target(settings, data, manifest, replace=replace)
    try:
        _prepare(data, backup, manifest)
    except (StartError, OSError):
        _remove_scratch(data)  # the service may need the space
        raise
    exchange = StoreExchange(str(backup), str(data / f"{ASIDE}{Clock().real_ms()}"))
    scratch = data / f"{RESTORE_FILE}.new"
    write_durably(scratch, msgspec.json.encode(exchange))
    scratch.rename(marker)
    sync_directory(data)
    kill_point(RESTORE_BEGUN)
    _exchange(data, exchange)
    return exchange.aside if Path(exchange.aside).exists() else ""


def _read_marker(marker: Path) -> StoreExchange:
    """Raises StartError for a marker that no restore wrote."""
    try:
        exchange = msgspec.json.decode(marker.read_bytes(), type=StoreExchange)
        aside = Path(exchange.aside).name
        if not aside.startswith(ASIDE):
            raise ValueError(f"no directory for former files: {exchange.aside!r}")
    except UNREADABLE as error:
        text = f"{marker} cannot be read ({error}): move it away, and restore with --replace"
        raise StartError(text, EXIT_DATA_UNUSABLE) from error
    return StoreExchange(exchange.backup, str(marker.parent / aside))  # the directory may have been moved since


def _check_target(settings: Settings, data: Path, manifest: BackupManifest, *, replace: bool) -> None:
    if manifest.master_key == KEY_GIVEN and not settings.master_key:
        raise StartError("the backup has no master key: set CNS_MASTER_KEY to the key at that time", EXIT_DATA_UNUSABLE)
    if not replace and ((data / STORE_FILE).exists() or (data / MASTER_KEY_FILE).exists()):
        text = f"there is a store in {data}: restore into another directory, or use --replace, which keeps it aside"
        raise StartError(text, EXIT_DATA_UNUSABLE)


def _prepare(data: Path, backup: Path, manifest: BackupManifest) -> None:
    """Write and verify the new files beside the existing ones."""
    store = data / f"{STORE_FILE}{SCRATCH}"
    _remove_scratch(data)
    with open_steps("copying the store") as steps:
        copy_store(backup / STORE_FILE, store, steps, alone=True)
    connection = apsw.Connection(str(store))
    try:
        connection.execute("UPDATE meta SET boot = max(boot, ?) + ?", (_last_boot(data / STORE_FILE), BOOTS_SKIPPED))
    except apsw.FullError as error:
        raise no_room(store) from error
    finally:
        connection.close()
    with open_steps("verifying the copy"):
        found = check_integrity(store)
    if found.faults:
        raise StartError(f"{backup} is damaged: {found.faults[0]}", EXIT_DATA_UNUSABLE)
    if MASTER_KEY_FILE in manifest.files:
        copy_file(backup / MASTER_KEY_FILE, data / f"{MASTER_KEY_FILE}{SCRATCH}")
    give_to_owner(data, (store.name, f"{MASTER_KEY_FILE}{SCRATCH}", LOCK_FILE, UP_LOCK_FILE))
    sync_directory(data)


def _last_boot(store: Path) -> int:
    """The number of the last start of the replaced store; 0 if there is none, or it cannot be read."""
    if not store.exists():
        return 0
    try:
        connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            boot: int = connection.execute("SELECT boot FROM meta").get
        finally:
            connection.close()
    except apsw.Error:
        return 0
    return boot or 0


def _remove_scratch(data: Path) -> None:
    for name in (f"{STORE_FILE}{SCRATCH}", f"{STORE_FILE}{SCRATCH}-journal", f"{MASTER_KEY_FILE}{SCRATCH}"):
        (data / name).unlink(missing_ok=True)


def _exchange(data: Path, exchange: StoreExchange) -> None:
    """Replace the former files by the prepared ones. A killed process may have done some of the steps."""
    aside = Path(exchange.aside)
    if (data / f"{STORE_FILE}{SCRATCH}").exists():
        for name in _LOGS:  # a former log must not be applied to the restored store
            _move(data / name, aside)
        kill_point(RESTORE_CLEARED)
    for name in (MASTER_KEY_FILE, STORE_FILE):
        scratch = data / f"{name}{SCRATCH}"
        if scratch.exists():
            _move(data / name, aside)
            scratch.rename(data / name)
            sync_directory(data)
            kill_point(RESTORE_KEY_PLACED if name == MASTER_KEY_FILE else RESTORE_PLACED)
    (data / RESTORE_FILE).unlink()
    sync_directory(data)


def _move(path: Path, aside: Path) -> None:
    """Move a former file away; directory entries become durable in this order."""
    if not path.exists():
        return
    aside.mkdir(mode=0o700, exist_ok=True)
    path.rename(aside / path.name)
    sync_directory(aside)
    sync_directory(aside.parent)
