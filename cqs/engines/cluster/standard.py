"""The engine's operations on standard queues. The rows are the truth; the cache says which messages are visible.

Statements: send 1 (2 for a new bucket), receive 1 read per bucket (with a redrive policy also 1 batch of counts),
visibility change 0, delete 1 per bucket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from cns_common.errors import CnsError, StoreUnavailable
from cqs.engines.cluster.cache_contract import DROPPED, Cache, CachedMessage, LeaseRequest, LeaseResult
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.deliveries import DeliveryBuilder, peeked_of
from cqs.engines.cluster.ids import DeliveryKey, MessageLocation, generation_of, parse_handle
from cqs.engines.cluster.known_queues import KnownQueue, KnownQueues
from cqs.engines.cluster.maintenance import expire
from cqs.engines.cluster.rows import MessageRows
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

GENERATIONS_MAX = 5
"""Purges that one send may meet before it fails."""
ROUNDS_MAX = 20
"""Batches without a message to return that one receive leases before it returns nothing."""
EXPIRED_AT_ONCE = 1_000
"""Expired messages that a receive removes after such a batch."""

T = TypeVar("T")


class StandardQueues:
    def __init__(
        self, rows: MessageRows, failover: CacheFailover, known_queues: KnownQueues, waiters: WaiterRegistry
    ) -> None:
        self._rows = rows
        self._failover = failover
        self._known_queues = known_queues
        self._delivery_builder = DeliveryBuilder(rows, failover)
        self.waiters = waiters

    # -- sending ------------------------------------------------------------------------------------------------------

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        queue = await self._known_queues.get(q)
        for _ in range(GENERATIONS_MAX):
            generation = queue.generation  # other tasks raise it when they learn of a purge
            if generation == DROPPED:
                return [RejectedEntry() for _ in entries]
            locations = await self._rows.insert(q.id, generation, entries, now_ms)
            current = await self._announce(queue, locations, entries, now_ms)
            if current == generation:
                return [
                    SentEntry(entry.id, location.sequence) for entry, location in zip(entries, locations, strict=True)
                ]
            queue.observe_generation(current)  # purged or dropped meanwhile: the rows are of the old generation
        raise StoreUnavailable("the queue is purged again and again")

    async def _announce(
        self, queue: KnownQueue, locations: Sequence[MessageLocation], entries: Sequence[Entry], now_ms: int
    ) -> int:
        """Add the written messages to the cache. Returns the queue's generation."""
        items = [
            CachedMessage(location, entry.visible_at_ms, entry.deliveries, entry.first_received_ms)
            for location, entry in zip(locations, entries, strict=True)
        ]
        current = await self._failover.ask(lambda cache: cache.add(queue.q.id, items, now_ms))
        if current is None or DROPPED < current < queue.generation:
            self._known_queues.start_fill(queue)  # the fill finds the messages and wakes waiters
            return queue.generation  # a sender of an older generation sends again
        return current

    # -- receiving ----------------------------------------------------------------------------------------------------

    async def receive(self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str) -> ReceiveResult:
        """`attempt_id` is ignored: it is for FIFO queues only."""
        queue = await self._known_queues.get(q)
        for _ in range(ROUNDS_MAX):
            if queue.generation == DROPPED:
                return ReceiveResult(dropped=True)
            taken = await self._lease(queue, LeaseRequest(now_ms, want, visible_at_ms, q.max_receives))
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
            await expire(self._rows, self._failover, queue, EXPIRED_AT_ONCE, now_ms)  # there may be many more
        return ReceiveResult()

    async def _lease(self, queue: KnownQueue, request: LeaseRequest) -> LeaseResult:
        taken = await self._failover.ask(lambda cache: cache.lease(queue.q.id, request))
        if taken is None or (taken.filling and not taken.leases):
            await self._known_queues.wait_for_fill(queue)
            content = request._replace(require_filled=False)
            taken = await self._failover.ask(lambda cache: cache.lease(queue.q.id, content))
        return taken or LeaseResult()

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
        outcomes = iter(await self._delete(await self._known_queues.get(q), known, now_ms) if known else ())
        return [Outcome.MALFORMED if key is None else next(outcomes) for key in keys]

    async def _delete(self, queue: KnownQueue, keys: Sequence[DeliveryKey], now_ms: int) -> list[Outcome]:
        released = await self._failover.ask(lambda cache: cache.begin_delete(queue.q.id, keys))
        redis_knows = not self._failover.on_fallback
        outcomes = await self._resolve_unknown(queue, keys, released)
        judged = list(zip(keys, outcomes, strict=True))
        locations = [key.location for key, outcome in judged if outcome is Outcome.DONE]
        gone = [key.location for key, outcome in judged if outcome is Outcome.GONE]
        try:
            # Also the rows of messages that are GONE: the process that began their delete may have died before its end.
            await self._rows.delete(queue.q.id, locations + gone)
        except CnsError:  # whether they are deleted is unknown: deliver them again
            items = [CachedMessage(location, now_ms) for location in locations]
            if items:
                await self._failover.ask(lambda cache: cache.undo_delete(queue.q.id, items, now_ms))
            raise
        await self._failover.finish_delete(queue.q.id, locations, redis_knows=redis_knows)
        return outcomes

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        queue = await self._known_queues.get(q)
        older = q.older_handles
        return list(await asyncio.gather(*[self._change(queue, each, now_ms, older_handles=older) for each in changes]))

    async def _change(self, queue: KnownQueue, change: Change, now_ms: int, *, older_handles: bool) -> Outcome:
        key = parse_handle(change.handle, older_handles=older_handles and change.body is None)
        if key is None:
            return Outcome.MALFORMED
        queue_id, due_ms, body = queue.q.id, change.visible_at_ms, change.body
        if body is not None or due_ms is None:
            known = await self._failover.ask(lambda cache: cache.check(queue_id, key))
            (outcome,) = await self._resolve_unknown(queue, [key], [known])
            if outcome is not Outcome.DONE:
                return outcome
        if body is not None:
            await self._rows.replace_body(queue_id, key.location, body)
        if due_ms is None:
            return Outcome.DONE
        hidden = await self._failover.ask(lambda cache: cache.set_visible_at(queue_id, key, due_ms, now_ms))
        (outcome,) = await self._resolve_unknown(queue, [key], [hidden])
        if outcome is Outcome.DONE and (hidden is None or self._failover.on_fallback):
            hidden_message = CachedMessage(key.location, due_ms)
            await self._rows.keep_hidden(queue_id, [hidden_message])  # for the cache that hides it from now on
        return outcome

    async def _resolve_unknown(
        self, queue: KnownQueue, keys: Sequence[DeliveryKey], known: Sequence[Outcome | None]
    ) -> list[Outcome]:
        """Fill in the outcomes that the cache does not know: the key of a message that exists is valid."""
        unknown = [key.location for key, outcome in zip(keys, known, strict=True) if outcome is None]
        there = await self._rows.read(queue.q.id, unknown) if unknown else {}
        outcomes = []
        for key, outcome in zip(keys, known, strict=True):
            if outcome is None:
                alive = (
                    there.pop(key.location, None) is not None and generation_of(key.location.bucket) == queue.generation
                )
                outcomes.append(Outcome.DONE if alive else Outcome.GONE)
            else:
                outcomes.append(outcome)
        return outcomes

    # -- peek and counts ----------------------------------------------------------------------------------------------

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        due_text, _, member = cursor.partition(":")
        after = (int(due_text), member) if cursor else (-1, "")
        queue = await self._known_queues.get(q)
        items = await self._ask_filled(
            queue, lambda cache, require_filled: cache.page(q.id, after, n, require_filled=require_filled)
        )
        rows = await self._rows.read(q.id, [item.location for item in items or ()])
        peeked = [peeked_of(item, rows[item.location]) for item in items or () if item.location in rows]
        if items is None or len(items) < n:
            return PeekPage(tuple(peeked))
        return PeekPage(tuple(peeked), f"{items[-1].visible_at_ms}:{items[-1].location.member}")

    async def counts(self, q: QueueRef, now_ms: int) -> Counts:
        queue = await self._known_queues.get(q)
        counted = await self._ask_filled(
            queue, lambda cache, require_filled: cache.counts(q.id, now_ms, require_filled=require_filled)
        )
        if counted is None or not sum(counted):
            return Counts()
        return Counts(*counted, await self._delivery_builder.oldest_born_at_ms(queue))

    async def _ask_filled(self, queue: KnownQueue, question: Callable[[Cache, bool], Awaitable[T | None]]) -> T | None:
        """The answer of a filled cache; of a cache during its fill if that takes long."""
        answer = await self._failover.ask(lambda cache: question(cache, True))
        if answer is None and queue.generation != DROPPED:
            await self._known_queues.wait_for_fill(queue)
            answer = await self._failover.ask(lambda cache: question(cache, False))
        return answer

    # -- the whole queue ----------------------------------------------------------------------------------------------

    async def begin_generation(self, q: QueueRef, generation: int, now_ms: int) -> None:
        """The queue's earlier messages are gone; all messages if `generation` is DROPPED."""
        (await self._known_queues.get(q)).observe_generation(generation)
        await self._failover.ask(lambda cache: cache.reset(q.id, generation))
        if generation == DROPPED:
            self.waiters.wake_all(q.id)

    async def maintain(self, queue: KnownQueue, budget: int, now_ms: int) -> int:
        return await expire(self._rows, self._failover, queue, budget, now_ms)
