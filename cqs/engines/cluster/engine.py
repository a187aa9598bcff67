"""The engine: passes operations on by the queue's kind, and does those that span queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cns_common.cassandra.background_work import background
from cns_common.clock import Clock
from cns_common.metrics.model import Sample
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cassandra.settle import settle_in_steps
from cqs.engines.cluster.fifo.engine import FifoQueues
from cqs.engines.cluster.known_queues import ClusterKnownQueues
from cqs.engines.cluster.maintenance import clear_garbage
from cqs.engines.cluster.options import OPTIONS
from cqs.engines.cluster.ownership.background import BackgroundWork
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.servers.pool import CacheServers
from cqs.engines.cluster.standard import StandardQueues
from cqs.engines.cluster.transfer import ClusterTransfer
from cqs.engines.contract import (
    Capabilities,
    Change,
    Counts,
    Entry,
    ExpiredMessage,
    LocalEngine,
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
from cqs.engines.options import EngineOption
from cqs.engines.waiters import LocalWaiter, WaiterRegistry


class ClusterEngine(LocalEngine):
    """`open_engine` creates it."""

    capabilities = Capabilities(
        fifo=True,
        update_body=True,
        atomic_settle=False,
        max_delay_ms=7 * 24 * 3_600_000,
        exact_counts=True,
        fair=True,
        order="nearly",
    )
    options: Mapping[str, EngineOption] = OPTIONS

    def __init__(
        self,
        rows: MessageRows,
        servers: CacheServers,
        known_queues: ClusterKnownQueues,
        standard: StandardQueues,
        fifo: FifoQueues,
        work: BackgroundWork,
        clock: Clock,
        skew: ClockSkew,
    ) -> None:
        self._rows = rows
        self._servers = servers
        self._known_queues = known_queues
        self._standard = standard
        self._fifo = fifo
        self.work = work
        self._clock = clock
        self._skew = skew
        self.transfer = ClusterTransfer(self, rows, servers.router, fifo.transfer)

    def _queues_of_kind(self, q: QueueRef) -> StandardQueues | FifoQueues:
        return self._fifo if q.fifo else self._standard

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        return await self._queues_of_kind(q).send(q, entries, now_ms) if entries else []

    async def receive(
        self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = ""
    ) -> ReceiveResult:
        self._skew.refuse_if_wrong()
        return await self._queues_of_kind(q).receive(q, want, visible_at_ms, now_ms, attempt_id)

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        return await self._queues_of_kind(q).delete(q, handles, now_ms)

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        return await self._queues_of_kind(q).change(q, changes, now_ms)

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        return await self._queues_of_kind(q).peek(q, cursor, n, now_ms)

    async def counts(self, q: QueueRef, now_ms: int, *, oldest: bool = False) -> Counts:
        return await self._queues_of_kind(q).counts(q, now_ms, oldest=oldest)

    def waiter(self, q: QueueRef) -> LocalWaiter:
        return LocalWaiter(self._queues_of_kind(q).waiters, q.id)

    def long_polls(self) -> LocalLongPolls:
        return LocalLongPolls(self, self._clock)

    # -- across queues ------------------------------------------------------------------------------------------------

    async def settle(self, settlement: Settlement, now_ms: int) -> SettlementResult:
        return await settle_in_steps(self, self._is_dropped, settlement, now_ms)

    async def _is_dropped(self, q: QueueRef) -> bool:
        return (await self._known_queues.get(q)).generation == DROPPED

    # -- the whole queue ----------------------------------------------------------------------------------------------

    async def purge(self, q: QueueRef, now_ms: int) -> None:
        generation = await self._rows.raise_generation(q.id)
        if generation is not None:
            await self._queues_of_kind(q).begin_generation(q, generation, now_ms)

    async def drop(self, q: QueueRef, now_ms: int) -> None:
        await self._rows.drop(q.id)
        await self._queues_of_kind(q).begin_generation(q, DROPPED, now_ms)

    async def set_attributes(self, q: QueueRef, now_ms: int) -> None:
        await self._rows.retentions.record(q)
        await self._known_queues.get(q)

    async def redelay(self, q: QueueRef, delay_ms: int, now_ms: int) -> None:
        await self._fifo.redelay(q, delay_ms, now_ms)

    async def maintain(self, budget: int, now_ms: int) -> int:
        """Clean up after purges and drops of all processes, and the queues that this process owns."""
        with background("maintain"):
            done = await clear_garbage(self._rows, self._fifo.clear_log, budget)
            if done < budget:
                done += await self._fifo.maintain_all(budget - done, now_ms)
            return done + await self.work.maintain(budget - done, now_ms) if done < budget else done

    async def expired(self, n: int) -> list[ExpiredMessage]:
        return await self._rows.expired.next_batch(n)

    async def forget_expired(self, messages: Sequence[ExpiredMessage]) -> None:
        await self._rows.expired.forget(messages)

    def samples(self) -> list[Sample]:
        """Values for the metrics page."""
        return [
            *self._servers.samples(),
            *self.work.samples(),
            *WaiterRegistry.samples(self._standard.waiters, self._fifo.waiters),
        ]
