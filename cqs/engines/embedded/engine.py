"""The embedded engine: queues in one SQLite file, with every feature of the contract.

The statements of one event-loop turn share a transaction and its fsync (`cns_common.sqlite.database`). Its stages run
in this order: look-ups and control; sends, deletes and changes (`settle`); receives (`receive`), so that a turn can
receive what it sends. `queue_state` and `transaction` keep the state in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import apsw

from cns_common.clock import Clock
from cns_common.metrics.model import Sample
from cns_common.sqlite.database import Database
from cqs.engines.contract import (
    FIFO_DELAY_MS_MAX,
    Capabilities,
    Change,
    Counts,
    Entry,
    ExpiredMessage,
    LocalEngine,
    Outcome,
    PeekedMessage,
    PeekPage,
    QueueRef,
    ReceiveResult,
    RejectedEntry,
    SentEntry,
    Settlement,
    SettlementResult,
)
from cqs.engines.embedded import schema
from cqs.engines.embedded.maintenance import STEP_ROWS_MAX, maintain
from cqs.engines.embedded.receive import EmbeddedReceive, ReceiveStage
from cqs.engines.embedded.settle import EmbeddedSettle, SettleStage
from cqs.engines.embedded.transaction import TransactionState
from cqs.engines.embedded.transfer import EmbeddedTransfer
from cqs.engines.long_poll import LocalLongPolls
from cqs.engines.options import EngineOption
from cqs.engines.waiters import LocalWaiter, WaiterRegistry

__all__ = ["EmbeddedEngine"]


_NO_MESSAGES = ReceiveResult()


class EmbeddedEngine(LocalEngine):
    """It lives in the store host: one event loop, one `Database`."""

    capabilities = Capabilities(
        fifo=True,
        update_body=True,
        atomic_settle=True,
        max_delay_ms=7 * 24 * 3_600_000,
        exact_counts=True,
        fair=True,
    )
    options: Mapping[str, EngineOption] = {}

    def __init__(self, database: Database, clock: Clock) -> None:
        database.create_tables(schema.SCHEMA, schema.ADDED_COLUMNS)
        database.create_tables(schema.ADDED_INDICES)
        self._database = database
        self._clock = clock
        self._waiters = WaiterRegistry(clock)
        self._state = TransactionState(database, self._waiters, clock)
        self.transfer = EmbeddedTransfer(self, database, self._state)
        self._settle_stage = database.stage(SettleStage(self._state).run, grows=lambda request: request.grows)
        self._receive_stage = database.stage(ReceiveStage(self._state).run, grows=lambda _: False)

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        settled: SettlementResult = await self._settle_stage.submit(
            EmbeddedSettle(now_ms, sends=[(q, entry) for entry in entries])
        )
        return list(settled.sends)

    async def receive(
        self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = ""
    ) -> ReceiveResult:
        if self._state.is_empty(q):
            return _NO_MESSAGES  # a transaction would double the cost of an idle service's polls
        received: ReceiveResult = await self._receive_stage.submit(
            EmbeddedReceive(q, want, visible_at_ms, now_ms, attempt_id)
        )
        return received

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        settled: SettlementResult = await self._settle_stage.submit(
            EmbeddedSettle(now_ms, deletes=[(q, handle) for handle in handles])
        )
        return list(settled.deletes)

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        settled: SettlementResult = await self._settle_stage.submit(
            EmbeddedSettle(now_ms, changes=[(q, change) for change in changes])
        )
        return list(settled.changes)

    async def settle(self, settlement: Settlement, now_ms: int) -> SettlementResult:
        request = EmbeddedSettle(
            now_ms, settlement.sends, settlement.deletes, settlement.changes, settlement.idle, atomic=True
        )
        settled: SettlementResult = await self._settle_stage.submit(request)
        return settled

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        await self._database.flush()  # a lease is answered before its commit
        generation = self._state.committed_generation(q)
        if generation is None:
            return PeekPage()
        reader = self._database.reader
        due_text, _, seq_text = cursor.partition(":")
        rows: list[Any] = []
        if due_text != "behind":
            at = (int(due_text), int(seq_text)) if cursor else (-1, -1)
            rows = reader.execute(schema.PEEK_DUE, (generation, *at, n)).fetchall()
        if len(rows) < n:
            after = int(seq_text) if due_text == "behind" else -1
            rows += reader.execute(schema.PEEK_BEHIND, (generation, after, n - len(rows))).fetchall()
        peeked = tuple(
            PeekedMessage(message_id, body, seq, deliveries, first_at, born_at, visible_at, group)
            for _, seq, visible_at, born_at, deliveries, first_at, group, message_id, body in rows
        )
        if len(rows) < n:
            return PeekPage(peeked)
        due, seq = rows[-1][:2]
        return PeekPage(peeked, f"behind:{seq}" if due is None else f"{due}:{seq}")

    async def counts(self, q: QueueRef, now_ms: int, *, oldest: bool = False) -> Counts:
        return await self._database.write(lambda _: self._state.counts(q, now_ms, oldest=oldest), grows=False)

    async def purge(self, q: QueueRef, now_ms: int) -> None:
        await self._database.write(lambda _: self._state.purge(q), grows=False)

    async def drop(self, q: QueueRef, now_ms: int) -> None:
        await self._database.write(lambda _: self._state.drop(q, now_ms), grows=False)
        self._waiters.wake_all(q.id)

    async def set_attributes(self, q: QueueRef, now_ms: int) -> None:
        await self.counts(q, now_ms)  # as each call does, it notes the newest attributes

    async def redelay(self, q: QueueRef, delay_ms: int, now_ms: int) -> None:
        generation = self._state.committed_generation(q)
        if generation is None:
            return
        bindings = {"line": generation, "after": now_ms - FIFO_DELAY_MS_MAX}
        seqs: list[Any] = [seq for (seq,) in self._database.reader.execute(schema.RECENTLY_SENT, bindings)]
        for start in range(0, len(seqs), STEP_ROWS_MAX):
            step = seqs[start : start + STEP_ROWS_MAX]
            await self._database.write(partial(self._redelay, q, step, delay_ms, now_ms))

    def _redelay(self, q: QueueRef, seqs: list[int], delay_ms: int, now_ms: int, _: apsw.Connection) -> None:
        self._state.redelay(q, seqs, delay_ms, now_ms)

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

    async def expired(self, n: int) -> list[ExpiredMessage]:
        rows: list[Any] = self._database.reader.execute(schema.LIST_EXPIRED, (n,)).fetchall()
        return [ExpiredMessage(*row) for row in rows]

    async def forget_expired(self, messages: Sequence[ExpiredMessage]) -> None:
        keys = [(one.at_ms, one.audit, one.id) for one in messages]

        def forget(connection: apsw.Connection) -> None:
            connection.executemany(schema.FORGET_EXPIRED, keys)

        await self._database.write(forget, grows=False)

    def waiter(self, q: QueueRef) -> LocalWaiter:
        return LocalWaiter(self._waiters, q.id)

    def long_polls(self) -> LocalLongPolls:
        return LocalLongPolls(self, self._clock)

    def samples(self) -> list[Sample]:
        return WaiterRegistry.samples(self._waiters)
