"""The engine's operations on standard queues. Messages are rows; the cache says which of them are visible.

Statements: send 1 (2 for a new bucket), receive 1 read per bucket (with a redrive policy also 1 batch of counts),
visibility change 0, delete 1 per bucket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from cns_common.clock import Clock
from cns_common.errors import CnsError, StoreUnavailable
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cluster.cache_contract import (
    CachedMessage,
    LeaseRequest,
    LeaseResult,
)
from cqs.engines.cluster.deliveries import DeliveryBuilder
from cqs.engines.cluster.ids import DeliveryKey, MessageLocation, QueueShard, generation_of, parse_handle
from cqs.engines.cluster.known_queues import ClusterKnownQueue, ClusterKnownQueues
from cqs.engines.cluster.leasing import MessageLeasing
from cqs.engines.cluster.maintenance import expire
from cqs.engines.cluster.options import number_of_partitions, number_of_shards
from cqs.engines.cluster.queue_contents import QueueContents
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.servers.router import CacheRouter
from cqs.engines.contract import (
    Change,
    Counts,
    Entry,
    Outcome,
    PeekPage,
    QueueRef,
    ReceiveResult,
    RejectedEntry,
    SentEntry,
)
from cqs.engines.waiters import WaiterRegistry

DELETES_PER_LOOK = 10_000
"""After this many deletes a process tells the queue's owner, which checks for empty buckets. A bucket has at most
50,000 messages."""
GENERATIONS_MAX = 5
"""Purges that one send may meet before it fails."""
ROUNDS_MAX = 20
"""Batches without a message to return that one receive leases before it returns nothing."""
EXPIRED_AT_ONCE = 1_000
"""Expired messages that a receive removes after such a batch."""


class StandardQueues:
    """`schedule_comparison(queue id, since)` has what this process wrote compared with the cache; `on_mass_delete(queue
    id)` is called after many deletes."""

    def __init__(
        self,
        rows: MessageRows,
        caches: CacheRouter,
        known_queues: ClusterKnownQueues,
        waiters: WaiterRegistry,
        schedule_comparison: Callable[[str, int], None],
        on_mass_delete: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._rows = rows
        self._caches = caches
        self._known_queues = known_queues
        self._leasing = MessageLeasing(caches, known_queues)
        self._delivery_builder = DeliveryBuilder(rows, caches)
        self._contents = QueueContents(rows, caches, known_queues, clock)
        self._schedule_comparison = schedule_comparison
        self._on_mass_delete = on_mass_delete
        self.waiters = waiters

    # -- sending ------------------------------------------------------------------------------------------------------

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        queue = await self._known_queues.get(q)
        queue.sent_ms = now_ms
        self._note_shards(q, now_ms)
        for _ in range(GENERATIONS_MAX):
            generation = queue.generation  # other tasks raise it when they learn of a purge
            if generation == DROPPED:
                return [RejectedEntry() for _ in entries]
            try:
                locations = await self._rows.insert(q.id, generation, entries, now_ms, self._buckets_of(q))
                current = await self._announce(queue, locations, entries, now_ms)
            except BaseException:  # of whatever kind, a cancellation too: rows may exist that the cache lacks
                self._schedule_comparison(q.id, now_ms)
                raise
            self._known_queues.sends.setdefault(q.id, now_ms)  # after the write: an owner's check finds the rows
            if current == generation:
                return [
                    SentEntry(entry.id, location.sequence) for entry, location in zip(entries, locations, strict=True)
                ]
            queue.observe_generation(current)  # purged or dropped meanwhile: the rows are of the old generation
        raise StoreUnavailable("the queue is purged again and again")

    async def _announce(
        self, queue: ClusterKnownQueue, locations: Sequence[MessageLocation], entries: Sequence[Entry], now_ms: int
    ) -> int:
        """Add the written messages to the cache. Returns the queue's generation."""
        items = [
            CachedMessage(location, entry.visible_at_ms, entry.deliveries, entry.first_received_ms, entry.group)
            for location, entry in zip(locations, entries, strict=True)
        ]
        shard = self._caches.shard_of(queue.q.id, locations[0])  # they are all in one bucket
        current = await self._caches.ask(shard, lambda cache: cache.add(shard, items, now_ms))
        if current is None or DROPPED < current < queue.generation:
            self._known_queues.start_fill(queue, shard)  # the fill finds the messages and wakes waiters
            return (await self._known_queues.refresh(queue.q)).generation  # a sender of an older generation sends again
        if current == queue.generation and not self._caches.know_generations(shard):
            return (await self._known_queues.refresh(queue.q)).generation  # this process may not know of a purge
        return current

    # -- receiving ----------------------------------------------------------------------------------------------------

    async def receive(self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str) -> ReceiveResult:
        """`attempt_id` is ignored: it is for FIFO queues only."""
        queue = await self._known_queues.get(q)
        self._note_shards(q, now_ms)
        for _ in range(ROUNDS_MAX):
            if queue.generation == DROPPED:
                return ReceiveResult(dropped=True)
            taken = await self._leasing.take(queue, LeaseRequest(now_ms, want, visible_at_ms, q.max_receives))
            if taken.dropped:
                queue.observe_generation(DROPPED)
                continue
            if q.id in self.waiters:
                self._wake_others(q.id, taken, want)
            if not taken.leases:
                return ReceiveResult(next_due_ms=taken.next_due_ms, limit_reached=taken.limit_reached)
            received = await self._delivery_builder.build(queue, taken, now_ms)
            if received.messages or received.spent:
                return received
            await expire(self._rows, self._caches, queue, EXPIRED_AT_ONCE, now_ms)  # there may be many more
        return ReceiveResult()

    def _note_shards(self, q: QueueRef, now_ms: int) -> None:
        self._caches.shard_counts.note(q.id, number_of_shards(q), now_ms)

    def _buckets_of(self, q: QueueRef) -> int:
        """The number of buckets that this process writes to: the same number for each shard."""
        shards, partitions = len(self._caches.shards(q.id)), number_of_partitions(q)
        return -(-partitions // shards) * shards

    def _wake_others(self, queue_id: str, taken: LeaseResult, want: int) -> None:
        """Wake further waiters: one after a full batch, one when the next message is due."""
        if len(taken.leases) == want:
            self.waiters.wake(queue_id, 1)
        if taken.next_due_ms is not None and queue_id in self.waiters:
            self.waiters.wake_at(queue_id, taken.next_due_ms)

    # -- settling -----------------------------------------------------------------------------------------------------

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        keys = [parse_handle(handle, older_handles=q.older_handles) for handle in handles]
        known = [key for key in keys if key is not None]
        queue = await self._known_queues.get_for(q, [generation_of(key.location.bucket) for key in known])
        outcomes = iter(await self._delete(queue, known, now_ms) if known else ())
        return [Outcome.MALFORMED if key is None else next(outcomes) for key in keys]

    async def _delete(self, queue: ClusterKnownQueue, keys: Sequence[DeliveryKey], now_ms: int) -> list[Outcome]:
        by_shard: dict[QueueShard, list[int]] = {}
        for index, key in enumerate(keys):
            by_shard.setdefault(self._caches.shard_of(queue.q.id, key.location), []).append(index)
        if len(by_shard) == 1:
            return await self._delete_from(queue, next(iter(by_shard)), keys, now_ms)
        done = await asyncio.gather(
            *[self._delete_from(queue, shard, [keys[n] for n in some], now_ms) for shard, some in by_shard.items()]
        )
        outcomes = {
            index: outcome
            for some, given in zip(by_shard.values(), done, strict=True)
            for index, outcome in zip(some, given, strict=True)
        }
        return [outcomes[index] for index in range(len(keys))]

    async def _delete_from(
        self, queue: ClusterKnownQueue, shard: QueueShard, keys: Sequence[DeliveryKey], now_ms: int
    ) -> list[Outcome]:
        released = await self._caches.ask(shard, lambda cache: cache.begin_delete(shard, keys, now_ms))
        failover = self._caches.at(shard)
        redis_knows = not failover.on_fallback
        outcomes = await self._resolve_unknown(queue, keys, released, settles=True)
        judged = list(zip(keys, outcomes, strict=True))
        locations = [key.location for key, outcome in judged if outcome is Outcome.DONE]
        gone = [key.location for key, outcome in judged if outcome is Outcome.GONE]
        try:
            # Also the rows of messages that are GONE: the process that began their delete may have died before its end.
            await self._rows.delete(queue.q.id, locations + gone)
        except CnsError:  # whether they are deleted is unknown: deliver them again
            items = [CachedMessage(location, now_ms) for location in locations]
            if items:
                await self._caches.ask(shard, lambda cache: cache.undo_delete(shard, items, now_ms))
            raise
        except asyncio.CancelledError:  # the caller has gone: the delete is finished all the same
            self._schedule_comparison(queue.q.id, now_ms)
            raise
        await failover.finish_delete(shard, locations, redis_knows=redis_knows)
        queue.deleted += len(locations)
        if queue.deleted >= DELETES_PER_LOOK:
            queue.deleted = 0
            self._on_mass_delete(queue.q.id)
        return outcomes

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        keys = [parse_handle(change.handle, older_handles=True) for change in changes]
        queue = await self._known_queues.get_for(q, [generation_of(key.location.bucket) for key in keys if key])
        older = q.older_handles
        return list(await asyncio.gather(*[self._change(queue, each, now_ms, older_handles=older) for each in changes]))

    async def _change(self, queue: ClusterKnownQueue, change: Change, now_ms: int, *, older_handles: bool) -> Outcome:
        key = parse_handle(change.handle, older_handles=older_handles and change.body is None)
        if key is None:
            return Outcome.MALFORMED
        queue_id, due_ms, body = queue.q.id, change.visible_at_ms, change.body
        shard = self._caches.shard_of(queue_id, key.location)
        if body is not None or due_ms is None:
            known = await self._caches.ask(shard, lambda cache: cache.check(shard, key))
            (outcome,) = await self._resolve_unknown(queue, [key], [known])
            if outcome is not Outcome.DONE:
                return outcome
        if body is not None:
            await self._rows.replace_body(queue_id, key.location, body)
        if due_ms is None:
            return Outcome.DONE
        hidden = await self._caches.ask(shard, lambda cache: cache.set_visible_at(shard, key, due_ms, now_ms))
        (outcome,) = await self._resolve_unknown(queue, [key], [hidden])
        if outcome is Outcome.DONE and (hidden is None or self._caches.at(shard).on_fallback):
            hidden_message = CachedMessage(key.location, due_ms)
            await self._rows.keep_hidden(queue_id, [hidden_message])  # another cache reads it there
        return outcome

    async def _resolve_unknown(
        self,
        queue: ClusterKnownQueue,
        keys: Sequence[DeliveryKey],
        known: Sequence[Outcome | None],
        *,
        settles: bool = False,
    ) -> list[Outcome]:
        """Fill in the outcomes that the cache does not know: the key of a message that exists is valid."""
        unknown = [key.location for key, outcome in zip(keys, known, strict=True) if outcome is None]
        there = await self._rows.read(queue.q.id, unknown) if unknown else {}
        outcomes = []
        for key, outcome in zip(keys, known, strict=True):
            if outcome is not None:
                outcomes.append(outcome)
                continue
            row = there.pop(key.location, None)
            current = generation_of(key.location.bucket) == queue.generation
            outcomes.append(Outcome.DONE if row is not None and current else Outcome.GONE)
            if settles and current:
                shard = self._caches.shard_of(queue.q.id, key.location)
                self._caches.at(shard).count_if_repeated(shard, key, row)
        return outcomes

    # -- peek and counts ----------------------------------------------------------------------------------------------

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        return await self._contents.peek(await self._known_queues.get(q), cursor, n)

    async def counts(self, q: QueueRef, now_ms: int, *, oldest: bool = False) -> Counts:
        return await self._contents.counts(await self._known_queues.get(q), now_ms, oldest=oldest)

    async def close(self) -> None:
        """Cancel the reads that counts left running."""
        await self._contents.close()

    # -- the whole queue ----------------------------------------------------------------------------------------------

    async def begin_generation(self, q: QueueRef, generation: int, now_ms: int) -> None:
        """Drop the queue's earlier messages; all messages if `generation` is DROPPED."""
        (await self._known_queues.get(q)).observe_generation(generation)
        await self._caches.reset(q.id, generation)
        if generation == DROPPED:
            self._caches.shard_counts.forget(q.id)
            self.waiters.wake_all(q.id)
