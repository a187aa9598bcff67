"""The reaper, which any process may run, several at a time: finishes the pipes of pushers that are gone, removes
expired messages, adds empty pipes to the statistics and removes them, and clears up after purges and drops."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cqs.engines.cassandra.garbage import Garbage, GarbageList
from cqs.engines.cassandra.known_queues import MaintenanceTurns
from cqs.engines.pipes import schema
from cqs.engines.pipes.known_queues import KnownQueues, PipesKnownQueue
from cqs.engines.pipes.names import PipeLocation, start_of
from cqs.engines.pipes.rows import ListedPipe, PipeRows
from cqs.engines.pipes.statistics import StatisticsKeeper

QUEUES_AT_ONCE = 50
"""Queues of this process per step. Each costs a few statements even if there is nothing to do."""
EXAMINED_AT_ONCE = 20
"""Pipes of a queue that a step examines in turn, beside those that are over for the popper."""


class Reaper:
    """`over` returns the finished pipes of a queue in which this process knows of no messages."""

    def __init__(
        self,
        rows: PipeRows,
        known_queues: KnownQueues,
        keeper: StatisticsKeeper,
        garbage: GarbageList,
        over: Callable[[str], Iterable[str]],
    ) -> None:
        self._rows = rows
        self._turns = MaintenanceTurns(known_queues, QUEUES_AT_ONCE)
        self._keeper = keeper
        self._garbage = garbage
        self._over = over

    async def clear_garbage(self, budget: int) -> int:
        """Remove the pipes that purges and drops left, of all queues."""
        return await self._garbage.clear(self._clear, budget)

    async def _clear(self, garbage: Garbage, budget: int) -> int:
        done = 0
        while done < budget:
            limit = min(budget - done, schema.PAGE_ROWS)
            pipes = await self._rows.pipes_below(garbage.queue_id, garbage.below, limit)
            for pipe in pipes:
                await self._rows.clear(garbage.queue_id, pipe)
            done += len(pipes)
            if len(pipes) < limit:
                break
        return done

    async def reap(self, budget: int, now_ms: int) -> int:
        """Maintain some of the queues that this process uses. Returns how many messages and pipes were removed."""
        return await self._turns.step(lambda queue, left: self._reap_queue(queue, left, now_ms), budget)

    async def _reap_queue(self, queue: PipesKnownQueue, budget: int, now_ms: int) -> int:
        pipes = await self._rows.all_pipes(queue.q.id, queue.generation)
        done = await self._expire(queue, pipes, budget, now_ms)
        over = set(self._over(queue.q.id))
        in_turn = [pipe for pipe in pipes if pipe.name > queue.examined] or pipes
        examined = [pipe for pipe in pipes if pipe.name in over or pipe in in_turn[:EXAMINED_AT_ONCE]]
        queue.examined = in_turn[:EXAMINED_AT_ONCE][-1].name if in_turn else ""
        for pipe in examined:
            if done >= budget:
                break
            done += await self._examine(queue, pipe, now_ms)
        if pipes:
            await self._keeper.write_down(queue.q.id, queue.generation, len(pipes), now_ms)
        return done

    async def _expire(self, queue: PipesKnownQueue, pipes: Iterable[ListedPipe], budget: int, now_ms: int) -> int:
        """Remove expired messages, oldest pipes first."""
        q, oldest_ms, done = queue.q, now_ms - queue.q.retention_ms, 0
        if any(start_of(pipe.name) <= oldest_ms for pipe in pipes):
            oldest_ms = await self._rows.retentions.oldest_ms(queue, now_ms)
        for pipe in pipes:
            if done >= budget or start_of(pipe.name) > oldest_ms:
                break
            waiting = [
                row[0]
                for row in await self._rows.waiting(q.id, pipe.name)
                if row[2] is not None and row[2] <= oldest_ms
            ]
            pending = [
                row[0]
                for row in await self._rows.pending(q.id, pipe.name)
                if row[3] is not None and row[3] <= oldest_ms
            ]
            expired = sorted({*waiting, *pending})[: budget - done]
            if expired:
                await self._rows.expire(q, [PipeLocation(pipe.name, place) for place in expired], now_ms)
            done += len(expired)
        return done

    async def _examine(self, queue: PipesKnownQueue, pipe: ListedPipe, now_ms: int) -> int:
        """Advance a pipe: to PF if its pusher is gone, to E if no message waits. Remove it if no message is left."""
        key, state = (queue.q.id, pipe.name), pipe.state
        if state == schema.ACTIVE and not await self._finish(queue.q.id, pipe.name, now_ms):
            return 0
        if state != schema.EMPTY:
            if await self._rows.cassandra.run(schema.FIND_WAITING, *key):
                return 0
            await self._rows.cassandra.run(schema.MARK_EMPTY, *key)
            await self._rows.hint(*key, schema.EMPTY)
        pending = await self._rows.pending(*key)
        settled = [PipeLocation(pipe.name, row[0]) for row in pending if row[1] in (None, schema.SETTLED)]
        if settled:  # their deletes did not end
            await self._rows.delete(queue.q.id, settled)
        if len(settled) < len(pending):
            return 0
        if births := await self._rows.births(*key):
            await self._index_again(queue.q.id, pipe.name, births, now_ms)
            return 0
        await self._keeper.roll_up(queue.q.id, queue.generation, pipe.name)
        await self._rows.clear(*key)
        return 1

    async def _finish(self, queue_id: str, pipe: str, now_ms: int) -> bool:
        """Finish a pipe on which no pusher has a lease. Returns whether it is finished."""
        descriptor = await self._rows.describe(queue_id, pipe)
        state = None if descriptor is None else descriptor.state
        if state in (None, schema.ACTIVE):
            if now_ms - start_of(pipe) < schema.PIPE_PUSH_MS_MAX:  # this only saves statements: the write decides
                return False
            finish = schema.FINISH_LEFT if state else schema.FINISH_UNKNOWN
            if not await self._rows.cassandra.run_conditional(finish, queue_id, pipe):
                return False
        await self._rows.hint(queue_id, pipe, schema.FINISHED)
        return True

    async def _index_again(self, queue_id: str, pipe: str, births: dict[int, int], now_ms: int) -> None:
        """Restore messages that neither wait nor are pending: a pop was written in part, on a node that was lost. (If
        it is still under way, the message is delivered twice.)"""
        waiting = {row[0] for row in await self._rows.waiting(queue_id, pipe)}
        for place, born_at_ms in births.items():
            if place not in waiting:
                await self._rows.cassandra.run_conditional(
                    schema.INDEX_AGAIN, queue_id, pipe, place, now_ms, born_at_ms
                )
