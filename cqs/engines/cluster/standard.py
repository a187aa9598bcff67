"""The engine's operations on standard queues: rows are the truth, the cache says what is visible, both asked seldom.

Statements: send 1 (1 more for a new bucket), receive one read of bodies a bucket (and one batched count where a redrive
policy needs it), visibility 0, delete 1.
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
"""How often one send may meet a purge before it says that it could not be done."""
ROUNDS_MAX = 20
EXPIRED_AT_ONCE = 1_000
"""How many batches of messages that are gone one receive passes over before it answers with nothing."""

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
            generation = queue.generation  # which others raise when they hear of a purge
            if generation == DROPPED:
                return [RejectedEntry() for _ in entries]
            locations = await self._rows.insert(q.id, generation, entries, now_ms)
            current = await self._announce(queue, locations, entries, now_ms)
            if current == generation:
                return [
                    SentEntry(entry.id, location.sequence) for entry, location in zip(entries, locations, strict=True)
                ]
            queue.observe_generation(current)  # purged or dropped meanwhile: what was written belongs to before
        raise StoreUnavailable("the queue is purged again and again")

    async def _announce(
        self, queue: KnownQueue, locations: Sequence[MessageLocation], entries: Sequence[Entry], now_ms: int
    ) -> int:
        """Bring what was written into the cache; returns the queue's generation."""
        items = [
            CachedMessage(location, entry.visible_at_ms, entry.deliveries, entry.first_received_ms)
            for location, entry in zip(locations, entries, strict=True)
        ]
        current = await self._failover.ask(lambda cache: cache.add(queue.q.id, items, now_ms))
        if current is None or DROPPED < current < queue.generation:
            self._known_queues.start_fill(queue)  # which finds it, and wakes who waits
            return queue.generation  # who wrote for an older one writes anew
        return current

    # -- receiving ----------------------------------------------------------------------------------------------------

    async def receive(self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str) -> ReceiveResult:
        """An attempt id is for FIFO queues only."""
        queue = await self._known_queues.get(q)
        for _ in range(ROUNDS_MAX):
            if queue.generation == DROPPED:
                return ReceiveResult(dropped=True)
            taken = await self._take(queue, LeaseRequest(now_ms, want, visible_at_ms, q.max_receives))
            if taken.dropped:
                queue.observe_generation(DROPPED)
                continue
            if q.id in self.waiters:
                self._follow(q.id, taken, want)
            if not taken.leases:
                return ReceiveResult(next_due_ms=taken.next_due_ms, limit_reached=taken.limit_reached)
            received = await self._delivery_builder.build(queue, taken, now_ms)
            if received.messages or received.spent:
                return received
            await expire(self._rows, self._failover, queue, EXPIRED_AT_ONCE, now_ms)  # there may be any number of them
        return ReceiveResult()

    async def _take(self, queue: KnownQueue, wish: LeaseRequest) -> LeaseResult:
        taken = await self._failover.ask(lambda cache: cache.lease(queue.q.id, wish))
        if taken is None or (taken.filling and not taken.leases):
            await self._known_queues.wait_for_fill(queue)
            content = wish._replace(require_filled=False)
            taken = await self._failover.ask(lambda cache: cache.lease(queue.q.id, content))
        return taken or LeaseResult()

    def _follow(self, queue_id: str, taken: LeaseResult, want: int) -> None:
        """See to it that others who wait are woken."""
        if len(taken.leases) == want:
            self.waiters.wake(queue_id, 1)
        if taken.next_due_ms is not None and queue_id in self.waiters:
            self.waiters.wake_at(queue_id, taken.next_due_ms)

    # -- holding ------------------------------------------------------------------------------------------------------

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        keys = [parse_handle(handle, older_handles=q.older_handles) for handle in handles]
        known = [key for key in keys if key is not None]
        outcomes = iter(await self._delete(await self._known_queues.get(q), known, now_ms) if known else ())
        return [Outcome.MALFORMED if key is None else next(outcomes) for key in keys]

    async def _delete(self, queue: KnownQueue, keys: Sequence[DeliveryKey], now_ms: int) -> list[Outcome]:
        released = await self._failover.ask(lambda cache: cache.begin_delete(queue.q.id, keys))
        redis_knows = not self._failover.on_fallback
        outcomes = await self._judged(queue, keys, released)
        judged = list(zip(keys, outcomes, strict=True))
        locations = [key.location for key, outcome in judged if outcome is Outcome.DONE]
        gone = [key.location for key, outcome in judged if outcome is Outcome.GONE]
        try:
            await self._rows.delete(
                queue.q.id, locations + gone
            )  # who took it out may have died before it deleted the row
        except CnsError:
            items = [
                CachedMessage(location, now_ms) for location in locations
            ]  # not deleted for certain: to be delivered again
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
            (outcome,) = await self._judged(queue, [key], [known])
            if outcome is not Outcome.DONE:
                return outcome
        if body is not None:
            await self._rows.replace_body(queue_id, key.location, body)
        if due_ms is None:
            return Outcome.DONE
        hidden = await self._failover.ask(lambda cache: cache.set_visible_at(queue_id, key, due_ms, now_ms))
        (outcome,) = await self._judged(queue, [key], [hidden])
        if outcome is Outcome.DONE and (hidden is None or self._failover.on_fallback):
            await self._rows.keep_hidden(queue_id, [CachedMessage(key.location, due_ms)])  # for whoever hides it now
        return outcome

    async def _judged(
        self, queue: KnownQueue, keys: Sequence[DeliveryKey], known: Sequence[Outcome | None]
    ) -> list[Outcome]:
        """What the cache does not know, the rows do: a message that is there may be deleted by its last holder."""
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

    # -- looking ------------------------------------------------------------------------------------------------------

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        due_text, _, member = cursor.partition(":")
        after = (int(due_text), member) if cursor else (-1, "")
        queue = await self._known_queues.get(q)
        items = await self._known(
            queue, lambda cache, require_filled: cache.page(q.id, after, n, require_filled=require_filled)
        )
        rows = await self._rows.read(q.id, [item.location for item in items or ()])
        peeked = [peeked_of(item, rows[item.location]) for item in items or () if item.location in rows]
        if items is None or len(items) < n:
            return PeekPage(tuple(peeked))
        return PeekPage(tuple(peeked), f"{items[-1].visible_at_ms}:{items[-1].location.member}")

    async def counts(self, q: QueueRef, now_ms: int) -> Counts:
        queue = await self._known_queues.get(q)
        counted = await self._known(
            queue, lambda cache, require_filled: cache.counts(q.id, now_ms, require_filled=require_filled)
        )
        if counted is None or not sum(counted):
            return Counts()
        return Counts(*counted, await self._delivery_builder.oldest_born_at_ms(queue))

    async def _known(self, queue: KnownQueue, question: Callable[[Cache, bool], Awaitable[T | None]]) -> T | None:
        """What a full cache answers, or one that is still being filled when that takes long."""
        answer = await self._failover.ask(lambda cache: question(cache, True))
        if answer is None and queue.generation != DROPPED:
            await self._known_queues.wait_for_fill(queue)
            answer = await self._failover.ask(lambda cache: question(cache, False))
        return answer

    # -- ending -------------------------------------------------------------------------------------------------------

    async def begin_generation(self, q: QueueRef, generation: int, now_ms: int) -> None:
        """Everything of before is gone; all of it, where the queue was dropped."""
        (await self._known_queues.get(q)).observe_generation(generation)
        await self._failover.ask(lambda cache: cache.reset(q.id, generation))
        if generation == DROPPED:
            self.waiters.wake_all(q.id)

    async def maintain(self, queue: KnownQueue, budget: int, now_ms: int) -> int:
        return await expire(self._rows, self._failover, queue, budget, now_ms)
