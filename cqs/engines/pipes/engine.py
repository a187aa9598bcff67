"""The engine: passes operations on to pushers, poppers and the settler, and does those on whole queues."""

from __future__ import annotations

from collections.abc import Sequence

from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cassandra.garbage import GarbageList
from cqs.engines.cassandra.generations import DROPPED, QueueGenerations
from cqs.engines.cassandra.standard_engine import MAX_DELAY_MS, QueueRecords, StandardQueueEngine
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
)
from cqs.engines.pipes.conditional_writes import ConditionalWrites
from cqs.engines.pipes.known_queues import PipesKnownQueue, new_known_queues
from cqs.engines.pipes.names import generations_of
from cqs.engines.pipes.options import OPTIONS, options_of
from cqs.engines.pipes.popper import Popper, WaitingPop
from cqs.engines.pipes.pusher import PushedMessage, Pusher
from cqs.engines.pipes.reaper import Reaper
from cqs.engines.pipes.rows import PipeRows
from cqs.engines.pipes.scan import PipeScan
from cqs.engines.pipes.settlement import Settler
from cqs.engines.pipes.statistics import StatisticsKeeper
from cqs.engines.views import HourStatistics, QueueStatistics, StatisticsView
from cqs.engines.waiters import WaiterRegistry

NAME = "pipes"
POPPERS_MAX = 20_000
IDLE_MS = 1_000
"""After this time without a receive a popper releases its pipes to the poppers of other processes."""


