"""Clean-up in bounded steps: slots of purged and dropped queues, expired messages, slots that are empty for good."""

from __future__ import annotations

from cns_common.cassandra.session import Consistency
from cns_common.clock import Clock
from cqs.engines.bdqs import schema
from cqs.engines.bdqs.consistency import QueueConsistency
from cqs.engines.bdqs.expired import BdqsExpiredMessages
from cqs.engines.bdqs.ids import IndexRow, generation_of, generation_prefix, window_start
from cqs.engines.bdqs.index import QueueIndex
from cqs.engines.bdqs.known_queues import BdqsKnownQueue, KnownQueues
from cqs.engines.bdqs.messages import Messages
from cqs.engines.bdqs.positions import Positions
from cqs.engines.cassandra.garbage import Garbage, GarbageList
from cqs.engines.cassandra.known_queues import MaintenanceTurns

QUEUES_AT_ONCE = 50
"""Queues of this process per step. Each costs a few statements even if there is nothing to do."""
RETIRE_CHECKS = 4
ROWS_AT_ONCE = 100


class BdqsMaintenance:
    def __init__(
        self,
        index: QueueIndex,
        messages: Messages,
        positions: Positions,
        expired: BdqsExpiredMessages,
        garbage: GarbageList,
        known_queues: KnownQueues,
        clock: Clock,
    ) -> None:
        self._index = index
        self._messages = messages
        self._positions = positions
        self._expired = expired
        self._garbage = garbage
        self._turns = MaintenanceTurns(known_queues, QUEUES_AT_ONCE)
        self._clock = clock

    async def clear_garbage(self, budget: int) -> int:
        """Remove the messages and slots that purges and drops left, of all queues."""
        return await self._garbage.clear(self._clear, budget)

    async def _clear(self, garbage: Garbage, budget: int) -> int:
        done, queue_id = 0, garbage.queue_id
        while done < budget:
            slots = await self._index.slots(queue_id, "", generation_prefix(garbage.below))
            slots = [slot for slot in slots if generation_of(slot) < garbage.below]
            if not slots:
                return done
            for slot in slots:
                done += await self._clear_slot(queue_id, slot, budget - done)
                if done >= budget:
                    return budget
        return budget

    async def _clear_slot(self, queue_id: str, slot: str, budget: int) -> int:
        """Remove a slot with its messages. The slot itself counts as one."""
        done = 0
        while done < budget:
            entries = await self._index.read(queue_id, slot, None, min(budget - done, ROWS_AT_ONCE), Consistency.QUORUM)
            if not entries:
                await self._index.empty(queue_id, slot)
                await self._index.retire(queue_id, slot)
                return done + 1
            await self._messages.delete_all(queue_id, {entry.message for entry in entries})
            await self._index.remove(queue_id, entries, QueueConsistency.QUORUM)
            done += len(entries)
        return done

    async def maintain_queues(self, budget: int, now_ms: int) -> int:
        """Remove expired messages and empty slots of some of the queues that this process uses. Returns how many."""

        async def maintain(queue: BdqsKnownQueue, left: int) -> int:
            done = await self.expire(queue, left, now_ms)
            return done + (await self._retire_empty(queue, left - done, now_ms) if done < left else 0)

        return await self._turns.step(maintain, budget)

    async def expire(self, queue: BdqsKnownQueue, budget: int, now_ms: int) -> int:
        """Remove messages that became visible before the retention period. Others that are too old are removed by the
        receive that meets them."""
        done = 0
        async for slot in self._index.all_slots(queue.q.id, queue.generation):
            oldest_ms = now_ms - queue.q.retention_ms
            if window_start(slot) - schema.WINDOW_MS > oldest_ms:
                break
            while done < budget:
                limit = min(budget - done, ROWS_AT_ONCE)
                entries = await self._index.read(queue.q.id, slot, None, limit, queue.mode.level)
                old = [entry for entry in entries if entry.position.due_ms <= oldest_ms]
                removed = await self._expire_entries(queue, old, now_ms)
                done += removed
                if len(old) < limit or not removed:
                    break
        return done

    async def _expire_entries(self, queue: BdqsKnownQueue, entries: list[IndexRow], now_ms: int) -> int:
        """Returns how many positions were removed."""
        keys = list(dict.fromkeys(entry.message for entry in entries))
        rows = await self._messages.read(queue.q.id, keys, queue.mode) if keys else {}
        expired = await self._expired.among(queue, rows, now_ms)
        if expired:
            await self._expired.remove(queue, expired, now_ms)
        missing = [key for key in keys if key not in rows]
        gone = await self._messages.confirmed_missing(queue.q.id, missing, queue.mode)
        removed = [entry for entry in entries if entry.message in expired or entry.message in gone]
        await self._positions.remove(queue, removed)
        return len(removed)

    async def _retire_empty(self, queue: BdqsKnownQueue, budget: int, now_ms: int) -> int:
        """Remove slots that are empty and so old that no process writes to them. Each call examines those in which
        receives of this process found nothing, and a few others, in turn."""
        before_ms = min(now_ms, self._clock.now_ms()) - schema.RETIRE_MS - schema.WINDOW_MS
        first, end = generation_prefix(queue.generation), generation_prefix(queue.generation + 1)
        old = [slot for slot in await self._index.slots(queue.q.id, first, end) if window_start(slot) <= before_ms]
        level = Consistency.QUORUM if queue.mode.sees_deletes else Consistency.ALL
        turn = [slot for slot in old if slot > queue.last_examined] or old
        some = turn[:RETIRE_CHECKS]
        if some:
            queue.last_examined = some[-1]
        found_empty = queue.picker.views.found_empty()
        done = 0
        for slot in dict.fromkeys([*some, *(slot for slot in old if slot in found_empty)][:budget]):
            if not await self._index.read(queue.q.id, slot, None, 1, level):
                await self._index.retire(queue.q.id, slot)
                done += 1
        return done
