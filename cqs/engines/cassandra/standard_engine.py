"""The base of engines on Cassandra alone: calls on a whole queue, expired messages, and waiting."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.metrics.model import Sample
from cns_common.task_cancellation import wait_at_most
from cqs.engines.cassandra.background import PacedStep, background_steps
from cqs.engines.cassandra.expired import ExpiredList
from cqs.engines.cassandra.garbage import EVERY_GENERATION, Garbage, GarbageList
from cqs.engines.cassandra.generations import DROPPED, QueueGenerations
from cqs.engines.cassandra.retention import RetentionPeriods
from cqs.engines.cassandra.settle import settle_in_steps
from cqs.engines.contract import ExpiredMessage, LocalEngine, QueueRef, Settlement, SettlementResult
from cqs.engines.long_poll import LocalLongPolls
from cqs.engines.waiters import LocalWaiter, WaiterRegistry

MAX_DELAY_MS = 7 * 24 * 3_600_000
"""The longest delay of a message in any of these engines."""
POLLS_AT_ONCE = 16
MAINTENANCE_ROWS = 500
CLOSE_S_MAX = 5.0
"""At the end, the limit for running writes, and for giving up leases, which otherwise expire."""


class UsedQueue(Protocol):
    generation: int


class UsedQueues(Protocol):
    """The queues that this process uses, with their generations as it knows them."""

    async def get(self, q: QueueRef) -> UsedQueue: ...

    async def observe_generation(self, q: QueueRef, generation: int) -> None: ...


@dataclass(frozen=True, slots=True)
class QueueRecords:
    """The records in Cassandra of an engine's queues, beside their messages."""

    generations: QueueGenerations
    garbage: GarbageList
    expired: ExpiredList
    retentions: RetentionPeriods

    @classmethod
    def of(cls, cassandra: Cassandra, engine: str) -> QueueRecords:
        return cls(
            QueueGenerations(cassandra),
            GarbageList(cassandra, engine),
            ExpiredList(cassandra, f"{engine}_expired"),
            RetentionPeriods(cassandra),
        )


class StandardQueueEngine(LocalEngine):
    """An engine of standard queues without transactions across queues. See `cqs.engines.contract.LocalEngine`."""

    def __init__(self, records: QueueRecords, known_queues: UsedQueues, waiters: WaiterRegistry, clock: Clock) -> None:
        self._records = records
        self._used_queues = known_queues
        self._waiters = waiters
        self._clock = clock

    # -- the whole queue ----------------------------------------------------------------------------------------------

    async def settle(self, settlement: Settlement, now_ms: int) -> SettlementResult:
        return await settle_in_steps(self, self._is_dropped, settlement, now_ms)

    async def _is_dropped(self, q: QueueRef) -> bool:
        return (await self._used_queues.get(q)).generation == DROPPED

    async def purge(self, q: QueueRef, now_ms: int) -> None:
        generation = await self._records.generations.raise_generation(q.id)
        if generation is not None:
            await self._used_queues.observe_generation(q, generation)
            await self._records.garbage.add(Garbage(q.id, generation))

    async def drop(self, q: QueueRef, now_ms: int) -> None:
        await self._records.generations.drop(q.id)
        await self._used_queues.observe_generation(q, DROPPED)
        self._waiters.wake_all(q.id)
        await self._records.garbage.add(Garbage(q.id, EVERY_GENERATION))
        await self._records.retentions.forget(q.id)

    async def set_attributes(self, q: QueueRef, now_ms: int) -> None:
        await self._records.retentions.record(q)
        await self._used_queues.get(q)

    async def redelay(self, q: QueueRef, delay_ms: int, now_ms: int) -> None:
        """There are no FIFO queues."""

    async def expired(self, n: int) -> list[ExpiredMessage]:
        return await self._records.expired.next_batch(n)

    async def forget_expired(self, messages: Sequence[ExpiredMessage]) -> None:
        await self._records.expired.forget(messages)

    # -- upkeep -------------------------------------------------------------------------------------------------------

    async def maintain(self, budget: int, now_ms: int) -> int:
        done = await self.clear_garbage(budget)
        return done + await self.maintain_queues(budget - done, now_ms) if done < budget else done

    @abstractmethod
    async def clear_garbage(self, budget: int) -> int:
        """Clean up after purges and drops of all processes."""

    @abstractmethod
    async def maintain_queues(self, budget: int, now_ms: int) -> int:
        """Maintain the queues that this process uses; other queues' garbage is left."""

    @asynccontextmanager
    async def running(self, name: str, poll_s: float, maintenance_s: float, *steps: PacedStep) -> AsyncIterator[None]:
        """Poll, maintain and take the other steps while the block runs, each with its pause; then close."""

        async def maintain_queues() -> bool:
            return await self.maintain_queues(MAINTENANCE_ROWS, self._clock.now_ms()) >= MAINTENANCE_ROWS

        try:
            async with background_steps((self.poll_step, poll_s), (maintain_queues, maintenance_s), *steps):
                yield
        finally:
            await wait_at_most(CLOSE_S_MAX, f"{name}.close", self.close())

    async def close(self) -> None:
        """End running writes, and give up leases, so that other processes need not wait for their ends."""

    # -- waiting ------------------------------------------------------------------------------------------------------

    def waiter(self, q: QueueRef) -> LocalWaiter:
        return LocalWaiter(self._waiters, q.id)

    def long_polls(self) -> LocalLongPolls:
        return LocalLongPolls(self, self._clock)

    async def poll_step(self) -> None:
        """Wake waiters for what other processes sent, gave back or dropped. Costs nothing without waiters. Raises the
        first error after all queues were looked at."""
        queues = self._waiters.queues()
        errors: list[BaseException] = []
        for at in range(0, len(queues), POLLS_AT_ONCE):
            some = [self._poll(queue_id) for queue_id in queues[at : at + POLLS_AT_ONCE]]
            done = await asyncio.gather(*some, return_exceptions=True)
            errors += [one for one in done if one is not None]
        if errors:
            raise errors[0]

    @abstractmethod
    async def _poll(self, queue_id: str) -> None:
        """Wake the queue's waiters for messages that other processes made visible, and when it is dropped."""

    def samples(self) -> list[Sample]:
        """Values for the metrics page."""
        return WaiterRegistry.samples(self._waiters)
