"""The embedded engine: queues in one SQLite file, all features of the contract, one fsync for all who wait.

Statements of one event-loop turn share a transaction (`cns_common.sqlite.database`). Here are the stages of that
transaction, in their order: look-ups and control, then sends, deletes and changes, then receives, so that a turn can
receive what it sends. `settling` and `receiving` hold the logic of the statements, `queue_state` the state in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import apsw

from cns_common.clock import Clock
from cns_common.sqlite.database import Database
from cqs.engines.contract import (
    FIFO_DELAY_MS_MAX,
    Capabilities,
    Change,
    Counts,
    Entry,
    Outcome,
    Page,
    Peeked,
    QueueRef,
    Received,
    Rejected,
    Sent,
    Settled,
    Settlement,
)
from cqs.engines.embedded import schema
from cqs.engines.embedded.maintenance import STEP_ROWS_MAX, maintain
from cqs.engines.embedded.receiving import Receiving, Want
from cqs.engines.embedded.redelay import redelay
from cqs.engines.embedded.settling import Settling, Step
from cqs.engines.embedded.transaction import State
from cqs.engines.long_poll import LocalWaits
from cqs.engines.waiters import LocalWakeups, Waiters

__all__ = ["EmbeddedEngine"]


_NOTHING = Received()


class EmbeddedEngine:
    """See `cqs.engines.contract.Engine`. Lives in the store host: one event loop, one `Database`."""

    capabilities = Capabilities(
        order="group",
        dedup=True,
        exact_counts=True,
        fair=True,
        update_body=True,
        atomic_settle=True,
        max_delay_ms=7 * 24 * 3_600_000,
    )

    def __init__(self, database: Database, clock: Clock) -> None:
        database.create_tables(schema.SCHEMA)
        self._database = database
        self._clock = clock
        self._waiters = Waiters(clock)
        self._state = State(database, self._waiters, clock)
        self._settling = database.stage(Settling(self._state).run, grows=lambda step: step.grows)
        self._receiving = database.stage(Receiving(self._state).run, grows=lambda _: False)

    @property
    def polls_waiting(self) -> int:
        return len(self._waiters)

    @property
    def polls_internal(self) -> int:
        return self._waiters.internal

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[Sent | Rejected]:
        settled: Settled = await self._settling.submit(Step(now_ms, sends=[(q, entry) for entry in entries]))
        return list(settled.sends)

    async def receive(self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = "") -> Received:
        if self._state.is_empty(q):
            return _NOTHING  # most polls of an idle service: a transaction each would be half of what they cost
        received: Received = await self._receiving.submit(Want(q, want, visible_at_ms, now_ms, attempt_id))
        return received

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        settled: Settled = await self._settling.submit(Step(now_ms, deletes=[(q, handle) for handle in handles]))
        return list(settled.deletes)

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        settled: Settled = await self._settling.submit(Step(now_ms, changes=[(q, change) for change in changes]))
        return list(settled.changes)

    async def settle(self, settlement: Settlement, now_ms: int) -> Settled:
        step = Step(now_ms, settlement.sends, settlement.deletes, settlement.changes, whole=True)
        settled: Settled = await self._settling.submit(step)
        return settled

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> Page:
        line = self._state.peek_line(q)
        if line is None:
            return Page()
        reader = self._database.reader
        due_text, _, seq_text = cursor.partition(":")
        rows: list[Any] = []
        if due_text != "behind":
            at = (int(due_text), int(seq_text)) if cursor else (-1, -1)
            rows = reader.execute(schema.PEEK_DUE, (line, *at, n)).fetchall()
        if len(rows) < n:
            after = int(seq_text) if due_text == "behind" else -1
            rows += reader.execute(schema.PEEK_BEHIND, (line, after, n - len(rows))).fetchall()
        peeked = tuple(
            Peeked(message_id, body, seq, deliveries, first_at, born_at, visible_at, group)
            for _, seq, visible_at, born_at, deliveries, first_at, group, message_id, body in rows
        )
        if len(rows) < n:
            return Page(peeked)
        due, seq = rows[-1][:2]
        return Page(peeked, f"behind:{seq}" if due is None else f"{due}:{seq}")

    async def counts(self, q: QueueRef, now_ms: int) -> Counts:
        return await self._database.write(lambda _: self._state.counts(q, now_ms), grows=False)

    async def purge(self, q: QueueRef, now_ms: int) -> None:
        await self._database.write(lambda _: self._state.purge(q), grows=False)

    async def drop(self, q: QueueRef, now_ms: int) -> None:
        await self._database.write(lambda _: self._state.drop(q), grows=False)
        self._waiters.wake_all(q.id)

    async def redelay(self, q: QueueRef, delay_ms: int, now_ms: int) -> None:
        line = self._state.peek_line(q)
        if line is None:
            return
        lately = {"line": line, "after": now_ms - FIFO_DELAY_MS_MAX}
        seqs: list[Any] = [seq for (seq,) in self._database.reader.execute(schema.SENT_LATELY, lately)]
        for start in range(0, len(seqs), STEP_ROWS_MAX):
            step = seqs[start : start + STEP_ROWS_MAX]
            await self._database.write(partial(self._redelay, q, step, delay_ms, now_ms))

    def _redelay(self, q: QueueRef, seqs: list[int], delay_ms: int, now_ms: int, _: apsw.Connection) -> None:
        redelay(self._state, q, seqs, delay_ms, now_ms)

    async def maintain(self, budget: int, now_ms: int) -> int:
        done = 0
        while done < budget:
            rows = min(budget - done, STEP_ROWS_MAX)
            cleared = await self._database.write(partial(self._maintain, rows, now_ms), grows=False)
            done += cleared
            if cleared < rows:
                break
        return done

    def _maintain(self, rows: int, now_ms: int, _: apsw.Connection) -> int:
        return maintain(self._state, rows, now_ms)

    def wakeups(self, q: QueueRef) -> LocalWakeups:
        return LocalWakeups(self._waiters, q.id)

    def waits(self) -> LocalWaits:
        return LocalWaits(self, self._clock)
