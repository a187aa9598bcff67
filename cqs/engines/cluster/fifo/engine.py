"""The engine's operations on FIFO queues: store bodies, append commands, remove bodies that are not needed any more."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import CnsError, StoreUnavailable
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cluster.fifo import commands as c
from cqs.engines.cluster.fifo.conversions import delivery_of, message_of, new_message, peeked_of, read_cursor
from cqs.engines.cluster.fifo.log import CommandLog
from cqs.engines.cluster.fifo.log_time import LogTime
from cqs.engines.cluster.fifo.order import QueuedMessage
from cqs.engines.cluster.fifo.snapshots import Snapshots
from cqs.engines.cluster.fifo.state import FifoState
from cqs.engines.cluster.fifo.transfer import FifoTransfer
from cqs.engines.cluster.ids import MessageLocation, parse_location
from cqs.engines.cluster.known_queues import ClusterKnownQueues
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
ROUNDS_MAX = 20
LOGS_MAX = 1_000
"""The most queues whose state a process keeps in memory. For another queue it reads the log again."""
POLLED_AT_ONCE = 16
HINTED_STEPS = 5
"""While Redis brings hints, one in so many polling steps polls."""
SKEW_MS_MAX = 120_000
"""The largest age difference of two messages of a queue that may be out of order."""
EXPIRED_MAX = 1_000
"""Expired messages of an audited queue that are removed at once before a receive."""


class FifoQueues:
    """`hint(queue_id)` tells other processes that the queue has changed.

    Times of callers and of bodies' rows are this process's; those in the log, its state and its answers are the log's.
    """

    def __init__(
        self,
        cassandra: Cassandra,
        rows: MessageRows,
        known_queues: ClusterKnownQueues,
        clock: Clock,
        time: LogTime,
        hint: Callable[[str], None],
    ) -> None:
        self._cassandra = cassandra
        self._snapshots = Snapshots(cassandra, time)
        self._rows = rows
        self._known_queues = known_queues
        self._time = time
        self._hint = hint
        self._logs: OrderedDict[str, CommandLog] = OrderedDict()
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._hinted: set[str] = set()
        self._steps_skipped = 0
        self.waiters = WaiterRegistry(clock)
        self.transfer = FifoTransfer(rows, time, self._log)

    # -- sending ------------------------------------------------------------------------------------------------------

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        """The body of a duplicate is stored, too, and removed afterwards."""
        await self._time.ensure()
        queue = await self._known_queues.get(q)
        for _ in range(GENERATIONS_MAX):
            generation = queue.generation  # other tasks raise it when they learn of a purge
            if generation == DROPPED:
                return [RejectedEntry() for _ in entries]
            locations = await self._rows.insert(q.id, generation, entries, now_ms)
            messages = tuple(
                [new_message(entry, location, self._time) for entry, location in zip(entries, locations, strict=True)]
            )
            accepted: c.SendAnswer = await self._log(q.id).append(
                c.FifoSend(self._time.to_log(now_ms), generation, messages)
            )
            if accepted.answers:
                await self._remove(
                    q.id,
                    [location for location, one in zip(locations, accepted.answers, strict=True) if _is_unused(one)],
                )
                return list(accepted.answers)
            queue.observe_generation(accepted.generation)  # purged meanwhile: the bodies are of the old generation
        raise StoreUnavailable("the queue is purged again and again")

    # -- receiving ----------------------------------------------------------------------------------------------------

    async def receive(self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str) -> ReceiveResult:
        await self._time.ensure()
        log = self._log(q.id)
        while q.audit and await self._expire(q, log, EXPIRED_MAX, now_ms) == EXPIRED_MAX:
            pass  # else the receive below would remove them without a record
        if self._may_have_expired(q, log.state, now_ms):
            q = await self._rows.retentions.current(q)
        to_log = self._time.to_log
        command = c.Receive(to_log(now_ms), want, to_log(visible_at_ms), q.retention_ms, q.max_receives, attempt_id)
        for _ in range(ROUNDS_MAX):
            if not _has_messages(log, command):
                await log.catch_up()
                if not _has_messages(log, command):
                    return await self._empty_result(q, log.state)
            taken: c.ReceiveAnswer = await log.append(command)
            await self._remove(q.id, [parse_location(location) for location in taken.expired])
            if not taken.messages and not taken.spent:
                return await self._empty_result(q, log.state, limit_reached=taken.limit_reached)
            received = await self._with_bodies(q, log, taken, now_ms)
            if received.messages or received.spent:
                return received
        return ReceiveResult()

    async def _empty_result(self, q: QueueRef, state: FifoState, *, limit_reached: bool = False) -> ReceiveResult:
        if state.dropped or (await self._known_queues.get(q)).generation == DROPPED:
            return ReceiveResult(dropped=True)
        due_ms = state.order.next_due_ms()
        next_due_ms = None if due_ms is None else self._time.to_process(due_ms)
        return ReceiveResult(next_due_ms=next_due_ms, limit_reached=limit_reached)

    async def _with_bodies(self, q: QueueRef, log: CommandLog, taken: c.ReceiveAnswer, now_ms: int) -> ReceiveResult:
        """A message without a body was purged by a process that has not appended its Purge yet, or is older than any
        retention."""
        given = (*taken.messages, *taken.spent)
        rows = await self._rows.read(q.id, [parse_location(one.location) for one in given])
        gone = tuple([(one.seq, one.location) for one in given if parse_location(one.location) not in rows])
        if gone:
            await log.append(c.Remove(self._time.to_log(now_ms), gone))
        messages, spent = [
            tuple(
                [
                    message_of(q.id, one, rows[parse_location(one.location)], self._time)
                    for one in some
                    if parse_location(one.location) in rows
                ]
            )
            for some in (taken.messages, taken.spent)
        ]
        return ReceiveResult(messages, spent, received_at_ms=self._time.to_process(taken.received_at_ms))

    # -- settling -----------------------------------------------------------------------------------------------------

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        deliveries = [delivery_of(q.id, handle) for handle in handles]
        keys = tuple([delivery for delivery in deliveries if delivery is not None])
        if not keys:
            return [Outcome.MALFORMED for _ in handles]
        await self._time.ensure()
        done: c.OutcomeAnswer = await self._log(q.id).append(c.Delete(self._time.to_log(now_ms), keys))
        await self._remove(q.id, [parse_location(location) for location in done.locations])
        outcomes = iter(done.outcomes)
        return [Outcome.MALFORMED if delivery is None else next(outcomes) for delivery in deliveries]

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        await self._time.ensure()
        return list(await asyncio.gather(*[self._change(q, change, now_ms) for change in changes]))

    async def _change(self, q: QueueRef, change: Change, now_ms: int) -> Outcome:
        key = delivery_of(q.id, change.handle)
        if key is None:
            return Outcome.MALFORMED
        location = "" if change.body is None else await self._store(q, key[0], change.body, now_ms)
        to_log = self._time.to_log
        visible_at_ms = None if change.visible_at_ms is None else to_log(change.visible_at_ms)
        done: c.OutcomeAnswer = await self._log(q.id).append(c.FifoChange(to_log(now_ms), key, visible_at_ms, location))
        await self._remove(q.id, [parse_location(unused) for unused in done.locations])
        return done.outcomes[0]

    async def _store(self, q: QueueRef, seq: int, body: bytes, now_ms: int) -> str:
        """Store a new body for a message. Returns its location, or '' if the message does not exist."""
        state = await self._log(q.id).catch_up()
        message = state.order.messages.get(seq)
        if message is None:
            return ""
        to_process = self._time.to_process
        entry = Entry(
            message.id, body, to_process(message.born_at_ms), to_process(message.visible_at_ms), message.group
        )
        generation = state.generation  # of the message; if the queue is being purged, the message goes with it
        (location,) = await self._rows.insert(q.id, generation, [entry], now_ms)
        return location.member

    # -- peek and counts ----------------------------------------------------------------------------------------------

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        """Heads of groups, soonest due first, then all messages behind them."""
        await self._time.ensure()
        order = (await self._log(q.id).catch_up()).order
        kind, at, seq = ("first", -1, -1) if not cursor else read_cursor(cursor)
        firsts = order.heads((at, seq), n) if kind == "first" else []
        rest = order.behind_heads(-1 if kind == "first" else seq, n - len(firsts))
        some = firsts + rest
        rows = await self._rows.read(q.id, [parse_location(message.location) for message in some])
        peeked = tuple(
            [
                peeked_of(message, rows[parse_location(message.location)], self._time)
                for message in some
                if parse_location(message.location) in rows
            ]
        )
        if len(some) < n:
            return PeekPage(peeked)
        last = some[-1]
        return PeekPage(peeked, f"behind:{last.seq}" if rest else f"{last.visible_at_ms}:{last.seq}")

    async def counts(self, q: QueueRef, now_ms: int, *, oldest: bool = False) -> Counts:
        await self._time.ensure()
        state = await self._log(q.id).catch_up()
        order = state.order
        in_flight, delayed = order.hidden.counts(max(self._time.to_log(now_ms), state.now_ms))
        first = next(iter(order.messages.values()), None) if oldest else None
        first_ms = self._time.to_process(first.born_at_ms) if first else 0
        return Counts(len(order.messages) - in_flight - delayed, in_flight, delayed, first_ms)

    # -- the whole queue ----------------------------------------------------------------------------------------------

    async def begin_generation(self, q: QueueRef, generation: int, now_ms: int) -> None:
        """Drop the earlier messages. Their rows are of an old generation, which maintenance removes."""
        log = self._log(q.id)
        if generation != DROPPED:
            await self._time.ensure()
            await log.append(c.Purge(self._time.to_log(now_ms), generation))
            return
        await log.drop()
        self.waiters.wake_all(q.id)

    async def redelay(self, q: QueueRef, delay_ms: int, now_ms: int) -> None:
        await self._time.ensure()
        await self._log(q.id).append(c.Redelay(self._time.to_log(now_ms), delay_ms))

    async def maintain_all(self, budget: int, now_ms: int) -> int:
        """Remove expired messages of the queues whose state this process has. Costs nothing where none has expired."""
        done = 0
        for queue in self._known_queues:
            commands = self._logs.get(queue.q.id) if queue.q.fifo and queue.generation != DROPPED else None
            if commands is None or not self._may_have_expired(queue.q, commands.state, now_ms):
                continue
            if done >= budget:
                break
            with suppress(CnsError):  # go on with the other queues: the next run tries again
                done += await self._expire(queue.q, commands, budget - done, now_ms)
        return done

    def _may_have_expired(self, q: QueueRef, state: FifoState, now_ms: int) -> bool:
        oldest = next(iter(state.order.messages.values()), None)
        oldest_ms = self._time.to_log(now_ms) - q.retention_ms
        return oldest is not None and oldest.born_at_ms <= oldest_ms + SKEW_MS_MAX

    async def _expire(self, q: QueueRef, log: CommandLog, budget: int, now_ms: int) -> int:
        await self._time.ensure()
        log_ms = self._time.to_log(now_ms)
        state = await log.catch_up()
        oldest_ms, visible_ms = log_ms - q.retention_ms, max(log_ms, state.now_ms)
        expired: list[QueuedMessage] = []
        for message in state.order.messages.values():
            if message.born_at_ms > oldest_ms + SKEW_MS_MAX or len(expired) >= budget:
                break
            if message.born_at_ms > oldest_ms:
                continue  # sent by a process whose clock is ahead; later messages may be older
            if message.visible_at_ms <= visible_ms or not message.deliveries:
                expired.append(message)
        if expired:
            current = await self._rows.retentions.current(q)
            if current.retention_ms > q.retention_ms:
                return await self._expire(current, log, budget, now_ms)
            await self._rows.expired.record(q, [(one.id, one.group) for one in expired], now_ms)
            await log.append(c.Remove(log_ms, tuple([(one.seq, one.location) for one in expired])))
            await self._remove(q.id, [parse_location(one.location) for one in expired])
        return len(expired)

    async def clear_log(self, queue_id: str, budget: int) -> int:
        """Remove segments and snapshots of the log that are not needed any more."""
        return await self._snapshots.clear(queue_id, budget)

    # -- wake-ups -----------------------------------------------------------------------------------------------------

    def on_hint(self, queue_id: str) -> None:
        """Poll the queue after a hint: it may have messages for waiters of this process."""
        if queue_id not in self.waiters:
            return
        if queue_id in self._polls:
            self._hinted.add(queue_id)  # poll again afterwards: the running poll may have begun too early
            return
        poll = self._polls[queue_id] = asyncio.create_task(self._poll(queue_id))
        poll.add_done_callback(lambda _: self._poll_ended(queue_id))

    def _poll_ended(self, queue_id: str) -> None:
        del self._polls[queue_id]
        if queue_id in self._hinted:
            self._hinted.discard(queue_id)
            self.on_hint(queue_id)

    async def _poll(self, queue_id: str) -> None:
        with suppress(CnsError):  # the next poll comes soon
            self._wake(await self._log(queue_id).catch_up(), queue_id, 1)

    async def poll_step(self, *, hinted: bool) -> None:
        """One step of the polling. With hints most steps do nothing."""
        self._steps_skipped += 1
        if not hinted or self._steps_skipped >= HINTED_STEPS:
            self._steps_skipped = 0
            await self.poll_all()

    async def poll_all(self) -> None:
        """Poll the queues that have waiters in this process: hints can be lost."""
        queues = self.waiters.queues()
        for at in range(0, len(queues), POLLED_AT_ONCE):
            await asyncio.gather(*[self._poll(queue_id) for queue_id in queues[at : at + POLLED_AT_ONCE]])

    def _changed(self, log: CommandLog, commands: Sequence[c.Command], by_us: bool) -> None:
        if by_us and not all(isinstance(one, c.Receive) for one in commands):  # a Receive makes no message visible
            self._hint(log.queue_id)
        if log.queue_id in self.waiters:
            self._wake(
                log.state,
                log.queue_id,
                sum(len(one.messages) if isinstance(one, c.FifoSend) else 1 for one in commands),
            )

    def _wake(self, state: FifoState, queue_id: str, n: int) -> None:
        if state.dropped:
            self.waiters.wake_all(queue_id)
            return
        due_ms = state.order.next_due_ms()
        if due_ms is None:
            return
        if due_ms <= max(self._time.now_ms(), state.now_ms) or self._time.is_ahead(state.now_ms):
            self.waiters.wake(queue_id, n)
        elif queue_id in self.waiters:
            self.waiters.wake_at(queue_id, self._time.to_process(due_ms))

    # -- logs ---------------------------------------------------------------------------------------------------------

    def _log(self, queue_id: str) -> CommandLog:
        log = self._logs.get(queue_id)
        if log is None:
            log = self._logs[queue_id] = CommandLog(
                self._cassandra, self._snapshots, self._time, queue_id, self._changed
            )
            self._evict_logs()
        self._logs.move_to_end(queue_id)
        return log

    def _evict_logs(self) -> None:
        for queue_id in list(self._logs)[: len(self._logs) - LOGS_MAX]:
            if self._logs[queue_id].idle:
                del self._logs[queue_id]

    async def close(self) -> None:
        await asyncio.gather(*self._polls.values(), *[log.close() for log in self._logs.values()])

    async def _remove(self, queue_id: str, locations: Sequence[MessageLocation]) -> None:
        """Remove bodies that no command names any more. Bodies that remain after an error expire by their TTL."""
        if locations:
            with suppress(CnsError):
                await self._rows.delete(queue_id, locations)


def _has_messages(log: CommandLog, command: c.Receive) -> bool:
    """Whether the command would return messages, or is to set back the queue's time before."""
    return log.is_ahead or log.state.would_return_messages(command)


def _is_unused(answer: SentEntry | RejectedEntry) -> bool:
    return isinstance(answer, RejectedEntry) or answer.duplicate
