"""The background work of one process: it renews its lease as a live process and checks the queues that it owns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from cns_common.cassandra.background_work import MEMBERSHIP, background
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import CnsError
from cns_common.metrics.catalogue import (
    BACKGROUND_STATEMENTS,
    LIVE_PROCESSES,
    OWNED_QUEUES,
    RECONCILE_LAG_SECONDS,
    RECONCILE_REPAIRS,
)
from cns_common.metrics.model import Sample
from cqs.engines.cluster.known_queues import ClusterKnownQueues
from cqs.engines.cluster.ownership.owned_queues import OwnedQueues
from cqs.engines.cluster.ownership.owner_checks import OwnerChecks
from cqs.engines.cluster.ownership.processes import LiveProcesses
from cqs.engines.cluster.reconciler import Reconciler

ROWS_PER_ROUND = 500


class BackgroundWork:
    """`announce_use` tells the other processes of new uses in a slice."""

    def __init__(
        self,
        cassandra: Cassandra,
        clock: Clock,
        processes: LiveProcesses,
        owned: OwnedQueues,
        checks: OwnerChecks,
        reconciler: Reconciler,
        known_queues: ClusterKnownQueues,
        announce_use: Callable[[int], None],
    ) -> None:
        self._cassandra = cassandra
        self._clock = clock
        self.processes = processes
        self._owned = owned
        self._checks = checks
        self._reconciler = reconciler
        self._known_queues = known_queues
        self._announce_use = announce_use
        self._working = asyncio.Lock()

    async def start(self) -> None:
        """Become a live process before any queue is used: others would take this one for dead."""
        with suppress(CnsError):  # tried again each second
            await self.renew()

    async def renew(self) -> None:
        """Renew the lease of this process. This must not wait for other work."""
        with background(MEMBERSHIP):
            await self.processes.step()

    async def round(self) -> None:
        async with self._working:
            await self._refresh()
            with background("reconcile"):
                await self._reconciler.step()
            with background("maintain"):
                await self._checks.step(ROWS_PER_ROUND, self._clock.now_ms(), paced=True)

    async def maintain(self, budget: int, now_ms: int) -> int:
        """Check all owned queues that are due."""
        async with self._working:
            await self._refresh()
            with background("maintain"):
                return await self._checks.step(budget, now_ms, paced=False)

    async def _refresh(self) -> None:
        used_slices, self._known_queues.used_slices = self._known_queues.used_slices, set()
        self._owned.schedule_read(used_slices)
        for number in used_slices:
            self._announce_use(number)
        with background("uses"):
            self._reconciler.add_undone(await self._owned.refresh())
        sends, self._known_queues.sends = self._known_queues.sends, {}
        for queue_id, at_ms in sends.items():
            queue = self._owned.get(queue_id)
            if queue is not None:
                queue.hasten(at_ms + queue.q.retention_ms)

    async def leave(self) -> None:
        """Leave the live processes: the others take over."""
        done = await self._reconciler.close()
        with background(MEMBERSHIP), suppress(CnsError):  # then the lease expires
            await self.processes.leave(undone=not done)

    def samples(self) -> list[Sample]:
        statements = self._cassandra.background_statements
        return [
            RECONCILE_REPAIRS.sample(self._reconciler.repairs),
            RECONCILE_LAG_SECONDS.sample(self._reconciler.lag_ms / 1000),
            LIVE_PROCESSES.sample(len(self.processes.live)),
            OWNED_QUEUES.sample(len(self._owned)),
            *[BACKGROUND_STATEMENTS.sample(count, work=work) for work, count in sorted(statements.items())],
        ]
