"""Wanted sizes of delivery pools in Cassandra: one partition, read by every worker once a second."""

from __future__ import annotations

import msgspec

from cns_backend.stores.contract import EVERY_WORKER, PoolSize, PoolSizeStore
from cns_common.cassandra.session import Cassandra, Statement

TABLES = (
    "CREATE TABLE IF NOT EXISTS pool_sizes(shard int, pool text, worker text, record blob,"
    " PRIMARY KEY(shard, pool, worker))",
)

SIZES_MAX = 1_000
"""The limit of sizes read. A size for every worker removes those of single workers, which bounds their number."""

_PUT = Statement("INSERT INTO pool_sizes(shard, pool, worker, record) VALUES (0, ?, ?, ?)")
_REMOVE = Statement("DELETE FROM pool_sizes WHERE shard = 0 AND pool = ? AND worker = ?")
_REMOVE_SINGLE = Statement("DELETE FROM pool_sizes WHERE shard = 0 AND pool = ? AND worker > ?")
_ALL = Statement(f"SELECT record FROM pool_sizes WHERE shard = 0 LIMIT {SIZES_MAX}")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PoolSize).decode


class CassandraPoolSizeStore(PoolSizeStore):
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def put(self, size: PoolSize) -> None:
        await self._change(size.pool, size.worker, (_PUT, (size.pool, size.worker, _encode(size))))

    async def remove(self, pool: str, worker: str) -> None:
        await self._change(pool, worker, (_REMOVE, (pool, worker)))

    async def all(self) -> list[PoolSize]:
        return [_decode(record) for (record,) in await self._cassandra.run(_ALL)]

    async def _change(self, pool: str, worker: str, change: tuple[Statement, tuple[object, ...]]) -> None:
        """Run the change as one write: all sizes are in one partition."""
        parts = [change]
        if worker == EVERY_WORKER:
            parts.append((_REMOVE_SINGLE, (pool, EVERY_WORKER)))
        await self._cassandra.run_batch(parts, logged=False)
