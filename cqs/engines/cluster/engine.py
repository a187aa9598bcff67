"""The engine: passes operations on by the queue's kind, and does those that span queues."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from cns_common.clock import Clock
from cns_common.metrics.catalogue import (
    QUEUE_DUPLICATE_DELIVERIES,
    RECONCILE_LAG_SECONDS,
    RECONCILE_REPAIRS,
    REDIS_OUTAGES,
    REDIS_UP,
)
from cns_common.metrics.model import Sample
from cqs.engines.cluster.cache_contract import DROPPED
from cqs.engines.cluster.cache_failover import CacheFailover
from cqs.engines.cluster.fifo.engine import FifoQueues
from cqs.engines.cluster.known_queues import KnownQueue, KnownQueues
from cqs.engines.cluster.maintenance import clear_garbage, maintain_queues
from cqs.engines.cluster.reconciler import Reconciler
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.standard import StandardQueues
from cqs.engines.contract import (
    Capabilities,
    Change,
    Counts,
    Entry,
    Outcome,
    PeekPage,
    QueueRef,
    ReceiveResult,
    RejectedEntry,
    SentEntry,
    Settlement,
    SettlementResult,
)
from cqs.engines.long_poll import LocalLongPolls
from cqs.engines.waiters import LocalWaiter, WaiterRegistry


class ClusterEngine:
    """See `cqs.engines.contract.LocalEngine`. `open_engine` creates it."""

    capabilities = Capabilities(
        fifo=True,
        update_body=True,
        atomic_settle=False,
        max_delay_ms=7 * 24 * 3_600_000,
    )

    def __init__(
        self,
        rows: MessageRows,
        failover: CacheFailover,
        known_queues: KnownQueues,
        standard: StandardQueues,
        fifo: FifoQueues,
        reconciler: Reconciler,
        clock: Clock,
    ) -> None:
        self._rows = rows
        self._failover = failover
        self._known_queues = known_queues
        self._standard = standard
        self._fifo = fifo
        self._reconciler = reconciler
        self._clock = clock

    def _queues_of_kind(self, q: QueueRef) -> StandardQueues | FifoQueues:
        return self._fifo if q.fifo else self._standard

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        return await self._queues_of_kind(q).send(q, entries, now_ms) if entries else []

    async def receive(
        self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = ""
    ) -> ReceiveResult:
        return await self._queues_of_kind(q).receive(q, want, visible_at_ms, now_ms, attempt_id)

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        return await self._queues_of_kind(q).delete(q, handles, now_ms)

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        return await self._queues_of_kind(q).change(q, changes, now_ms)

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        return await self._queues_of_kind(q).peek(q, cursor, n, now_ms)

    async def counts(self, q: QueueRef, now_ms: int) -> Counts:
        return await self._queues_of_kind(q).counts(q, now_ms)

    def waiter(self, q: QueueRef) -> LocalWaiter:
        return LocalWaiter(self._queues_of_kind(q).waiters, q.id)

    def long_polls(self) -> LocalLongPolls:
        return LocalLongPolls(self, self._clock)

    # -- across queues ------------------------------------------------------------------------------------------------

    async def settle(self, settlement: Settlement, now_ms: int) -> SettlementResult:
        """Sends first: a crash before the deletes repeats messages and loses none."""
        known_queues = {q.id: await self._known_queues.get(q) for q, _ in settlement.sends}
        if any(queue.generation == DROPPED for queue in known_queues.values()):
            return SettlementResult(sends=_rejected(settlement, known_queues))
        answers = await self._send_each(settlement, now_ms)
        if any(isinstance(answer, RejectedEntry) for answer in answers):
            return SettlementResult(sends=_rejected(settlement, known_queues))
        changes, deletes = await asyncio.gather(
            asyncio.gather(*[self.change(q, [change], now_ms) for q, change in settlement.changes]),
            self._delete_each(settlement, now_ms),
        )
        return SettlementResult(deletes, answers, tuple([outcome for (outcome,) in changes]))

    async def _delete_each(self, settlement: Settlement, now_ms: int) -> tuple[Outcome, ...]:
        """One delete per queue."""
        handles: dict[QueueRef, list[bytes]] = {}
        for q, handle in settlement.deletes:
            handles.setdefault(q, []).append(handle)
        done = await asyncio.gather(*[self.delete(q, list(some), now_ms) for q, some in handles.items()])
        answers = {q: iter(outcomes) for q, outcomes in zip(handles, done, strict=True)}
        return tuple([next(answers[q]) for q, _ in settlement.deletes])

    async def _send_each(self, settlement: Settlement, now_ms: int) -> tuple[SentEntry | RejectedEntry, ...]:
        """Entries of one FIFO queue are sent in one call, in order."""
        batches: dict[object, tuple[QueueRef, list[int]]] = {}
        for index, (q, _) in enumerate(settlement.sends):
            batches.setdefault(q.id if q.fifo else index, (q, []))[1].append(index)
        sent = await asyncio.gather(
            *[self.send(q, [settlement.sends[index][1] for index in some], now_ms) for q, some in batches.values()]
        )
        answers = {
            index: answer
            for (_, some), given in zip(batches.values(), sent, strict=True)
            for index, answer in zip(some, given, strict=True)
        }
        return tuple([answers[index] for index in range(len(answers))])

    # -- the whole queue ----------------------------------------------------------------------------------------------

    async def purge(self, q: QueueRef, now_ms: int) -> None:
        generation = await self._rows.raise_generation(q.id)
        if generation is not None:
            await self._queues_of_kind(q).begin_generation(q, generation, now_ms)

    async def drop(self, q: QueueRef, now_ms: int) -> None:
        await self._rows.drop(q.id)
        await self._queues_of_kind(q).begin_generation(q, DROPPED, now_ms)

    async def redelay(self, q: QueueRef, delay_ms: int, now_ms: int) -> None:
        await self._fifo.redelay(q, delay_ms, now_ms)

    async def maintain(self, budget: int, now_ms: int) -> int:
        """Clean up after purges and drops of all processes, then `maintain_queues`."""
        done = await clear_garbage(self._rows, self._fifo.clear_log, budget)
        return done + await self.maintain_queues(budget - done, now_ms) if done < budget else done

    async def maintain_queues(self, budget: int, now_ms: int) -> int:
        """Remove expired messages and empty buckets of the queues that this process uses."""

        def expire_of(queue: KnownQueue, n: int) -> Coroutine[Any, Any, int]:
            return self._queues_of_kind(queue.q).maintain(queue, n, now_ms)

        return await maintain_queues(self._rows, self._known_queues, expire_of, budget, now_ms, self._clock.wall_ms())

    def samples(self) -> list[Sample]:
        """Values for the metrics page."""
        return [
            *([REDIS_UP.sample(not self._failover.redis_is_lost)] if self._failover.has_redis else []),
            REDIS_OUTAGES.sample(self._failover.losses),
            RECONCILE_REPAIRS.sample(self._reconciler.repairs),
            RECONCILE_LAG_SECONDS.sample(self._reconciler.lag_ms / 1000),
            QUEUE_DUPLICATE_DELIVERIES.sample(self._failover.duplicates),
            *WaiterRegistry.samples(self._standard.waiters, self._fifo.waiters),
        ]


def _rejected(settlement: Settlement, known_queues: dict[str, KnownQueue]) -> tuple[SentEntry | RejectedEntry, ...]:
    return tuple(
        [
            RejectedEntry() if known_queues[q.id].generation == DROPPED else RejectedEntry("another_rejected")
            for q, _ in settlement.sends
        ]
    )