class PipesEngine(StandardQueueEngine, StatisticsView):
    """`open_engine` creates it."""

    capabilities = Capabilities(
        fifo=False,
        update_body=True,
        atomic_settle=False,
        max_delay_ms=MAX_DELAY_MS,
        exact_counts=True,
        fair=False,
        order="nearly",
    )
    options = OPTIONS

    def __init__(self, rows: PipeRows, generations: QueueGenerations, clock: Clock, skew: ClockSkew, node: str) -> None:
        garbage = GarbageList(rows.cassandra, NAME)
        self._known_queues = new_known_queues(generations, clock)
        super().__init__(
            QueueRecords(generations, garbage, rows.expired, rows.retentions),
            self._known_queues,
            WaiterRegistry(clock),
            clock,
        )
        self._rows = rows
        self._skew = skew
        self._node = node
        self._writes = ConditionalWrites(rows.cassandra)
        self._pusher = Pusher(rows, clock, node)
        self._settler = Settler(rows, self._writes)
        self._scan = PipeScan(rows)
        self._keeper = StatisticsKeeper(rows, self._scan)
        self._reaper = Reaper(rows, self._known_queues, self._keeper, garbage, self._pipes_over)
        self._poppers: BoundedCache[str, Popper] = BoundedCache(POPPERS_MAX)

    async def close(self) -> None:
        for queue in self._known_queues:
            popper = self._poppers.get(queue.q.id)
            if popper is not None:
                await popper.close()
        await self._pusher.close()

    # -- sending ------------------------------------------------------------------------------------------------------

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        if not entries:
            return []
        queue = await self._known_queues.get(q)
        pushed = await self._known_queues.send(
            queue, lambda generation: self._pusher.push(q.id, generation, options_of(q).pipe_size, entries, now_ms)
        )
        if pushed is None:
            return [RejectedEntry() for _ in entries]
        self._announce(queue, pushed, entries, now_ms)
        return [SentEntry(entry.id, one.sequence) for entry, one in zip(entries, pushed, strict=True)]

    def _announce(
        self, queue: PipesKnownQueue, pushed: Sequence[PushedMessage], entries: Sequence[Entry], now_ms: int
    ) -> None:
        """Wake waiters of this process: one for each visible message, and one to set a timer for the delayed."""
        visible = [one.location for one, entry in zip(pushed, entries, strict=True) if entry.visible_at_ms <= now_ms]
        popper = self._popper(queue)
        if len(visible) < len(pushed):
            popper.note_delayed({one.location.pipe for one in pushed})
        if queue.q.id not in self._waiters:
            return
        popper.announce(visible)
        self._waiters.wake(queue.q.id, len(visible) + (len(visible) < len(pushed)))

    # -- receiving ----------------------------------------------------------------------------------------------------

    async def receive(
        self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = ""
    ) -> ReceiveResult:
        """`attempt_id` is ignored: it is for FIFO queues only."""
        self._skew.refuse_if_wrong()
        queue = await self._known_queues.get(q)
        if queue.generation == DROPPED:
            return ReceiveResult(dropped=True)
        request = WaitingPop(q=q, options=options_of(q), want=want, visible_at_ms=visible_at_ms, now_ms=now_ms)
        popper = self._popper(queue)
        received = await popper.receive(request)
        if queue.generation == DROPPED:
            return ReceiveResult(dropped=True)
        if popper.generation != queue.generation:  # purged meanwhile
            return ReceiveResult()
        if q.id in self._waiters:
            self._wake_others(q.id, received, want)
        return received

    def _popper(self, queue: PipesKnownQueue) -> Popper:
        popper = self._poppers.get(queue.q.id)
        if popper is None or popper.generation != queue.generation:
            popper = Popper(self._rows, self._writes, self._clock, queue.q.id, queue.generation, self._node)
            self._poppers.put(queue.q.id, popper)
        return popper

    def _wake_others(self, queue_id: str, received: ReceiveResult, want: int) -> None:
        """Wake further waiters: one after a full batch, one when the next message is due."""
        if len(received.messages) + len(received.spent) == want:
            self._waiters.wake(queue_id, 1)
        if received.next_due_ms is not None and queue_id in self._waiters:
            self._waiters.wake_at(queue_id, received.next_due_ms)

    def _pipes_over(self, queue_id: str) -> list[str]:
        popper = self._poppers.get(queue_id)
        return [] if popper is None else popper.over()

    # -- settling -----------------------------------------------------------------------------------------------------

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        queue = await self._known_queues.get_for(q, generations_of(handles))
        settled = await self._settler.delete(q, queue.generation, handles)
        popper = self._poppers.get(q.id)
        for location, outcome in settled:
            if popper is not None and location is not None and outcome is Outcome.DONE:
                popper.note_deleted(location)
        return [outcome for _, outcome in settled]

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        queue = await self._known_queues.get_for(q, generations_of([change.handle for change in changes]))
        changed = await self._settler.change(q, queue.generation, changes)
        popper = self._poppers.get(q.id)
        hidden = 0
        for change, (location, outcome) in zip(changes, changed, strict=True):
            if location is not None and change.visible_at_ms is not None and outcome is Outcome.DONE:
                hidden += 1
                if popper is not None:
                    popper.note_hidden(location, change.visible_at_ms)
        if hidden and q.id in self._waiters:  # a woken waiter receives, or sets a timer
            self._waiters.wake(q.id, hidden)
        return [outcome for _, outcome in changed]

    # -- peek, counts, statistics -------------------------------------------------------------------------------------

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        queue = await self._known_queues.get(q)
        return PeekPage() if queue.generation == DROPPED else await self._scan.peek(q.id, queue.generation, cursor, n)

    async def counts(self, q: QueueRef, now_ms: int, *, oldest: bool = False) -> Counts:
        queue = await self._known_queues.get(q)
        return Counts() if queue.generation == DROPPED else await self._scan.counts(q.id, queue.generation, now_ms)

    async def statistics(self, q: QueueRef) -> QueueStatistics | None:
        """Pushed, popped and their rates, as the reaper last wrote them down."""
        queue = await self._known_queues.get(q)
        return None if queue.generation == DROPPED else await self._keeper.read(q.id, queue.generation)

    async def statistics_by_hour(self, q: QueueRef) -> list[HourStatistics]:
        queue = await self._known_queues.get(q)
        return [] if queue.generation == DROPPED else await self._keeper.read_hours(q.id, queue.generation)

    # -- upkeep -------------------------------------------------------------------------------------------------------

    async def clear_garbage(self, budget: int) -> int:
        return await self._reaper.clear_garbage(budget)

    async def maintain_queues(self, budget: int, now_ms: int) -> int:
        return await self._reaper.reap(budget, now_ms)

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def _poll(self, queue_id: str) -> None:
        known = self._known_queues.find(queue_id)
        if known is None:
            return  # its waiters have not received yet
        queue = await self._known_queues.get(known.q)
        if queue.generation == DROPPED:
            self._waiters.wake_all(queue_id)
            return
        now_ms = self._clock.now_ms()
        popper = self._popper(queue)
        self._waiters.wake(queue_id, await popper.poll(options_of(queue.q), now_ms))
        due_ms = popper.next_due_ms(now_ms)
        if due_ms is not None and queue_id in self._waiters:
            self._waiters.wake_at(queue_id, due_ms)

    async def release_step(self) -> None:
        """Release the pipes of queues from which this process no longer receives."""
        for queue in self._known_queues:
            popper = self._poppers.get(queue.q.id)
            if popper is not None:
                await popper.release_if_idle(IDLE_MS)
