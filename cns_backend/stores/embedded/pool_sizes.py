"""How many threads an operator wants each delivery pool to have: it outlives the workers, and wins over settings."""

from __future__ import annotations

from typing import Any, Protocol

import apsw
import msgspec

from cns_common.sqlite.database import Database

DELIVERY = "delivery"
REDELIVERY = "redelivery"
POOLS = (DELIVERY, REDELIVERY)
EVERY_WORKER = ""
BY_SETTING = "setting"

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS pool_sizes(pool TEXT NOT NULL, worker TEXT NOT NULL, record BLOB NOT NULL,"
    " PRIMARY KEY(pool, worker)) WITHOUT ROWID",
)

_PUT = "INSERT OR REPLACE INTO pool_sizes VALUES (?, ?, ?)"
_REMOVE = "DELETE FROM pool_sizes WHERE pool = ? AND worker = ?"
_REMOVE_ALL = "DELETE FROM pool_sizes WHERE pool = ?"
_ALL = "SELECT record FROM pool_sizes ORDER BY pool, worker"


class PoolSize(msgspec.Struct, frozen=True, kw_only=True):
    """`worker` is the name of a process, or EVERY_WORKER."""

    pool: str
    worker: str = EVERY_WORKER
    threads: int
    set_by: str
    set_at_ms: int


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """One pool of a worker, as its reports say it."""

    pool: str
    threads: int
    draining: int = msgspec.field(name="leaving")  # version 0.1 reads these names in reports
    blocked: int = msgspec.field(name="silent")
    in_flight: int
    waiting: int
    wanted: int
    set_by: str
    set_at_ms: int


class PoolSizeStore(Protocol):
    async def put(self, size: PoolSize) -> None:
        """In place of the one before. One for every worker is in place of those of single workers, too."""
        ...

    async def remove(self, pool: str, worker: str) -> None:
        """As `put`: EVERY_WORKER removes all of the pool's."""
        ...

    async def all(self) -> list[PoolSize]:
        """By pool and worker."""
        ...


def wanted_size(sizes: list[PoolSize], pool: str, worker: str) -> PoolSize | None:
    """The one that holds for a worker: its own before that of all; None: its setting does."""
    found = {size.worker: size for size in sizes if size.pool == pool}
    return found.get(worker) or found.get(EVERY_WORKER)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PoolSize).decode


class EmbeddedPoolSizeStore:
    """See `PoolSizeStore`; lives in the store host."""

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
