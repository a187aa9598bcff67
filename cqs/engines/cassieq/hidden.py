"""The messages that were still hidden when the invisibility pointer passed their bucket, by due time.

In the original the pointer waits for them, so one long lease keeps all later ones from coming back in time. Here it
goes on: it enters what is still hidden in this table, and most messages are acknowledged before that. An entry may be
out of date; the row decides. A receive that meets such an entry enters the message anew with the row's time, then
removes the entry."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.cassandra.session import Cassandra
from cns_common.ids import hex_id
from cqs.engines.cassieq import schema

NONCE_DIGITS = 12
PAGE = 100


class HiddenEntry(NamedTuple):
    due_ms: int
    monoton: int
    nonce: str


BEGIN = HiddenEntry(-1, -1, "")


class HiddenMessages:
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def add(self, key: str, monoton: int, due_ms: int) -> None:
        await self._cassandra.run(schema.ADD_HIDDEN, key, due_ms, monoton, hex_id()[:NONCE_DIGITS])

    async def page(self, key: str, after: HiddenEntry, n: int = PAGE) -> list[HiddenEntry]:
        """Up to `n` entries, soonest due first."""
        return [HiddenEntry(*row) for row in await self._cassandra.run(schema.LIST_HIDDEN, key, *after, n)]

    async def remove(self, key: str, entry: HiddenEntry) -> None:
        await self._cassandra.run(schema.REMOVE_HIDDEN, key, *entry)

    async def clear(self, key: str) -> None:
        """Remove the entries of an earlier generation."""
        await self._cassandra.run(schema.CLEAR_HIDDEN, key)
