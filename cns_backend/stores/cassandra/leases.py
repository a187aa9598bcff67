"""Leases in Cassandra: one row for each task and part, written conditionally."""

from __future__ import annotations

import contextlib

from cns_backend.stores.contract import LeaseStore
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.errors import OutcomeUnknown

TABLES = (
    "CREATE TABLE IF NOT EXISTS leases(task text, part text, holder text, until_ms bigint, PRIMARY KEY((task, part)))",
)

ROW_GRACE_S = 3_600
"""The time for which a row outlives its lease."""

_FIND = Statement("SELECT holder, until_ms FROM leases WHERE task = ? AND part = ?")
_FIRST = Statement(
    "INSERT INTO leases(task, part, holder, until_ms) VALUES (?, ?, ?, ?) IF NOT EXISTS USING TTL ?", idempotent=False
)
_NEXT = Statement(
    "UPDATE leases USING TTL ? SET holder = ?, until_ms = ? WHERE task = ? AND part = ? IF holder = ? AND until_ms = ?",
    idempotent=False,
)
_GIVE_BACK = Statement("DELETE FROM leases WHERE task = ? AND part = ? IF holder = ?", idempotent=False)


class CassandraLeaseStore(LeaseStore):
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def take(self, task: str, part: str, holder: str, life_ms: int, now_ms: int) -> bool:
        """A holder that loses a race gets False, and may try again later."""
        until_ms = now_ms + life_ms
        ttl_s = life_ms // 1_000 + ROW_GRACE_S
        rows = await self._cassandra.run(_FIND, task, part)
        if rows and rows[0][0] != holder and now_ms < rows[0][1]:
            return False

        async def attempt() -> bool:
            if not rows:
                return await self._cassandra.run_conditional(_FIRST, task, part, holder, until_ms, ttl_s)
            return await self._cassandra.run_conditional(_NEXT, ttl_s, holder, until_ms, task, part, *rows[0])

        async def ours() -> bool:
            return await self._cassandra.run(_FIND, task, part) == [(holder, until_ms)]

        return await resolve_lost_write(attempt, ours)

    async def give_back(self, task: str, part: str, holder: str) -> None:
        with contextlib.suppress(OutcomeUnknown):  # the lease ends by itself
            await self._cassandra.run_conditional(_GIVE_BACK, task, part, holder)
