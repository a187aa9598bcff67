"""The permitted states of a reopened store: those after a transaction, from the last answered transaction on."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import apsw

from cns_common.sqlite.database import Database
from lab.faults.power.recording_vfs import Log

OWN = "meta"
"""Changes at every opening; its contents are checked elsewhere."""
COLUMNS = {"bodies": "seq, id, length(body), substr(body, 1, 40)"}
"""Full bodies are compared with the journal."""


def digest(connection: apsw.Connection) -> bytes:
    """A hash of all rows of all tables."""
    found = blake2b(digest_size=16)
    tables: list[Any] = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> ? ORDER BY name",
        (OWN,),
    ).fetchall()
    for (table,) in tables:
        rows = connection.execute(f"SELECT {COLUMNS.get(table, '*')} FROM {table}").fetchall()
        if rows:  # an empty table equals a missing one: opening makes it
            found.update(repr((table, sorted(map(repr, rows)))).encode())
    return found.digest()


class Snapshots:
    """Notes the state at the end of every transaction, with the log positions of its begin and its answer."""

    def __init__(self, database: Database, log: Log) -> None:
        self._connection = database.connection
        self._log = log
        self._digests = [digest(database.connection)]  # before the first transaction
        self._began = [0]
        self._answered = [0]
        database.before_commit(self._note)
        database.on_commit(self._note_answer)

    def allowed(self, position: int) -> set[bytes]:
        """Hashes of the states that a cut at `position` may leave."""
        answered = sum(1 for at in self._answered if at <= position)
        began = sum(1 for at in self._began if at <= position)
        return set(self._digests[max(answered - 1, 0) : began])

    def _note(self) -> None:
        self._digests.append(digest(self._connection))
        self._began.append(self._log.position)

    def _note_answer(self) -> None:
        self._answered.append(self._log.position)
