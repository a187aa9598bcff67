"""Makes messages from leases: reads bodies, stores delivery counts if a redrive policy needs them, skips deleted
messages."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import CachedMessage, Lease, LeaseResult
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.ids import MessageLocation, generation_of, make_handle
from cqs.engines.cluster.known_queues import KnownQueue
from cqs.engines.cluster.refill import buckets_of
from cqs.engines.cluster.rows import MessageRow, MessageRows
from cqs.engines.contract import Message, PeekedMessage, ReceiveResult


class DeliveryBuilder:
    def __init__(self, rows: MessageRows, failover: CacheFailover) -> None:
        self._rows = rows
        self._failover = failover

    async def build(self, queue: KnownQueue, taken: LeaseResult, now_ms: int) -> ReceiveResult:
        q = queue.q
        for lease in taken.leases:  # another process may have purged the queue
            queue.observe_generation(generation_of(lease.key.location.bucket))
        current = [lease for lease in taken.leases if generation_of(lease.key.location.bucket) == queue.generation]
        reading = self._rows.read(q.id, [lease.key.location for lease in current])
        # the cache counts deliveries, too: only a redrive policy needs counts that survive it
        counting = self._count(queue, current, now_ms) if q.max_receives else None
        rows = (await asyncio.gather(reading, counting))[0] if counting else await reading
        messages: list[Message] = []
        spent: list[Message] = []
        gone: list[MessageLocation] = []
        expired: list[MessageLocation] = []
        later: list[CachedMessage] = []
        for lease in taken.leases:
            row = rows.get(lease.key.location)
            if row is None:
                gone.append(lease.key.location)
            elif row.born_at_ms <= now_ms - q.retention_ms:
                expired.append(lease.key.location)
            elif row.visible_at_ms > now_ms and self._failover.on_fallback:
                later.append(CachedMessage(lease.key.location, row.visible_at_ms))
            else:
                (spent if lease.spent else messages).append(_message(lease, row))
        if gone or expired:
            await self._failover.ask(lambda cache: cache.forget(q.id, gone + expired))
        if later:
            await self._failover.ask(lambda cache: cache.postpone(q.id, later))
        if expired:
            await self._rows.delete(q.id, expired)
        return ReceiveResult(tuple(messages), tuple(spent), taken.next_due_ms)

    async def _count(self, queue: KnownQueue, leases: list[Lease], now_ms: int) -> None:
        items = [
            CachedMessage(lease.key.location, now_ms, lease.deliveries, lease.first_at_ms)
            for lease in leases
            if not lease.spent
        ]
        with suppress(CnsError):  # a lost count costs one more delivery, not the message
            await self._rows.count_deliveries(queue.q.id, items)

    async def oldest_born_at_ms(self, queue: KnownQueue) -> int:
        """The send time of the oldest message; 0 for an empty queue."""
        async for bucket in buckets_of(self._rows, queue.q.id, queue.generation):
            for row in await self._rows.page(queue.q.id, bucket, -1, 1):
                return row.born_at_ms
        return 0


def _message(lease: Lease, row: MessageRow) -> Message:
    return Message(
        row.id,
        make_handle(lease.key),
        row.body,
        lease.key.location.sequence,
        lease.deliveries,
        lease.first_at_ms,
        row.born_at_ms,
        row.tenant,
    )


def peeked_of(item: CachedMessage, row: MessageRow) -> PeekedMessage:
    return PeekedMessage(
        row.id,
        row.body,
        item.location.sequence,
        item.deliveries,
        item.first_at_ms,
        row.born_at_ms,
        item.visible_at_ms,
        row.tenant,
    )
