"""A round of the cluster form: one part killed under load and started again later, drain, accounting."""

from __future__ import annotations

import asyncio
import time
from random import Random

import msgspec

from faults.accounting.accounting import Account
from faults.accounting.arrivals import Arrivals
from faults.accounting.causes import Cluster as ClusterCauses
from faults.accounting.ledger import NS_PER_MS, Ledger, Letter
from faults.cluster.plan import ACCEPTED, NODE, WORKER, ClusterPlan
from faults.cluster.processes import ClusterProcesses
from faults.cluster.remains import Logs, Remains
from faults.results import ClusterResult
from faults.service.clients import Clients
from faults.service.processes import ProcessError
from faults.service.resources import JUMP_S, RoundResources
from faults.service.wire import OutcomeOpen, Refused, Wire

LOAD_AFTER_S = 2.0
QUIET_S = 2.0
"""After so long without an arrival, what is still missing waits for a lease to run out: a worker settles within a
second, and a message of the expiring queue is hidden for one."""
FINAL_POLL_S = 1.0
JUMPS_MAX = 8
CLOCK_FOLLOWED_S = 1.2
"""Processes that were not told of a jump look for it every second."""
REST_S = 12.0
"""A reconciler looks every two seconds for what is five seconds old."""
ROUND_TIMEOUT_S = 240.0
STANDS_STILL_S = 3.0
"""Who is away for so long must not have kept all sends waiting."""
POLL_INTERVAL_S = 0.02
RECEIVE_MAX = 10
WORKER_LEAVES_MAX = 200
"""Bodies: a run of ten jobs for each of four groups in three queues, and what ten publishes are fanned out into."""


async def cluster_round(
    cluster_processes: ClusterProcesses, resources: RoundResources, plan: ClusterPlan
) -> ClusterResult:
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(ROUND_TIMEOUT_S):
            done = await ClusterRound(cluster_processes, resources, plan).run()
    except (TimeoutError, ProcessError, Refused, AssertionError) as error:
        done = ClusterResult(kind=plan.kind, seed=plan.seed, place=plan.place, faults=[f"broken off: {error!r}"])
    return msgspec.structs.replace(done, seconds=round(time.monotonic() - began_s, 1))


