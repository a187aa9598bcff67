"""From leases to messages: bodies are read, deliveries counted where it matters, and what is gone is passed over."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import Item, Lease, Taken
from cqs.engines.cluster.cache_failover import Caches
from cqs.engines.cluster.ids import Place, generation_of, handle_of
from cqs.engines.cluster.known_queues import Line
from cqs.engines.cluster.refill import buckets_of
from cqs.engines.cluster.rows import Row, Rows
from cqs.engines.contract import Message, PeekedMessage, ReceiveResult


class Deliveries:
    def __init__(self, rows: Rows, caches: Caches) -> None:
        self._rows = rows
        self._caches = caches

    async def make(self, line: Line, taken: Taken, now_ms: int) -> ReceiveResult:
        q = line.q
        for lease in taken.leases:  # of a purge that another process did
            line.heard(generation_of(lease.key.place.bucket))
        current = [lease for lease in taken.leases if generation_of(lease.key.place.bucket) == line.generation]
        reading = self._rows.read(q.id, [lease.key.place for lease in current])
        # only a redrive policy needs deliveries to be counted beyond the life of the cache
        counting = self._count(line, current, now_ms) if q.max_receives else None
        rows = (await asyncio.gather(reading, counting))[0] if counting else await reading
        messages: list[Message] = []
        spent: list[Message] = []
        gone: list[Place] = []
        expired: list[Place] = []
        later: list[Item] = []
        for lease in taken.leases:
            row = rows.get(lease.key.place)
            if row is None:
                gone.append(lease.key.place)
            elif row.born_at_ms <= now_ms - q.retention_ms:
                expired.append(lease.key.place)
            elif row.visible_at_ms > now_ms and self._caches.are_away:
                later.append(Item(lease.key.place, row.visible_at_ms))
            else:
                (spent if lease.spent else messages).append(_message(lease, row))
        if gone or expired:
            await self._caches.ask(lambda cache: cache.forget(q.id, gone + expired))
        if later:
            await self._caches.ask(lambda cache: cache.postpone(q.id, later))
        if expired:
            await self._rows.delete(q.id, expired)
        return ReceiveResult(tuple(messages), tuple(spent), taken.next_due_ms)

    async def _count(self, line: Line, leases: list[Lease], now_ms: int) -> None:
        items = [
            Item(lease.key.place, now_ms, lease.deliveries, lease.first_at_ms) for lease in leases if not lease.spent
        ]
        with suppress(CnsError):  # a count that is lost costs one delivery more, not the message
            await self._rows.count_deliveries(line.q.id, items)

    async def oldest_born_at_ms(self, line: Line) -> int:
        """Of what arrived first; 0 when there is nothing."""
        async for bucket in buckets_of(self._rows, line.q.id, line.generation):
            for row in await self._rows.page(line.q.id, bucket, -1, 1):
                return row.born_at_ms
        return 0


def _message(lease: Lease, row: Row) -> Message:
    return Message(
        row.id,
        handle_of(lease.key),
        row.body,
        lease.key.place.sequence,
        lease.deliveries,
        lease.first_at_ms,
        row.born_at_ms,
        row.tenant,
    )


def peeked_of(item: Item, row: Row) -> PeekedMessage:
    return PeekedMessage(
        row.id,
        row.body,
        item.place.sequence,
        item.deliveries,
        item.first_at_ms,
        row.born_at_ms,
        item.visible_at_ms,
        row.tenant,
    )
