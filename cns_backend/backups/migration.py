"""Backs up a store of an earlier format before the service migrates it, so that an operator can go back."""

from __future__ import annotations

from pathlib import Path

import structlog

from cns_backend.backups.backup import make_backup
from cns_backend.backups.manifest import MANIFEST_FILE
from cns_common.configuration.settings import Settings
from cns_common.data_directory import sync_directory
from cns_common.errors import StartError
from cns_common.process.kill_points import MIGRATION_BACKED_UP, kill_point
from cns_common.sqlite.format import FORMAT, Migration

DIRECTORY = "backups"
"""The directory of these backups, in the data directory."""

log = structlog.get_logger(__name__)


def backup_of(migration: Migration) -> Path:
    """The path of the backup of this state of the store, which may not be made yet."""
    return migration.directory.absolute() / DIRECTORY / f"format-{migration.from_format}-start-{migration.boot}"


def back_up(settings: Settings, migration: Migration) -> None:
    """Make a verified backup in DATA/backups, unless an earlier start made one of this state of the store. Raises
    StartError."""
    directory = backup_of(migration)
    if not (directory / MANIFEST_FILE).exists():
        try:
            make_backup(settings, directory)
            sync_directory(migration.directory)  # the directory of backups may be new
        except StartError as error:
            text = (
                f"the store is of format {migration.from_format}, this program's is {FORMAT}, and it cannot be backed"
                f" up before it is changed: {error}; `cns upgrade --backup DIRECTORY` makes the backup elsewhere"
            )
            raise StartError(text, error.exit_code) from error
    kill_point(MIGRATION_BACKED_UP)
    log.warning("store.backed_up", from_format=migration.from_format, to_format=FORMAT, backup=str(directory))
