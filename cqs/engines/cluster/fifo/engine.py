"""The engine's operations on FIFO queues: bodies are stored, commands appended, and what nobody needs is removed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import CnsError, StoreUnavailable
from cqs.engines.cluster.cache_contract import DROPPED
from cqs.engines.cluster.fifo import commands as c
from cqs.engines.cluster.fifo.conversions import delivery_of, message_of, new_message, peeked_of, read_cursor
from cqs.engines.cluster.fifo.log import Log
from cqs.engines.cluster.fifo.snapshots import Images
from cqs.engines.cluster.fifo.state import State
from cqs.engines.cluster.ids import Place, place_of
from cqs.engines.cluster.known_queues import Line, Lines
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
ROUNDS_MAX = 20
LOGS_MAX = 1_000
"""Queues whose state this process keeps; for another, it reads the log anew."""
LOOKS_AT_ONCE = 16


class FifoQueues:
    """`hint(queue)` tells other processes that there is something new."""

    def __init__(
        self, cassandra: Cassandra, rows: Rows, lines: Lines, clock: Clock, hint: Callable[[str], None]
    ) -> None:
        self._cassandra = cassandra
        self._images = Images(cassandra, clock)
        self._rows = rows
        self._lines = lines
        self._clock = clock
        self._hint = hint
        self._logs: OrderedDict[str, Log] = OrderedDict()
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._hinted: set[str] = set()
        self.waiters = WaiterRegistry(clock)

    # -- sending ------------------------------------------------------------------------------------------------------

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        """What turns out to be a duplicate has stored its body for nothing."""
        line = await self._lines.line(q)
        for _ in range(GENERATIONS_MAX):
            generation = line.generation  # which others raise when they hear of a purge
            if generation == DROPPED:
                return [RejectedEntry() for _ in entries]
            places = await self._rows.insert(q.id, generation, entries, now_ms)
            messages = tuple([new_message(entry, place) for entry, place in zip(entries, places, strict=True)])
            accepted: c.Accepted = await self._log(q.id).append(c.Send(now_ms, generation, messages))
            if accepted.answers:
                await self._remove(
                    q.id, [place for place, one in zip(places, accepted.answers, strict=True) if _vain(one)]
                )
                return list(accepted.answers)
            line.heard(accepted.generation)  # purged meanwhile: what was written belongs to before
        raise StoreUnavailable("the queue is purged again and again")

    # -- receiving ----------------------------------------------------------------------------------------------------

    async def receive(self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str) -> ReceiveResult:
        log = self._log(q.id)
        command = c.Receive(now_ms, want, visible_at_ms, q.retention_ms, q.max_receives, attempt_id)
        for _ in range(ROUNDS_MAX):
            if not log.state.has_something(command) and not (await log.follow()).has_something(command):
                return await self._nothing(q, log.state)
            taken: c.Taken = await log.append(command)
            await self._remove(q.id, [place_of(place) for place in taken.expired])
            if not taken.messages and not taken.spent:
                return await self._nothing(q, log.state, limit_reached=taken.limit_reached)
            received = await self._with_bodies(q, log, taken, now_ms)
            if received.messages or received.spent:
                return received
        return ReceiveResult()

    async def _nothing(self, q: QueueRef, state: State, *, limit_reached: bool = False) -> ReceiveResult:
        if state.dropped or (await self._lines.line(q)).generation == DROPPED:
            return ReceiveResult(dropped=True)
        return ReceiveResult(next_due_ms=state.order.next_due_ms(), limit_reached=limit_reached)

    async def _with_bodies(self, q: QueueRef, log: Log, taken: c.Taken, now_ms: int) -> ReceiveResult:
        """A message without a body was purged by who has not said so yet, or is older than any retention."""
        given = (*taken.messages, *taken.spent)
        rows = await self._rows.read(q.id, [place_of(one.place) for one in given])
        gone = tuple([(one.seq, one.place) for one in given if place_of(one.place) not in rows])
        if gone:
            await log.append(c.Remove(now_ms, gone))
        messages, spent = [
            tuple([message_of(q.id, one, rows[place_of(one.place)]) for one in some if place_of(one.place) in rows])
            for some in (taken.messages, taken.spent)
        ]
        return ReceiveResult(messages, spent, received_at_ms=taken.received_at_ms)

    # -- holding ------------------------------------------------------------------------------------------------------

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        deliveries = [delivery_of(q.id, handle) for handle in handles]
        keys = tuple([delivery for delivery in deliveries if delivery is not None])
        if not keys:
            return [Outcome.MALFORMED for _ in handles]
        done: c.Done = await self._log(q.id).append(c.Delete(now_ms, keys))
        await self._remove(q.id, [place_of(place) for place in done.places])
        outcomes = iter(done.outcomes)
        return [Outcome.MALFORMED if delivery is None else next(outcomes) for delivery in deliveries]

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        return list(await asyncio.gather(*[self._change(q, change, now_ms) for change in changes]))

    async def _change(self, q: QueueRef, change: Change, now_ms: int) -> Outcome:
        key = delivery_of(q.id, change.handle)
        if key is None:
            return Outcome.MALFORMED
        place = "" if change.body is None else await self._store(q, key[0], change.body, now_ms)
        done: c.Done = await self._log(q.id).append(c.Change(now_ms, key, change.visible_at_ms, place))
        await self._remove(q.id, [place_of(unused) for unused in done.places])
        return done.outcomes[0]

    async def _store(self, q: QueueRef, seq: int, body: bytes, now_ms: int) -> str:
        """A new body for a message; '' when there is no such message to have it."""
        state = await self._log(q.id).follow()
        kept = state.order.kept.get(seq)
        if kept is None:
            return ""
        entry = Entry(kept.id, body, kept.born_at_ms, kept.visible_at_ms, kept.group)
        generation = state.generation  # the message's own, or it is being purged
        (place,) = await self._rows.insert(q.id, generation, [entry], now_ms)
        return place.member

    # -- looking ------------------------------------------------------------------------------------------------------

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        """Firsts of groups, soonest due first, then all behind them: each once, wherever the cursor stands."""
        first, behind = (await self._log(q.id).follow()).order.first_and_behind()
        kind, at, seq = ("first", -1, -1) if not cursor else read_cursor(cursor)
        firsts = [kept for kept in first if kind == "first" and (kept.visible_at_ms, kept.seq) > (at, seq)][:n]
        rest = [kept for kept in behind if kind == "first" or kept.seq > seq][: n - len(firsts)]
        some = firsts + rest
        rows = await self._rows.read(q.id, [place_of(kept.place) for kept in some])
        peeked = tuple([peeked_of(kept, rows[place_of(kept.place)]) for kept in some if place_of(kept.place) in rows])
        if len(some) < n:
            return PeekPage(peeked)
        last = some[-1]
        return PeekPage(peeked, f"behind:{last.seq}" if rest else f"{last.visible_at_ms}:{last.seq}")

    async def counts(self, q: QueueRef, now_ms: int) -> Counts:
        state = await self._log(q.id).follow()
        order = state.order
        in_flight, delayed = order.hidden.counts(max(now_ms, state.now_ms))
        oldest = next(iter(order.kept.values()), None)
        return Counts(len(order.kept) - in_flight - delayed, in_flight, delayed, oldest.born_at_ms if oldest else 0)

    # -- the whole queue ----------------------------------------------------------------------------------------------

    async def begin(self, q: QueueRef, generation: int, now_ms: int) -> None:
        """Everything of before is gone: its rows are of a generation that is over already."""
        log = self._log(q.id)
        if generation != DROPPED:
            await log.append(c.Purge(now_ms, generation))
            return
        await log.drop()
        self.waiters.wake_all(q.id)

    async def redelay(self, q: QueueRef, delay_ms: int, now_ms: int) -> None:
        await self._log(q.id).append(c.Redelay(now_ms, delay_ms))

    async def maintain(self, line: Line, budget: int, now_ms: int) -> int:
        """Remove what is past its retention, of a queue whose state this process has."""
        log = self._logs.get(line.q.id)
        if log is None:
            return 0
        oldest_ms = now_ms - line.q.retention_ms
        expired: list[tuple[int, str]] = []
        for kept in (await log.follow()).order.kept.values():
            if kept.born_at_ms > oldest_ms or len(expired) >= budget:
                break
            if kept.visible_at_ms <= now_ms or not kept.deliveries:
                expired.append((kept.seq, kept.place))
        if expired:
            await log.append(c.Remove(now_ms, tuple(expired)))
            await self._remove(line.q.id, [place_of(place) for _, place in expired])
        return len(expired)

    async def clear_log(self, queue: str, budget: int) -> int:
        """What newer images, or the end of the queue, have made needless."""
        return await self._images.clear(queue, budget)

    # -- news ---------------------------------------------------------------------------------------------------------

    def hear(self, queue: str) -> None:
        """A hint: there may be news for those who wait here."""
        if queue not in self.waiters:
            return
        if queue in self._looks:
            self._hinted.add(queue)  # while it is looked at: what the look began too early for
            return
        look = self._looks[queue] = asyncio.create_task(self._look(queue))
        look.add_done_callback(lambda _: self._looked(queue))

    def _looked(self, queue: str) -> None:
        del self._looks[queue]
        if queue in self._hinted:
            self._hinted.discard(queue)
            self.hear(queue)

    async def _look(self, queue: str) -> None:
        with suppress(CnsError):  # it is looked at again soon
            self._wake(await self._log(queue).follow(), queue, 1)

    async def look_at_all(self) -> None:
        """At the queues that somebody here waits for: a hint may have been lost."""
        queues = self.waiters.queues()
        for at in range(0, len(queues), LOOKS_AT_ONCE):
            await asyncio.gather(*[self._look(queue) for queue in queues[at : at + LOOKS_AT_ONCE]])

    def _changed(self, log: Log, commands: Sequence[c.Command], by_us: bool) -> None:
        if by_us and not all(isinstance(one, c.Receive) for one in commands):  # a receive makes nothing visible
            self._hint(log.queue)
        if log.queue in self.waiters:
            self._wake(
                log.state, log.queue, sum(len(one.messages) if isinstance(one, c.Send) else 1 for one in commands)
            )

    def _wake(self, state: State, queue: str, n: int) -> None:
        if state.dropped:
            self.waiters.wake_all(queue)
            return
        due_ms = state.order.next_due_ms()
        if due_ms is None:
            return
        if due_ms <= max(self._clock.now_ms(), state.now_ms):
            self.waiters.wake(queue, n)
        elif queue in self.waiters:
            self.waiters.wake_at(queue, due_ms)

    # -- logs ---------------------------------------------------------------------------------------------------------

    def _log(self, queue: str) -> Log:
        log = self._logs.get(queue)
        if log is None:
            log = self._logs[queue] = Log(self._cassandra, self._images, queue, self._changed)
            self._let_go()
        self._logs.move_to_end(queue)
        return log

    def _let_go(self) -> None:
        """Of those used longest ago."""
        for queue in list(self._logs)[: len(self._logs) - LOGS_MAX]:
            if self._logs[queue].idle:
                del self._logs[queue]

    async def close(self) -> None:
        await asyncio.gather(*self._looks.values(), *[log.close() for log in self._logs.values()])

    async def _remove(self, queue: str, places: Sequence[Place]) -> None:
        """Bodies that nothing names any more. What is left of them ends by itself."""
        if places:
            with suppress(CnsError):
                await self._rows.delete(queue, places)


def _vain(answer: SentEntry | RejectedEntry) -> bool:
    return isinstance(answer, RejectedEntry) or answer.duplicate
