"""Queue records in SQLite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import msgspec

from cns_common.sqlite.database import Database
from cns_common.store_keys import refuse_bad_keys
from cqs.queues.model import Queue
from cqs.queues.names import QueueKey
from cqs.redrive.policy import read_redrive_policy
from cqs.stores.contract import QueueStore

REMEMBER_DELETED_MS = 86_400_000
"""The least time for which a deletion is remembered: far longer than `recreate_wait_s`."""
FORGET_BATCH = 100
GROWTH_BYTES_MAX = 16
"""A record that gets longer by no more than this, as by a purge, is written on a full disk, too."""

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS queues(account TEXT NOT NULL, region TEXT NOT NULL, name TEXT NOT NULL,"
    " id TEXT NOT NULL, version INTEGER NOT NULL, target_arn TEXT, record BLOB NOT NULL,"
    " PRIMARY KEY(account, region, name)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS queues_by_target ON queues(target_arn, name) WHERE target_arn IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS deleted_queues(id TEXT PRIMARY KEY, account TEXT NOT NULL, region TEXT NOT NULL,"
    " name TEXT NOT NULL, deleted_ms INTEGER NOT NULL, record BLOB) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS deleted_by_key ON deleted_queues(account, region, name, deleted_ms)",
    "CREATE INDEX IF NOT EXISTS deleted_by_time ON deleted_queues(deleted_ms) WHERE record IS NULL",
    "CREATE INDEX IF NOT EXISTS deleted_undropped ON deleted_queues(id) WHERE record IS NOT NULL",
)

_GET = "SELECT record FROM queues WHERE account = ? AND region = ? AND name = ?"
_INSERT = "INSERT INTO queues VALUES (?, ?, ?, ?, ?, ?, ?)"
_REPLACE = (
    "UPDATE queues SET version = ?, target_arn = ?, record = ?"
    " WHERE account = ? AND region = ? AND name = ? AND id = ? AND version = ?"
)
_DELETE = "DELETE FROM queues WHERE account = ? AND region = ? AND name = ? AND id = ?"
_LIST = "SELECT name FROM queues WHERE account = ? AND region = ? AND name >= ? AND name < ? ORDER BY name LIMIT ?"
"""One bound on each side: of two bounds on one side SQLite uses only the first and scans from there."""
_REGIONS = "SELECT DISTINCT region FROM queues WHERE account = ? ORDER BY region"
_BEFORE_ALL, _AFTER_ALL = "\x01", "\x7f"  # names contain only characters between them
_SOURCES = "SELECT name FROM queues WHERE target_arn = ? AND name > ? ORDER BY name LIMIT ?"
_MARK_DELETED = "INSERT INTO deleted_queues VALUES (?, ?, ?, ?, ?, ?)"
_FORGET_OLD = (
    "DELETE FROM deleted_queues WHERE id IN"
    f" (SELECT id FROM deleted_queues WHERE record IS NULL AND deleted_ms < ? LIMIT {FORGET_BATCH})"
)
_DELETED_AT = "SELECT max(deleted_ms) FROM deleted_queues WHERE account = ? AND region = ? AND name = ?"
_UNDROPPED = "SELECT record FROM deleted_queues WHERE record IS NOT NULL"
_MARK_DROPPED = "UPDATE deleted_queues SET record = NULL WHERE id = ?"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Queue).decode


@refuse_bad_keys(QueueStore)
class EmbeddedQueueStore(QueueStore):
    def __init__(self, database: Database) -> None:
        database.create_tables(SCHEMA)
        self._database = database
        self.changed: list[Callable[[QueueKey], None]] = []

    async def create(self, queue: Queue) -> Queue:
        def insert(connection: apsw.Connection) -> Queue:
            row = connection.execute(_GET, queue.key).fetchone()
            if row is not None:
                return _decode(_blob(row))
            record = (*queue.key, queue.id, queue.version, _target_arn(queue), _encode(queue))
            connection.execute(_INSERT, record)
            return queue

        created = await self._database.write(insert)
        self._tell(queue.key)
        return created

    async def get(self, key: QueueKey) -> Queue | None:
        row = self._database.reader.execute(_GET, key).fetchone()
        return None if row is None else _decode(_blob(row))

    async def replace(self, queue: Queue, expected_version: int) -> bool:
        encoded = _encode(queue)
        record = (queue.version, _target_arn(queue), encoded, *queue.key, queue.id, expected_version)
        replaced = await self._database.write(
            lambda connection: _changes(connection, _REPLACE, record), grows=self._is_longer(queue, encoded)
        )
        self._tell(queue.key)
        return replaced

    def _is_longer(self, queue: Queue, encoded: bytes) -> bool:
        row = self._database.reader.execute(_GET, queue.key).fetchone()
        return row is None or len(encoded) > len(_blob(row)) + GROWTH_BYTES_MAX

    async def delete(self, queue: Queue, now_ms: int) -> bool:
        def mark_deleted(connection: apsw.Connection) -> bool:
            if not _changes(connection, _DELETE, (*queue.key, queue.id)):
                return False
            connection.execute(_MARK_DELETED, (queue.id, *queue.key, now_ms, _encode(queue)))
            connection.execute(_FORGET_OLD, (now_ms - REMEMBER_DELETED_MS,))
            return True

        deleted = await self._database.write(mark_deleted, grows=False)
        self._tell(queue.key)
        return deleted

    async def list_names(self, account: str, region: str, prefix: str, after: str, n: int) -> list[str]:
        first = max(prefix, after + _BEFORE_ALL) if after else prefix
        return self._column(_LIST, (account, region, first, prefix + _AFTER_ALL, n))

    async def regions(self, account: str) -> list[str]:
        return self._column(_REGIONS, (account,))

    async def dead_letter_sources(self, target_arn: str, after: str, n: int) -> list[str]:
        return self._column(_SOURCES, (target_arn, after, n))

    async def deleted_at_ms(self, key: QueueKey) -> int:
        found: Any = self._database.reader.execute(_DELETED_AT, key).get
        return found or 0

    async def undropped(self) -> list[Queue]:
        return [_decode(_blob(row)) for row in self._database.reader.execute(_UNDROPPED)]

    async def forget_dropped(self, queue_id: str) -> None:
        await self._database.write(lambda connection: _changes(connection, _MARK_DROPPED, (queue_id,)), grows=False)

    def _tell(self, key: QueueKey) -> None:
        for callback in self.changed:
            callback(key)

    def _column(self, statement: str, bindings: tuple[str | int, ...]) -> list[str]:
        rows: list[Any] = self._database.reader.execute(statement, bindings).fetchall()
        return [row[0] for row in rows]


def _target_arn(queue: Queue) -> str | None:
    text = queue.attributes.get("RedrivePolicy")
    return read_redrive_policy(text).deadLetterTargetArn if text else None


def _changes(connection: apsw.Connection, statement: str, bindings: tuple[Any, ...]) -> bool:
    connection.execute(statement, bindings)
    return connection.changes() > 0


def _blob(row: Any) -> bytes:
    """apsw types a column as the union of all column types; this statement's is a BLOB."""
    blob: bytes = row[0]
    return blob
