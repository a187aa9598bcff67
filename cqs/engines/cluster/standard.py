"""The engine's operations on standard queues: rows are the truth, the cache says what is visible, both asked seldom.

Statements: send 1 (1 more for a new bucket), receive one read of bodies a bucket (and one batched count where a redrive
policy needs it), visibility 0, delete 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from cns_common.errors import CnsError, StoreUnavailable
from cqs.engines.cluster.cache_contract import DROPPED, Cache, Item, Taken, Wish
from cqs.engines.cluster.cache_failover import Caches
from cqs.engines.cluster.deliveries import Deliveries, peeked_of
from cqs.engines.cluster.ids import Key, Place, generation_of, key_of
from cqs.engines.cluster.known_queues import Line, Lines
from cqs.engines.cluster.maintenance import expire
from cqs.engines.cluster.rows import Rows
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
    def __init__(self, rows: Rows, caches: Caches, lines: Lines, waiters: WaiterRegistry) -> None:
        self._rows = rows
        self._caches = caches
        self._lines = lines
        self._deliveries = Deliveries(rows, caches)
        self.waiters = waiters

    # -- sending ------------------------------------------------------------------------------------------------------

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        line = await self._lines.line(q)
        for _ in range(GENERATIONS_MAX):
            generation = line.generation  # which others raise when they hear of a purge
            if generation == DROPPED:
                return [RejectedEntry() for _ in entries]
            places = await self._rows.insert(q.id, generation, entries, now_ms)
            current = await self._announce(line, places, entries, now_ms)
            if current == generation:
                return [SentEntry(entry.id, place.sequence) for entry, place in zip(entries, places, strict=True)]
            line.heard(current)  # purged or dropped meanwhile: what was written belongs to before
        raise StoreUnavailable("the queue is purged again and again")

    async def _announce(self, line: Line, places: Sequence[Place], entries: Sequence[Entry], now_ms: int) -> int:
        """Bring what was written into the cache; returns the queue's generation."""
        items = [
            Item(place, entry.visible_at_ms, entry.deliveries, entry.first_received_ms)
            for place, entry in zip(places, entries, strict=True)
        ]
        current = await self._caches.ask(lambda cache: cache.add(line.q.id, items, now_ms))
        if current is None or DROPPED < current < line.generation:
            self._lines.fill(line)  # which finds it, and wakes who waits
            return line.generation  # who wrote for an older one writes anew
        return current

    # -- receiving ----------------------------------------------------------------------------------------------------

    async def receive(self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str) -> ReceiveResult:
        """An attempt id is for FIFO queues only."""
        line = await self._lines.line(q)
        for _ in range(ROUNDS_MAX):
            if line.generation == DROPPED:
                return ReceiveResult(dropped=True)
            taken = await self._take(line, Wish(now_ms, want, visible_at_ms, q.max_receives))
            if taken.dropped:
                line.heard(DROPPED)
                continue
            if q.id in self.waiters:
                self._follow(q.id, taken, want)
            if not taken.leases:
                return ReceiveResult(next_due_ms=taken.next_due_ms, limit_reached=taken.limit_reached)
            received = await self._deliveries.make(line, taken, now_ms)
            if received.messages or received.spent:
                return received
            await expire(self._rows, self._caches, line, EXPIRED_AT_ONCE, now_ms)  # there may be any number of them
        return ReceiveResult()

    async def _take(self, line: Line, wish: Wish) -> Taken:
        taken = await self._caches.ask(lambda cache: cache.take(line.q.id, wish))
        if taken is None or (taken.filling and not taken.leases):
            await self._lines.filled(line)
            content = wish._replace(patient=False)
            taken = await self._caches.ask(lambda cache: cache.take(line.q.id, content))
        return taken or Taken()

    def _follow(self, queue: str, taken: Taken, want: int) -> None:
        """See to it that others who wait are woken."""
        if len(taken.leases) == want:
            self.waiters.wake(queue, 1)
        if taken.next_due_ms is not None and queue in self.waiters:
            self.waiters.wake_at(queue, taken.next_due_ms)

    # -- holding ------------------------------------------------------------------------------------------------------

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        keys = [key_of(handle, older_handles=q.older_handles) for handle in handles]
        known = [key for key in keys if key is not None]
        outcomes = iter(await self._delete(await self._lines.line(q), known, now_ms) if known else ())
        return [Outcome.MALFORMED if key is None else next(outcomes) for key in keys]

    async def _delete(self, line: Line, keys: Sequence[Key], now_ms: int) -> list[Outcome]:
        released = await self._caches.ask(lambda cache: cache.release(line.q.id, keys))
        redis_knows = not self._caches.are_away
        outcomes = await self._judged(line, keys, released)
        judged = list(zip(keys, outcomes, strict=True))
        places = [key.place for key, outcome in judged if outcome is Outcome.DONE]
        gone = [key.place for key, outcome in judged if outcome is Outcome.GONE]
        try:
            await self._rows.delete(line.q.id, places + gone)  # who took it out may have died before it deleted the row
        except CnsError:
            items = [Item(place, now_ms) for place in places]  # not deleted for certain: to be delivered again
            if items:
                await self._caches.ask(lambda cache: cache.restore(line.q.id, items, now_ms))
            raise
        await self._caches.deleted(line.q.id, places, redis_knows=redis_knows)
        return outcomes

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        line = await self._lines.line(q)
        older = q.older_handles
        return list(await asyncio.gather(*[self._change(line, each, now_ms, older_handles=older) for each in changes]))

    async def _change(self, line: Line, change: Change, now_ms: int, *, older_handles: bool) -> Outcome:
        key = key_of(change.handle, older_handles=older_handles and change.body is None)
        if key is None:
            return Outcome.MALFORMED
        queue, due_ms, body = line.q.id, change.visible_at_ms, change.body
        if body is not None or due_ms is None:
            known = await self._caches.ask(lambda cache: cache.check(queue, key))
            (outcome,) = await self._judged(line, [key], [known])
            if outcome is not Outcome.DONE:
                return outcome
        if body is not None:
            await self._rows.replace_body(queue, key.place, body)
        if due_ms is None:
            return Outcome.DONE
        hidden = await self._caches.ask(lambda cache: cache.hide(queue, key, due_ms, now_ms))
        (outcome,) = await self._judged(line, [key], [hidden])
        if outcome is Outcome.DONE and (hidden is None or self._caches.are_away):
            await self._rows.hold(queue, [Item(key.place, due_ms)])  # for whoever hides it now
        return outcome

    async def _judged(self, line: Line, keys: Sequence[Key], known: Sequence[Outcome | None]) -> list[Outcome]:
        """What the cache does not know, the rows do: a message that is there may be deleted by its last holder."""
        unknown = [key.place for key, outcome in zip(keys, known, strict=True) if outcome is None]
        there = await self._rows.read(line.q.id, unknown) if unknown else {}
        outcomes = []
        for key, outcome in zip(keys, known, strict=True):
            if outcome is None:
                alive = there.pop(key.place, None) is not None and generation_of(key.place.bucket) == line.generation
                outcomes.append(Outcome.DONE if alive else Outcome.GONE)
            else:
                outcomes.append(outcome)
        return outcomes

    # -- looking ------------------------------------------------------------------------------------------------------

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        due_text, _, member = cursor.partition(":")
        after = (int(due_text), member) if cursor else (-1, "")
        line = await self._lines.line(q)
        items = await self._known(line, lambda cache, patient: cache.page(q.id, after, n, patient=patient))
        rows = await self._rows.read(q.id, [item.place for item in items or ()])
        peeked = [peeked_of(item, rows[item.place]) for item in items or () if item.place in rows]
        if items is None or len(items) < n:
            return PeekPage(tuple(peeked))
        return PeekPage(tuple(peeked), f"{items[-1].visible_at_ms}:{items[-1].place.member}")

    async def counts(self, q: QueueRef, now_ms: int) -> Counts:
        line = await self._lines.line(q)
        counted = await self._known(line, lambda cache, patient: cache.counts(q.id, now_ms, patient=patient))
        if counted is None or not sum(counted):
            return Counts()
        return Counts(*counted, await self._deliveries.oldest_born_at_ms(line))

    async def _known(self, line: Line, question: Callable[[Cache, bool], Awaitable[T | None]]) -> T | None:
        """What a full cache answers, or one that is still being filled when that takes long."""
        answer = await self._caches.ask(lambda cache: question(cache, True))
        if answer is None and line.generation != DROPPED:
            await self._lines.filled(line)
            answer = await self._caches.ask(lambda cache: question(cache, False))
        return answer

    # -- ending -------------------------------------------------------------------------------------------------------

    async def begin(self, q: QueueRef, generation: int, now_ms: int) -> None:
        """Everything of before is gone; all of it, where the queue was dropped."""
        (await self._lines.line(q)).heard(generation)
        await self._caches.ask(lambda cache: cache.reset(q.id, generation))
        if generation == DROPPED:
            self.waiters.wake_all(q.id)

    async def maintain(self, line: Line, budget: int, now_ms: int) -> int:
        return await expire(self._rows, self._caches, line, budget, now_ms)
