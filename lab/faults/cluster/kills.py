"""A round of the cluster form: one process is killed under load and restarted later; then drain and accounting."""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any

from lab.faults.accounting.causes import ClusterCauses
from lab.faults.accounting.ledger import NS_PER_MS, Ledger, SentMessage
from lab.faults.cluster.leftovers import Leftovers, Logs
from lab.faults.cluster.plan import NODE, PERMITTED_CAUSES, WORKER, ClusterPlan
from lab.faults.cluster.site import Site
from lab.faults.results import ClusterResult
from lab.faults.service.clients import LoadClients
from lab.faults.service.resources import RoundResources
from lab.faults.service.round import Round, advance, finish

REST_S = 12.0
"""Deletes under way are finished by then."""
ROUND_TIMEOUT_S = 240.0
STANDS_STILL_S = 3.0
"""An outage of this length must not block all sends."""
RECEIVE_MAX = 10
WORKER_LEAVES_MAX = 200
"""Bodies a killed worker may leave: ten jobs of each of four groups in three queues, and the jobs of ten fan-outs."""


async def cluster_round(site: Site, resources: RoundResources, plan: ClusterPlan) -> ClusterResult:
    planned = ClusterResult(kind=plan.kind, seed=plan.seed, place=plan.place, faults=[])
    return await finish(ClusterRound(site, resources, plan).run(), ROUND_TIMEOUT_S, planned)


class ClusterRound(Round):
    """A round leaves all processes running, the queues empty and the clock ahead."""

    load_after_s = 2.0

    def __init__(self, site: Site, resources: RoundResources, plan: ClusterPlan) -> None:
        ledger = Ledger()
        clients = LoadClients(resources, ledger, Random(plan.seed), f"{plan.kind}-{plan.seed}-")
        super().__init__(resources, ledger, ClusterCauses(ledger, PERMITTED_CAUSES[plan.kind]), clients)
        self._site = site
        self._plan = plan
        self._logs = Logs(site.cluster)
        self._leftovers: Leftovers

    async def run(self) -> dict[str, Any]:
        wire = self.resources.wire()
        self.ledger.clock_offset_ms = await advance(wire, 0)
        wire.close()
        self._leftovers = await Leftovers.open(self._site.place, self.ledger)
        try:
            await self.load()
            faults = await self._leftovers.messages(REST_S)
            bodies = await self._leftovers.bodies()
        finally:
            await self._leftovers.close()
        self.arrivals.read()
        self.ledger.failures_ns += self._logs.failures_ns()
        faults += [
            *self._logs.complaints(),
            *[f"ended: {name}, which was not killed" for name in self._site.ended()],
            *self._stalled(),
            *self._unreferenced_bodies(bodies),
        ]
        account = self.account()
        waits = [message.acknowledged_ns - message.began_ns for message in self._messages()]
        return {
            "down_ms": self._down_ns() // NS_PER_MS,
            "wait_ms": max(waits) // NS_PER_MS,
            "bodies": bodies,
            "faults": account.faults + faults,
            **account.counts(),
        }

    async def inject_faults(self) -> None:
        kind, victim = self._plan.kind, self._plan.victim
        await asyncio.sleep(self._plan.after_s)
        self.ledger.kills_ns.append(time.time_ns())
        await asyncio.to_thread(self._site.kill, kind, victim)
        try:
            await asyncio.sleep(self._plan.outage_s)
        finally:  # the ring is used after an aborted round
            await asyncio.to_thread(self._site.start_again, kind, victim)
        self.ledger.recovered_ns.append(time.time_ns())

    async def is_empty(self) -> bool:
        """Whether no row is left, not even that of a send without an answer."""
        return not await self._leftovers.left()

    # -- findings -----------------------------------------------------------------------------------------------------

    def _stalled(self) -> list[str]:
        """While one process is down the others must accept sends."""
        if self._plan.outage_s < STANDS_STILL_S:
            return []
        ((kill, back),) = self.ledger.outages
        targets = {self.resources.standard, self.resources.fifo, self.resources.news, self.resources.ordered}
        through = {
            target
            for target in targets
            for message in self.ledger.of(target)
            if kill < message.began_ns and message.acknowledged_ns < back
        }
        return [f"stalled: no send to {target} got through meanwhile" for target in sorted(targets - through)]

    def _unreferenced_bodies(self, bodies: int) -> list[str]:
        """Calls without an answer leave bodies that no log names, and so do calls that end while the store is down. A
        worker sends, settles and delivers to the FIFO topic's queues itself."""
        ledger, resources = self.ledger, self.resources
        targets = (*resources.fifo_queues, resources.ordered)
        deletes = sum(receipt.unknown_deletes for queue in targets for receipt in ledger.receipts_of(queue))
        cut_off = (
            sum(ledger.unknown_outcomes(target) for target in targets) + deletes + ledger.unknown_receives * RECEIVE_MAX
        )
        cut_off += WORKER_LEAVES_MAX if self._plan.kind == WORKER else 0
        return (
            [f"left: {bodies} bodies, more than calls without an answer explain"]
            if bodies > cut_off and self._plan.kind != NODE
            else []
        )

    def _messages(self) -> list[SentMessage]:
        return [message for of_target in self.ledger.sent.values() for message in of_target.values()]

    def _down_ns(self) -> int:
        """From the kill until a send begun after it was acknowledged and a publish begun after it was delivered."""
        (kill,) = self.ledger.kills_ns
        after = [message for message in self._messages() if message.began_ns > kill]
        sends = [message.acknowledged_ns for message in after]
        arrivals = [at for message in after for id_ in message.ids for at in self.arrivals.times(id_)]
        return max(min(sends, default=kill), min(arrivals, default=kill)) - kill
