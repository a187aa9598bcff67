"""Move tasks in SQLite."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from cns_common.sqlite.database import Database
from cns_common.store_keys import refuse_bad_keys
from cqs.limits import MOVE_TASKS_LISTED_MAX
from cqs.redrive.task import MoveTask
from cqs.stores.contract import MoveTaskStore

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS move_tasks(source TEXT NOT NULL, started_ms INTEGER NOT NULL, id TEXT NOT NULL,"
    " active INTEGER NOT NULL, version INTEGER NOT NULL, record BLOB NOT NULL,"
    " PRIMARY KEY(source, started_ms, id)) WITHOUT ROWID",
    "CREATE UNIQUE INDEX IF NOT EXISTS move_tasks_active ON move_tasks(source) WHERE active = 1",
)

_INSERT = "INSERT OR IGNORE INTO move_tasks VALUES (?, ?, ?, 1, ?, ?)"
_FORGET_OLD = (
    "DELETE FROM move_tasks WHERE source = ?1 AND (started_ms, id) IN (SELECT started_ms, id FROM move_tasks"
    f" WHERE source = ?1 ORDER BY started_ms DESC, id DESC LIMIT -1 OFFSET {MOVE_TASKS_LISTED_MAX})"
)
_GET = "SELECT record FROM move_tasks WHERE source = ? AND id = ?"
_REPLACE = (
    "UPDATE move_tasks SET active = ?, version = ?, record = ?"
    " WHERE source = ? AND started_ms = ? AND id = ? AND version = ?"
)
_NEWEST = "SELECT record FROM move_tasks WHERE source = ? ORDER BY started_ms DESC, id DESC LIMIT ?"
_ACTIVE = "SELECT record FROM move_tasks WHERE active = 1"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(MoveTask).decode


@refuse_bad_keys(MoveTaskStore)
class EmbeddedMoveTaskStore(MoveTaskStore):
    def __init__(self, database: Database) -> None:
        database.create_tables(SCHEMA)
        self._database = database

    async def create(self, task: MoveTask) -> bool:
        def insert(connection: apsw.Connection) -> bool:
            record = (task.source_arn, task.started_ms, task.id, task.version, _encode(task))
            connection.execute(_INSERT, record)
            inserted = connection.changes() > 0
            connection.execute(_FORGET_OLD, (task.source_arn,))
            return inserted

        return await self._database.write(insert)

    async def get(self, source_arn: str, task_id: str) -> MoveTask | None:
        found = self._tasks(_GET, (source_arn, task_id))
        return found[0] if found else None

    async def replace(self, task: MoveTask, expected_version: int) -> bool:
        key = (task.source_arn, task.started_ms, task.id, expected_version)

        def update(connection: apsw.Connection) -> bool:
            connection.execute(_REPLACE, (int(task.active), task.version, _encode(task), *key))
            return connection.changes() > 0

        return await self._database.write(update, grows=False)  # a task can be cancelled on a full disk

    async def newest(self, source_arn: str, n: int) -> list[MoveTask]:
        return self._tasks(_NEWEST, (source_arn, n))

    async def active(self) -> list[MoveTask]:
        return self._tasks(_ACTIVE, ())

    def _tasks(self, statement: str, bindings: tuple[str | int, ...]) -> list[MoveTask]:
        rows: list[Any] = self._database.reader.execute(statement, bindings).fetchall()
        return [_decode(row[0]) for row in rows]
