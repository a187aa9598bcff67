"""Wanted sizes of delivery pools in the store host's database."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from cns_backend.stores.contract import EVERY_WORKER, PoolSize, PoolSizeStore
from cns_common.sqlite.database import Database

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS pool_sizes(pool TEXT NOT NULL, worker TEXT NOT NULL, record BLOB NOT NULL,"
    " PRIMARY KEY(pool, worker)) WITHOUT ROWID",
)

_PUT = "INSERT OR REPLACE INTO pool_sizes VALUES (?, ?, ?)"
_REMOVE = "DELETE FROM pool_sizes WHERE pool = ? AND worker = ?"
_REMOVE_ALL = "DELETE FROM pool_sizes WHERE pool = ?"
_ALL = "SELECT record FROM pool_sizes ORDER BY pool, worker"


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PoolSize).decode


class EmbeddedPoolSizeStore(PoolSizeStore):
    def __init__(self, database: Database) -> None:
        database.create_tables(SCHEMA)
        self._database = database

    async def put(self, size: PoolSize) -> None:
        def replace(connection: apsw.Connection) -> None:
            _remove(connection, size.pool, size.worker)
            connection.execute(_PUT, (size.pool, size.worker, _encode(size)))

        await self._database.write(replace)

    async def remove(self, pool: str, worker: str) -> None:
        await self._database.write(lambda connection: _remove(connection, pool, worker), grows=False)

    async def all(self) -> list[PoolSize]:
        rows: list[Any] = self._database.reader.execute(_ALL).fetchall()
        return [_decode(record) for (record,) in rows]


def _remove(connection: apsw.Connection, pool: str, worker: str) -> None:
    if worker == EVERY_WORKER:
        connection.execute(_REMOVE_ALL, (pool,))
    else:
        connection.execute(_REMOVE, (pool, worker))
