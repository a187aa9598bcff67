"""The outbox in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from cns.delivery.outbox import OUTBOX_MS, OutboxItem
from cns.stores.contract import OutboxStore
from cns_common.sqlite.database import Database
from cns_common.store_keys import refuse_bad_keys

TABLES = (
    "CREATE TABLE IF NOT EXISTS outbox(id TEXT PRIMARY KEY, account TEXT NOT NULL, protocol TEXT NOT NULL,"
    " at_ms INTEGER NOT NULL, record BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS outbox_of_account ON outbox(account, id)",
    "CREATE INDEX IF NOT EXISTS outbox_of_protocol ON outbox(protocol, id)",
    "CREATE INDEX IF NOT EXISTS outbox_of_both ON outbox(account, protocol, id)",
    "CREATE INDEX IF NOT EXISTS outbox_by_age ON outbox(at_ms)",
)
PUT = "INSERT INTO outbox VALUES (?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING"
GET = "SELECT record FROM outbox WHERE id = ?"
REMOVE = "DELETE FROM outbox WHERE id = ?"
EXPIRED = "SELECT id FROM outbox WHERE at_ms <= ? LIMIT ?"
_NEWEST = "SELECT record FROM outbox WHERE id < ? {} ORDER BY id DESC LIMIT ?"
NEWEST = {
    (False, False): _NEWEST.format(""),
    (True, False): _NEWEST.format("AND account = ?"),
    (False, True): _NEWEST.format("AND protocol = ?"),
    (True, True): _NEWEST.format("AND account = ? AND protocol = ?"),
}
"""Statements by (account given, protocol given)."""
AFTER_ALL = "~"
"""Sorts after every id."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutboxItem).decode


@refuse_bad_keys(OutboxStore)
class EmbeddedOutboxStore(OutboxStore):
    def __init__(self, database: Database) -> None:
        database.create_tables(TABLES)
        self._database = database

    async def put(self, item: OutboxItem) -> None:
        row = (item.id, item.account, item.protocol, item.at_ms, _encode(item))
        await self._database.write(lambda connection: connection.execute(PUT, row))

    async def get(self, item_id: str) -> OutboxItem | None:
        row: Any = self._database.reader.execute(GET, (item_id,)).fetchone()
        return None if row is None else _decode(row[0])

    async def newest(self, account: str, protocol: str, before: str, n: int) -> list[OutboxItem]:
        given = [text for text in (account, protocol) if text]
        statement = NEWEST[bool(account), bool(protocol)]
        rows: Any = self._database.reader.execute(statement, (before or AFTER_ALL, *given, n))
        return [_decode(record) for (record,) in rows]

    async def remove(self, item_ids: Sequence[str]) -> None:
        ids = [(item_id,) for item_id in item_ids]
        await self._database.write(lambda connection: _remove(connection, ids), grows=False)

    async def sweep(self, now_ms: int, budget: int) -> int:
        expired: Any = self._database.reader.execute(EXPIRED, (now_ms - OUTBOX_MS, budget)).fetchall()
        if expired:  # an idle service does not commit
            await self._database.write(lambda connection: _remove(connection, expired), grows=False)
        return len(expired)


def _remove(connection: apsw.Connection, ids: list[tuple[str]]) -> None:
    connection.executemany(REMOVE, ids)
