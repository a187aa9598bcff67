"""Repairs the buckets that the reader has left, one after the other, from the repair pointer on.

A message that was written after the seal and that no reader found is republished under a new number; unused numbers
remain unused. Then the bucket is finalized, and removed as soon as its messages are acknowledged.

One process repairs a queue, by a lease, which only saves work: if it ends while a repairer is stopped, the repairer's
conditional writes fail, or repeat what its successor wrote.
"""

from __future__ import annotations

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.cluster.lease import Lease, LeaseTimes
from cns_common.errors import OutcomeUnknown
from cqs.engines.cassieq import schema
from cqs.engines.cassieq.bucket import CassieqMessageRow, MessageBucket, Repair, repair_of, to_republish
from cqs.engines.cassieq.bucket_writes import BucketWrites, acknowledge, move
from cqs.engines.cassieq.ids import bucket_of
from cqs.engines.cassieq.known_queues import CassieqKnownQueue
from cqs.engines.cassieq.monotons import Monotons
from cqs.engines.cassieq.options import id_range, repair_wait_ms
from cqs.engines.cassieq.pointers import Pointer, QueuePointers
from cqs.engines.cassieq.rows import CassieqRows, NewRow
from cqs.engines.waiters import WaiterRegistry

_TIMES = LeaseTimes(certain_ms=schema.REPAIRER_S * 2000 // 3, renew_ms=schema.REPAIRER_S * 1000 // 3)


class RepairLeases:
    """The queues that this process repairs."""

    def __init__(self, cassandra: Cassandra, clock: Clock, node: str) -> None:
        self._cassandra = cassandra
        self._clock = clock
        self._node = node
        self._leases: dict[str, Lease] = {}

    async def hold(self, key: str) -> bool:
        """Take or keep the lease. Returns whether this process has it."""
        lease = self._leases.get(key) or Lease(self._clock, _TIMES)
        if not lease.is_due:
            return True
        if await lease.extend(self._ask(key)):
            self._leases[key] = lease
        else:
            self._leases.pop(key, None)
        return lease.held

    async def _ask(self, key: str) -> bool:
        try:
            held = await self._cassandra.run_conditional(schema.KEEP_REPAIR, self._node, key, self._node)
            return held or await self._cassandra.run_conditional(schema.TAKE_REPAIR, self._node, key)
        except OutcomeUnknown:
            return False

    async def release_all(self) -> None:
        for key in list(self._leases):
            del self._leases[key]
            await self._cassandra.run_conditional(schema.LEAVE_REPAIR, key, self._node)


class Repairer:
    def __init__(
        self,
        rows: CassieqRows,
        writes: BucketWrites,
        monotons: Monotons,
        pointers: QueuePointers,
        leases: RepairLeases,
        waiters: WaiterRegistry,
    ) -> None:
        self._rows = rows
        self._writes = writes
        self._monotons = monotons
        self._pointers = pointers
        self._leases = leases
        self._waiters = waiters
        self.republished = 0
        self.finalized = 0

    async def repair(self, known: CassieqKnownQueue, n: int, now_ms: int) -> int:
        """Repair up to `n` buckets. Returns how many were finalized."""
        number = await self._pointers.read(known.key, Pointer.REPAIR)
        done = 0
        while number < known.reader and done < n:
            if not await self._leases.hold(known.key):
                break
            bucket = await self._rows.bucket(known.key, number)
            step = repair_of(bucket, repair_wait_ms(known.q), now_ms)
            if step is Repair.WAIT:
                break
            if step is Repair.REPUBLISH:
                await self._republish(known, bucket, now_ms)
                continue
            if not bucket.live and bucket.rows:
                await self._rows.remove_rows(known.key, number)
            number = await self._pointers.move(known.key, Pointer.REPAIR, number, number + 1)
            self.finalized += 1
            done += 1
        return done

    async def _republish(self, known: CassieqKnownQueue, bucket: MessageBucket, now_ms: int) -> None:
        """Write the new number into the old row first: any process that finishes the move repeats the same insert."""
        for row in to_republish(bucket, now_ms):
            moved_to = row.moved_to if row.moved_to is not None else await self._reserve(known, bucket, row)
            if moved_to is None:
                continue  # it was received or taken back meanwhile
            body = (await self._rows.bodies(known.key, {bucket.number: [row.monoton]})).get(row.monoton)
            if body is not None:
                target = bucket_of(moved_to, known.size)
                await self._rows.insert(known.key, target, [_copy(row, moved_to, body)])
            done = acknowledge(row.monoton, schema.MOVED, row.tag)
            await self._writes.apply(known.key, bucket.number, [done])
            self.republished += 1
            self._waiters.wake(known.q.id, 1)

    async def _reserve(self, known: CassieqKnownQueue, bucket: MessageBucket, row: CassieqMessageRow) -> int | None:
        (number,) = await self._monotons.take(known.key, 1, id_range(known.q), known.size)
        (result,) = await self._writes.apply(known.key, bucket.number, [move(row, number)])
        return number if result.applied else None


def _copy(row: CassieqMessageRow, monoton: int, body: bytes) -> NewRow:
    return NewRow(
        monoton,
        row.id,
        body,
        row.born_at_ms,
        row.tenant,
        row.tag,
        row.visible_at_ms,
        row.deliveries,
        row.first_at_ms,
    )
