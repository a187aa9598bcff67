"""The format of the store: the version of its tables, and what follows when it is not this program's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw

from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError

FORMAT = 2
"""Version of the tables, stored in `meta` and as SQLite's user_version. It rises with each release that changes tables.
1: 0.1.0; 2: 0.2.0."""
PROGRAM_COLUMN = "program TEXT NOT NULL DEFAULT ''"


class Migration(NamedTuple):
    """An existing store of an earlier format, which is about to be changed."""

    directory: Path
    from_format: int
    boot: int
    """The number of the last start. A store of this number does not change any more: the next start has another."""


BeforeMigration = Callable[[Migration], None]
"""Called before anything is written into a store of an earlier format. May refuse it by raising StartError."""


def refuse_migration(migration: Migration) -> None:
    """A `BeforeMigration` that refuses every store of an earlier format: commands open some tables of a store only, and
    would leave the others in the earlier format."""
    text = (
        f"the store in {migration.directory} is of format {migration.from_format}, this program's is {FORMAT}:"
        " start the service, or run `cns upgrade`, which change it after a backup"
    )
    raise StartError(text, EXIT_DATA_UNUSABLE)


def check_format(connection: apsw.Connection, path: Path) -> None:
    """Raise StartError for a store of a newer format. Names the program that wrote it, if that is known."""
    version: int = connection.pragma("user_version")
    program = ""
    if "meta" in table_names(connection):
        columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(meta)")}
        noted = "format, program" if "program" in columns else "format, ''"
        row = connection.execute(f"SELECT {noted} FROM meta").fetchone()
        if row is not None and isinstance(row[0], int):  # a disk that lost writes may leave anything
            version, program = max(version, row[0]), row[1]
    if version > FORMAT:
        writer = f"cns {program}" if program else "the newer version"
        text = (
            f"the store in {path.parent} is of format {version}, written by {writer}; this program reads up to format"
            f" {FORMAT}: install {writer} again, or `cns restore` the backup made before the upgrade"
        )
        raise StartError(text, EXIT_DATA_UNUSABLE)


def earlier_format(connection: apsw.Connection, directory: Path) -> Migration | None:
    """The migration that a store needs; None for a new one, and for one of the present format."""
    if "meta" not in table_names(connection):
        return None
    row = connection.execute("SELECT format, boot FROM meta").fetchone()
    if row is None or row[0] == FORMAT:
        return None
    return Migration(directory, row[0], row[1])


def mark_format(connection: apsw.Connection, program: str, boot: int) -> None:
    """Note that the tables are those of FORMAT, as this version of the program made them, and the number of the start,
    which a migration stores only now: if it is killed before, the next start finds its backup."""
    with connection:
        add_program_column(connection)
        if connection.execute("SELECT format, program, boot FROM meta").fetchone() != (FORMAT, program, boot):
            connection.execute("UPDATE meta SET format = ?, program = ?, boot = ?", (FORMAT, program, boot))
            connection.pragma("user_version", FORMAT)


def add_program_column(connection: apsw.Connection) -> None:
    """Stores of 0.1.0 lack it."""
    if "program" not in {name for _, name, *_ in connection.execute("PRAGMA table_info(meta)")}:
        connection.execute(f"ALTER TABLE meta ADD COLUMN {PROGRAM_COLUMN}")


def table_names(connection: apsw.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
