"""The outbox in Cassandra: items, and lists of their ids by account, protocol and quarter of an hour.

Readers go back in time through the lists that have entries. All rows expire by their time to live.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from heapq import merge
from itertools import islice

import msgspec

from cns.delivery.outbox import OUTBOX_MS, OutboxItem
from cns.stores.contract import OutboxStore
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.store_keys import refuse_bad_keys

LIFE_S = OUTBOX_MS // 1000
PART_MS = 15 * 60_000
"""The time that one list spans: at 1,000 items a second it has less than a million entries."""
READ_AT_ONCE = 100
PARTS_AT_ONCE = 1_000
LISTS_OF_PART_MAX = 4_000
LAST_PART = 2**31 - 1
AFTER_ALL = "~"
"""Sorts after every id."""


TABLES = (
    f"CREATE TABLE IF NOT EXISTS outbox(id text PRIMARY KEY, record blob) WITH default_time_to_live = {LIFE_S}",
    "CREATE TABLE IF NOT EXISTS outbox_parts(shard int, part int, account text, protocol text,"
    " PRIMARY KEY(shard, part, account, protocol)) WITH CLUSTERING ORDER BY (part DESC, account ASC, protocol ASC)"
    f" AND default_time_to_live = {LIFE_S}",
    "CREATE TABLE IF NOT EXISTS outbox_entries(account text, protocol text, part int, id text,"
    " PRIMARY KEY((account, protocol, part), id)) WITH CLUSTERING ORDER BY (id DESC)"
    f" AND default_time_to_live = {LIFE_S}",
)

_PUT = Statement("INSERT INTO outbox(id, record) VALUES (?, ?)")
_GET = Statement("SELECT record FROM outbox WHERE id = ?")
_GET_ALL = Statement("SELECT record FROM outbox WHERE id IN ?")
_REMOVE = Statement("DELETE FROM outbox WHERE id = ?")
_ENTER_PART = Statement("INSERT INTO outbox_parts(shard, account, protocol, part) VALUES (0, ?, ?, ?)")
_PARTS = Statement(f"SELECT part FROM outbox_parts WHERE shard = 0 AND part <= ? LIMIT {PARTS_AT_ONCE}")
_LISTS = Statement(f"SELECT account, protocol FROM outbox_parts WHERE shard = 0 AND part = ? LIMIT {LISTS_OF_PART_MAX}")
_ENTER = Statement("INSERT INTO outbox_entries(account, protocol, part, id) VALUES (?, ?, ?, ?)")
_ENTRIES = Statement("SELECT id FROM outbox_entries WHERE account = ? AND protocol = ? AND part = ? AND id < ? LIMIT ?")
_LEAVE = Statement("DELETE FROM outbox_entries WHERE account = ? AND protocol = ? AND part = ? AND id = ?")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutboxItem).decode


@refuse_bad_keys(OutboxStore)
class CassandraOutboxStore(OutboxStore):
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def put(self, item: OutboxItem) -> None:
        """Write the item last: an entry without an item is skipped, but an item without an entry would not be found."""
        key = (item.account, item.protocol, item.at_ms // PART_MS)
        await self._cassandra.run(_ENTER_PART, *key)
        await self._cassandra.run(_ENTER, *key, item.id)
        await self._cassandra.run(_PUT, item.id, _encode(item))

    async def get(self, item_id: str) -> OutboxItem | None:
        rows = await self._cassandra.run(_GET, item_id)
        return _decode(rows[0][0]) if rows else None

    async def newest(self, account: str, protocol: str, before: str, n: int) -> list[OutboxItem]:
        found: list[OutboxItem] = []
        async for ids in self._ids(account, protocol, before or AFTER_ALL, n):
            for start in range(0, len(ids), READ_AT_ONCE):
                found += await self._read(ids[start : start + READ_AT_ONCE])
            if len(found) >= n:
                break
        return found[:n]

    async def remove(self, item_ids: Sequence[str]) -> None:
        for start in range(0, len(item_ids), READ_AT_ONCE):
            items = await self._read(item_ids[start : start + READ_AT_ONCE])
            await asyncio.gather(*[self._remove(item) for item in items])

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Nothing to do: rows expire by their time to live."""
        return 0

    async def _remove(self, item: OutboxItem) -> None:
        """Remove the item last: after a crash it can still be read, and removed again."""
        await self._cassandra.run(_LEAVE, item.account, item.protocol, item.at_ms // PART_MS, item.id)
        await self._cassandra.run(_REMOVE, item.id)

    async def _read(self, ids: Sequence[str]) -> list[OutboxItem]:
        """The items that exist, newest first."""
        items = [_decode(record) for (record,) in await self._cassandra.run(_GET_ALL, list(ids))]
        return sorted(items, key=lambda item: item.id, reverse=True)

    async def _ids(self, account: str, protocol: str, before: str, n: int) -> AsyncIterator[list[str]]:
        """Ids, newest first, in pages of one quarter of an hour each."""
        async for part in self._parts(LAST_PART if before == AFTER_ALL else part_of(before)):
            lists = [
                (has_account, has_protocol, part, before, n)
                for has_account, has_protocol in await self._cassandra.run(_LISTS, part)
                if account in ("", has_account) and protocol in ("", has_protocol)
            ]
            found = await self._cassandra.run_each(_ENTRIES, lists)
            yield list(islice(merge(*[[item_id for (item_id,) in one] for one in found], reverse=True), n))

    async def _parts(self, newest: int) -> AsyncIterator[int]:
        """The parts that have entries, from `newest` backwards."""
        while rows := await self._cassandra.run(_PARTS, newest):
            for part in dict.fromkeys(part for (part,) in rows):
                yield part
                newest = part - 1


def part_of(item_id: str) -> int:
    """The part of an id, which begins with its time."""
    at_ms = item_id.partition("-")[0]
    return int(at_ms) // PART_MS if at_ms.isdecimal() else LAST_PART
