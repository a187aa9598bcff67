"""Claims on buckets: without Redis, only the process with the claim leases a bucket's messages.

A claim is a conditional row. A process takes it when it receives from the queue and releases it when it stops. It is
valid while the process renews its heartbeat, a row that expires after `HEARTBEAT_TTL_S`.
"""

from __future__ import annotations

from collections.abc import Iterable

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.cluster.lease import LeaseTimes
from cns_common.cluster.membership import MemberRows, Membership
from cns_common.errors import CnsError
from cqs.engines.cluster import schema
from cqs.engines.cluster.ids import generation_prefix

HEARTBEAT_MS = 1_000
HEARTBEAT_TTL_S = 6
ALIVE_CACHE_MS = 1_000
CERTAIN_MS = 4_000
"""After this time without a heartbeat a process must assume that it lost its claims."""

_ROWS = MemberRows(schema.HEARTBEAT, schema.END_HEARTBEAT, HEARTBEAT_TTL_S, LeaseTimes(CERTAIN_MS, HEARTBEAT_MS))


class BucketClaims:
    def __init__(self, cassandra: Cassandra, clock: Clock, node: str) -> None:
        self._cassandra = cassandra
        self._clock = clock
        self._node = node
        self._membership = Membership(cassandra, clock, _ROWS, node)
        self._alive: set[str] = set()  # as last read; some may have died since
        self._looked_ms = -ALIVE_CACHE_MS

    async def heartbeat(self) -> bool:
        """Returns whether no other process can have taken over a claim of this one since the last heartbeat."""
        return await self._membership.renew()

    async def end_heartbeat(self) -> None:
        """Release all claims of this process."""
        await self._membership.leave()

    @property
    def is_certain(self) -> bool:
        """Whether no other process can have taken over this one's claims."""
        return self._membership.lease.is_certain

    async def owners(self, queue_id: str, generation: int) -> dict[str, str]:
        """Process by bucket, including dead processes."""
        rows = await self._cassandra.run(schema.LIST_CLAIMS, queue_id, generation_prefix(generation))
        return {str(bucket): str(node) for bucket, node in rows}

    async def owns(self, queue_id: str, generation: int, buckets: Iterable[str]) -> bool:
        """Whether this process has the claims on all these buckets."""
        owners = await self.owners(queue_id, generation)
        return all(owners.get(bucket) == self._node for bucket in buckets)

    async def claim(self, queue_id: str, bucket: str, owner: str | None) -> bool:
        """Try to claim the bucket, last seen with `owner`. Returns whether this process has it."""
        if owner == self._node:
            return True
        if owner is None:
            return await self._cassandra.run_conditional(schema.CLAIM, queue_id, bucket, self._node)
        if await self._is_alive(owner):
            return False
        return await self._cassandra.run_conditional(schema.CLAIM_FROM, self._node, queue_id, bucket, owner)

    async def _is_alive(self, node: str) -> bool:
        now_ms = self._clock.monotonic_ms()
        if node not in self._alive or now_ms - self._looked_ms > ALIVE_CACHE_MS:
            self._alive, self._looked_ms = await self._read_alive(), now_ms
        return node in self._alive

    async def _read_alive(self) -> set[str]:
        return {row[0] for row in await self._cassandra.run(schema.LIST_ALIVE)}

    async def release(self, queue_id: str, buckets: Iterable[str]) -> set[str]:
        """Release the claims. Returns the buckets for which that failed: try again, since others cannot take them
        meanwhile."""
        left = set()
        for bucket in buckets:
            try:
                await self._cassandra.run_conditional(schema.UNCLAIM, queue_id, bucket, self._node)
            except CnsError:
                left.add(bucket)
        return left
