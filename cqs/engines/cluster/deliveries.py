"""Makes messages from leases: reads bodies, stores delivery counts if a redrive policy needs them, skips deleted
messages."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import CachedMessage, LeaseResult, MessageLease
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.ids import MessageLocation, generation_of, make_handle
from cqs.engines.cluster.known_queues import ClusterKnownQueue
from cqs.engines.cluster.rows import MessageRow, MessageRows
from cqs.engines.cluster.servers.router import CacheRouter
from cqs.engines.contract import Message, PeekedMessage, ReceiveResult


class DeliveryBuilder:
    def __init__(self, rows: MessageRows, caches: CacheRouter) -> None:
        self._rows = rows
        self._caches = caches

    async def build(self, queue: ClusterKnownQueue, taken: LeaseResult, now_ms: int) -> ReceiveResult:
        """Make the messages. If the store fails, their leases are taken back: a receive that returned no message must
        not count."""
        try:
            return await self._build(queue, taken, now_ms)
        except CnsError:
            await self._caches.undo_lease(queue.q.id, taken.leases, now_ms)
            if queue.q.max_receives:
                counted = [lease._replace(deliveries=lease.deliveries - 1) for lease in taken.leases]
                await self._count(queue, counted, now_ms)
            raise

    async def _build(self, queue: ClusterKnownQueue, taken: LeaseResult, now_ms: int) -> ReceiveResult:
        q = queue.q
        for lease in taken.leases:  # another process may have purged the queue
            queue.observe_generation(generation_of(lease.key.location.bucket))
        current = [lease for lease in taken.leases if generation_of(lease.key.location.bucket) == queue.generation]
        rows = await self._read_and_count(queue, current, now_ms)
        oldest_ms = now_ms - q.retention_ms
        if any(row.born_at_ms <= oldest_ms for row in rows.values()):
            oldest_ms = await self._rows.retentions.oldest_ms(queue, now_ms)
        messages: list[Message] = []
        spent: list[Message] = []
        gone: list[MessageLocation] = []
        expired: list[MessageLocation] = []
        later: list[CachedMessage] = []
        for lease in taken.leases:
            row = rows.get(lease.key.location)
            if row is None:
                gone.append(lease.key.location)
            elif row.born_at_ms <= oldest_ms:
                expired.append(lease.key.location)
            elif row.due_ms(now_ms) > now_ms and self._cache_of(q.id, lease).on_fallback:
                later.append(CachedMessage(lease.key.location, row.visible_at_ms))
            else:
                (spent if lease.spent else messages).append(_message(lease, row))
        if gone or expired:
            await self._caches.forget(q.id, gone + expired)
        if later:
            await self._caches.postpone(q.id, later)
        if expired:
            await self._rows.expired.record(q, [(rows[one].id, rows[one].tenant) for one in expired], now_ms)
            await self._rows.delete(q.id, expired)
        return ReceiveResult(tuple(messages), tuple(spent), taken.next_due_ms)

    async def _read_and_count(
        self, queue: ClusterKnownQueue, leases: list[MessageLease], now_ms: int
    ) -> dict[MessageLocation, MessageRow]:
        """Read the rows, and count deliveries in them for a redrive policy, whose counts must survive the cache. A
        delivery without Redis is noted in its row, so that a duplicate is counted."""
        reading = self._rows.read(queue.q.id, [lease.key.location for lease in leases])
        notes: list[Coroutine[Any, Any, None]] = []
        if queue.q.max_receives:
            notes.append(self._count(queue, leases, now_ms))
        unhidden = [lease for lease in leases if self._cache_of(queue.q.id, lease).redis_is_lost]
        if unhidden:
            notes.append(self._note_taken(queue, unhidden))
        if not notes:
            return await reading
        rows, _ = await asyncio.gather(reading, asyncio.gather(*notes), return_exceptions=True)
        if isinstance(rows, BaseException):  # the notes have ended, so that the count can be taken back
            raise rows
        return rows

    def _cache_of(self, queue_id: str, lease: MessageLease) -> CacheFailover:
        return self._caches.at(self._caches.shard_of(queue_id, lease.key.location))

    async def _note_taken(self, queue: ClusterKnownQueue, leases: list[MessageLease]) -> None:
        with suppress(CnsError):  # it is for a metric
            for epoch in {lease.key.epoch for lease in leases}:
                locations = [lease.key.location for lease in leases if lease.key.epoch == epoch]
                await self._rows.record_taken(queue.q.id, epoch, locations)

    async def _count(self, queue: ClusterKnownQueue, leases: list[MessageLease], now_ms: int) -> None:
        items = [
            CachedMessage(lease.key.location, now_ms, lease.deliveries, lease.first_at_ms)
            for lease in leases
            if not lease.spent
        ]
        with suppress(CnsError):  # a lost count costs one more delivery, not the message
            await self._rows.count_deliveries(queue.q.id, items)


def _message(lease: MessageLease, row: MessageRow) -> Message:
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