class ClusterRound:
    """Afterwards all processes run, the queues are empty and the clock is ahead."""

    def __init__(self, cluster_processes: ClusterProcesses, resources: RoundResources, plan: ClusterPlan) -> None:
        self._processes = cluster_processes
        self._resources = resources
        self._plan = plan
        self._ledger = Ledger()
        self._causes = ClusterCauses(self._ledger, ACCEPTED[plan.kind])
        self._arrivals = Arrivals(resources.journal)
        self._clients = Clients(resources, self._ledger, Random(plan.seed), f"{plan.kind}-{plan.seed}-")
        self._logs = Logs(cluster_processes.cluster)

    async def run(self) -> ClusterResult:
        wire = self._resources.wire()
        self._ledger.ahead_ms = await _advance(wire, 0)
        remains = await Remains.open(self._processes.place, self._ledger)
        try:
            await self._load(wire)
            faults = await remains.messages(REST_S)
            bodies = await remains.bodies()
        finally:
            await remains.close()
        self._arrivals.read()
        self._ledger.failures_ns += self._logs.failures_ns()
        faults += [*self._logs.complaints(), *self._dead(), *self._stood_still(), *self._unnamed(bodies)]
        return msgspec.structs.replace(self._result(faults), bodies=bodies)

    async def _load(self, wire: Wire) -> None:
        self._clients.start()
        try:
            await self._hurt()
            await asyncio.sleep(LOAD_AFTER_S)
            await self._clients.stop_sending()
            await self._drain(wire)
        finally:
            await self._clients.close()
            wire.close()

    async def _hurt(self) -> None:
        kind, victim = self._plan.kind, self._plan.victim
        await asyncio.sleep(self._plan.after_s)
        self._ledger.kills_ns.append(time.time_ns())
        await asyncio.to_thread(self._processes.kill, kind, victim)
        try:
            await asyncio.sleep(self._plan.away_s)
        finally:  # a ring outlives a round that is broken off
            await asyncio.to_thread(self._processes.start_again, kind, victim)
        self._ledger.back_ns.append(time.time_ns())

    # -- the drain ----------------------------------------------------------------------------------------------------

    async def _drain(self, wire: Wire) -> None:
        """Until all that was acknowledged has come out. Leases of the dead end early: the clock is moved past them."""
        for _ in range(JUMPS_MAX):
            if await self._quiet():
                break
            await self._jump(wire)
        else:
            await self._quiet()
        await self._jump(wire)  # what must not come back gets its chance to
        await self._quiet(FINAL_POLL_S)

    async def _jump(self, wire: Wire) -> None:
        await self._clients.pause()
        self._ledger.jumps_ns.append(time.time_ns())
        await _advance(wire, JUMP_S)
        await asyncio.sleep(CLOCK_FOLLOWED_S)
        self._clients.resume()

    async def _quiet(self, quiet_s: float = QUIET_S) -> bool:
        """Wait until nothing comes any more; whether nothing is missing then."""
        last_s, seen = time.monotonic(), 0
        while time.monotonic() - last_s < quiet_s:
            if self._arrivals.read() or len(self._ledger.receipts) != seen:
                last_s, seen = time.monotonic(), len(self._ledger.receipts)
            if self._clients.failed():
                return True  # `close` says what it was
            await asyncio.sleep(POLL_INTERVAL_S)
        return not self._account().missing

    # -- findings -----------------------------------------------------------------------------------------------------

    def _account(self) -> Account:
        return Account(self._resources, self._ledger, self._arrivals, self._causes)

    def _dead(self) -> list[str]:
        return [f"ended: {name}, which nobody killed" for name in self._processes.dead()]

    def _stood_still(self) -> list[str]:
        """While one part is away the others must go on."""
        if self._plan.away_s < STANDS_STILL_S:
            return []
        ((kill, back),) = self._ledger.falls
        targets = {self._resources.standard, self._resources.fifo, self._resources.news, self._resources.ordered}
        through = {
            target
            for target in targets
            for letter in self._ledger.of(target)
            if kill < letter.began_ns and letter.acknowledged_ns < back
        }
        return [f"stood still: no send to {target} got through meanwhile" for target in sorted(targets - through)]

    def _unnamed(self, bodies: int) -> list[str]:
        """Bodies without a message are left by calls that were cut off, or when the store was away as they ended. A
        worker sends, settles and delivers to the FIFO topic's queues itself."""
        ledger, resources = self._ledger, self._resources
        targets = (*resources.fifo_queues, resources.ordered)
        deletes = sum(receipt.deletes_open for queue in targets for receipt in ledger.receipts_of(queue))
        cut_off = sum(ledger.opened(target) for target in targets) + deletes + ledger.receives_open * RECEIVE_MAX
        cut_off += WORKER_LEAVES_MAX if self._plan.kind == WORKER else 0
        return [f"left: {bodies} bodies that no call left"] if bodies > cut_off and self._plan.kind != NODE else []

    def _letters(self) -> list[Letter]:
        return [letter for target in self._targets for letter in self._ledger.of(target)]

    @property
    def _targets(self) -> tuple[str, ...]:
        resources = self._resources
        return (
            resources.standard,
            resources.fifo,
            resources.expiring,
            resources.news,
            resources.wide,
            resources.ordered,
        )

    def _result(self, faults: list[str]) -> ClusterResult:
        resources, ledger = self._resources, self._ledger
        account = self._account()
        topics = (resources.news, resources.wide, resources.ordered)
        came = {
            receipt.id
            for queue in (resources.letters, *resources.ordered_queues)
            for receipt in ledger.receipts_of(queue)
        }
        waits = [letter.acknowledged_ns - letter.began_ns for letter in self._letters()]
        return ClusterResult(
            kind=self._plan.kind,
            seed=self._plan.seed,
            place=self._plan.place,
            messages=sum(
                ledger.acknowledged(queue) for queue in (resources.standard, resources.fifo, resources.expiring)
            ),
            notifications=sum(ledger.acknowledged(topic) for topic in topics),
            in_order=ledger.acknowledged(resources.ordered),
            deliveries=self._arrivals.count + len(came),
            unanswered=sum(ledger.opened(target) for target in self._targets),
            down_ms=self._down_ns() // NS_PER_MS,
            wait_ms=max(waits) // NS_PER_MS,
            duplicates={cause: n for cause, n in account.duplicates.items() if n},
            faults=account.faults + faults,
        )

    def _down_ns(self) -> int:
        """From the kill until a send that began after it was acknowledged, and a publish that did arrived."""
        (kill,) = self._ledger.kills_ns
        after = [letter for letter in self._letters() if letter.began_ns > kill]
        sends = [letter.acknowledged_ns for letter in after]
        arrivals = [at for letter in after for id_ in letter.ids for at in self._arrivals.times(id_)]
        return max(min(sends, default=kill), min(arrivals, default=kill)) - kill


async def _advance(wire: Wire, seconds: int) -> int:
    """Move the test clock; returns how far it has been moved in all."""
    body = msgspec.json.encode({"advance_s": seconds})
    while True:
        try:
            answer = await wire.post("/_cns/clock", body)
        except OutcomeOpen:
            await asyncio.sleep(POLL_INTERVAL_S)
        else:
            return msgspec.json.decode(answer, type=dict[str, int])["offset_ms"]
