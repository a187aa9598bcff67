"""The regions in which an account has entries in an index: a scan of all its partitions, for rare acts only."""

from __future__ import annotations

from cns_common.cassandra.session import Cassandra, Statement

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
        found: set[str] = set()
        rows = await cassandra.run(self._first)
        while rows:
            found |= {row[1] for row in rows if row[0] == account}
            rows = await cassandra.run(self._next, *rows[-1]) if len(rows) == PAGE_ROWS else []
        return sorted(found)
