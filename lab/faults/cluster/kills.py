"""A round of the cluster form: one process is killed under load and restarted later; then drain and accounting."""

from __future__ import annotations

import asyncio
import time
from random import Random

import msgspec

from lab.faults.accounting.accounting import Account
from lab.faults.accounting.arrivals import Arrivals
from lab.faults.accounting.causes import ClusterCauses
from lab.faults.accounting.ledger import NS_PER_MS, Ledger, SentMessage
from lab.faults.cluster.leftovers import Leftovers, Logs
from lab.faults.cluster.plan import NODE, PERMITTED_CAUSES, WORKER, ClusterPlan
from lab.faults.cluster.processes import Site
from lab.faults.results import ClusterResult
from lab.faults.service.clients import LoadClients
from lab.faults.service.drain import Drain, advance
from lab.faults.service.processes import SiteError
from lab.faults.service.resources import RoundResources
from lab.faults.service.wire import Refused, Wire

LOAD_AFTER_S = 2.0
CLOCK_FOLLOWED_S = 1.2
"""Processes poll every second for jumps of the clock."""
REST_S = 12.0
"""Deletes under way are finished by then."""
ROUND_TIMEOUT_S = 240.0
STANDS_STILL_S = 3.0
"""An outage of this length must not block all sends."""
RECEIVE_MAX = 10
WORKER_LEAVES_MAX = 200
"""Bodies a killed worker may leave: ten jobs of each of four groups in three queues, and the jobs of ten fan-outs."""


async def cluster_round(site: Site, resources: RoundResources, plan: ClusterPlan) -> ClusterResult:
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(ROUND_TIMEOUT_S):
            done = await ClusterRound(site, resources, plan).run()
    except (TimeoutError, SiteError, Refused, AssertionError) as error:
        done = ClusterResult(kind=plan.kind, seed=plan.seed, place=plan.place, faults=[f"broken off: {error!r}"])
    return msgspec.structs.replace(done, seconds=round(time.monotonic() - began_s, 1))


class ClusterRound:
    """A round leaves all processes running, the queues empty and the clock ahead."""

    def __init__(self, site: Site, resources: RoundResources, plan: ClusterPlan) -> None:
        self._site = site
        self._resources = resources
        self._plan = plan
        self._ledger = Ledger()
        self._causes = ClusterCauses(self._ledger, PERMITTED_CAUSES[plan.kind])
        self._arrivals = Arrivals(resources.journal)
        self._clients = LoadClients(resources, self._ledger, Random(plan.seed), f"{plan.kind}-{plan.seed}-")
        self._drain = Drain(self._clients, self._ledger, self._arrivals, self._account, CLOCK_FOLLOWED_S)
        self._logs = Logs(site.cluster)

    async def run(self) -> ClusterResult:
        wire = self._resources.wire()
        self._ledger.clock_offset_ms = await advance(wire, 0)
        leftovers = await Leftovers.open(self._site.place, self._ledger)
        try:
            await self._load(wire, leftovers)
            faults = await leftovers.messages(REST_S)
            bodies = await leftovers.bodies()
        finally:
            await leftovers.close()
        self._arrivals.read()
        self._ledger.failures_ns += self._logs.failures_ns()
        faults += [
            *self._logs.complaints(),
            *self._unexpected_ends(),
            *self._stalled(),
            *self._unreferenced_bodies(bodies),
        ]
        return msgspec.structs.replace(self._result(faults), bodies=bodies)

    async def _load(self, wire: Wire, leftovers: Leftovers) -> None:
        self._clients.start()
        try:
            await self._inject_fault()
            await asyncio.sleep(LOAD_AFTER_S)
            await self._clients.stop_sending()
            await self._drain_service(wire, leftovers)
        finally:
            await self._clients.close()
            wire.close()

    async def _inject_fault(self) -> None:
        kind, victim = self._plan.kind, self._plan.victim
        await asyncio.sleep(self._plan.after_s)
        self._ledger.kills_ns.append(time.time_ns())
        await asyncio.to_thread(self._site.kill, kind, victim)
        try:
            await asyncio.sleep(self._plan.outage_s)
        finally:  # the ring is used after an aborted round
            await asyncio.to_thread(self._site.start_again, kind, victim)
        self._ledger.recovered_ns.append(time.time_ns())

    # -- the drain ----------------------------------------------------------------------------------------------------

    async def _drain_service(self, wire: Wire, leftovers: Leftovers) -> None:
        """Wait until every acknowledged message was received and no row is left, not even that of a send without an
        answer; the clock jumps past leases of the killed process."""

        async def is_empty() -> bool:
            return not await leftovers.left()

        await self._drain.run(wire, is_empty)

    # -- findings -----------------------------------------------------------------------------------------------------

    def _account(self) -> Account:
        return Account(self._resources, self._ledger, self._arrivals, self._causes)

    def _unexpected_ends(self) -> list[str]:
        return [f"ended: {name}, which was not killed" for name in self._site.ended()]

    def _stalled(self) -> list[str]:
        """While one process is down the others must accept sends."""
        if self._plan.outage_s < STANDS_STILL_S:
            return []
        ((kill, back),) = self._ledger.outages
        targets = {self._resources.standard, self._resources.fifo, self._resources.news, self._resources.ordered}
        through = {
            target
            for target in targets
            for message in self._ledger.of(target)
            if kill < message.began_ns and message.acknowledged_ns < back
        }
        return [f"stalled: no send to {target} got through meanwhile" for target in sorted(targets - through)]

    def _unreferenced_bodies(self, bodies: int) -> list[str]:
        """Calls without an answer leave bodies that no log names, and so do calls that end while the store is down. A
        worker sends, settles and delivers to the FIFO topic's queues itself."""
        ledger, resources = self._ledger, self._resources
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
        return [message for of_target in self._ledger.sent.values() for message in of_target.values()]

    def _result(self, faults: list[str]) -> ClusterResult:
        account = self._account()
        waits = [message.acknowledged_ns - message.began_ns for message in self._messages()]
        return ClusterResult(
            kind=self._plan.kind,
            seed=self._plan.seed,
            place=self._plan.place,
            down_ms=self._down_ns() // NS_PER_MS,
            wait_ms=max(waits) // NS_PER_MS,
            faults=account.faults + faults,
            **account.counts(),
        )

    def _down_ns(self) -> int:
        """From the kill until a send begun after it was acknowledged and a publish begun after it was delivered."""
        (kill,) = self._ledger.kills_ns
        after = [message for message in self._messages() if message.began_ns > kill]
        sends = [message.acknowledged_ns for message in after]
        arrivals = [at for message in after for id_ in message.ids for at in self._arrivals.times(id_)]
        return max(min(sends, default=kill), min(arrivals, default=kill)) - kill
