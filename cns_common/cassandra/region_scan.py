"""The accounts and regions in an index: scans of all its partitions, for rare acts only."""

from __future__ import annotations

from collections.abc import AsyncIterator

from cns_common.cassandra.session import Cassandra, Row, Statement

PAGE_ROWS = 1_000


class RegionScan:
    """Finds the regions of an account in an index. Its partition key is `key`: account, region, and other columns."""

    def __init__(self, table: str, *key: str) -> None:
        columns = ", ".join(key)
        page = f"SELECT DISTINCT {columns} FROM {table}"
        self._first = Statement(f"{page} LIMIT {PAGE_ROWS}")
        marks = ", ".join("?" * len(key))
        self._next = Statement(f"{page} WHERE token({columns}) > token({marks}) LIMIT {PAGE_ROWS}")

    async def regions(self, cassandra: Cassandra, account: str) -> list[str]:
        """Sorted."""
        return sorted({row[1] async for row in self._keys(cassandra) if row[0] == account})

    async def accounts(self, cassandra: Cassandra) -> set[str]:
        """All accounts in the index."""
        return {row[0] async for row in self._keys(cassandra)}

    async def _keys(self, cassandra: Cassandra) -> AsyncIterator[Row]:
        rows = await cassandra.run(self._first)
        while rows:
            for row in rows:
                yield row
            rows = await cassandra.run(self._next, *rows[-1]) if len(rows) == PAGE_ROWS else []
