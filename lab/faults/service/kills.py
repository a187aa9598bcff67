"""A kill round: the service under load, SIGKILL at a seeded time or a named point, restart, drain, accounting."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from random import Random

import msgspec

from cns_common.process import kill_points
from lab.faults.accounting.accounting import Account
from lab.faults.accounting.arrivals import Arrivals
from lab.faults.accounting.causes import AFTERMATH_NS, EmbeddedCauses
from lab.faults.accounting.failing_endpoints import DELIVERY_TIMEOUT_S, FailingEndpoints
from lab.faults.accounting.ledger import NS_PER_MS, Ledger
from lab.faults.results import KillResult
from lab.faults.service.clients import LoadClients
from lab.faults.service.drain import Drain
from lab.faults.service.leftovers import find_leftovers
from lab.faults.service.processes import KillOrder, Service, SiteError, copy, running
from lab.faults.service.resources import RoundResources
from lab.faults.service.wire import Refused

VICTIMS: dict[str, tuple[str, ...]] = {"api": ("api",), "worker": ("worker",), "both": ("api", "worker")}
POINTS: dict[str, tuple[str, ...]] = {
    "api": (kill_points.STORE_COMMIT, kill_points.STORE_COMMITTED, kill_points.STORE_CHECKPOINT),
    "worker": (
        kill_points.FIFO_SETTLED,
        kill_points.JOB_DELIVERED,
        kill_points.LANE_DELIVERED,
        kill_points.PUBLISH_FANNED_OUT,
        kill_points.LANE_SETTLED,
        kill_points.JOB_SETTLED,
        kill_points.FIFO_FANNED_OUT,
        kill_points.FIFO_DELIVERED,
        kill_points.PUBLISH_RECEIVED,
        kill_points.PUBLISH_SETTLED,
        kill_points.JOB_CONTINUED,
        kill_points.FIFO_PUBLISHED,
    ),
}
COUNTS: dict[str, tuple[int, int]] = {
    kill_points.STORE_COMMIT: (30, 400),
    kill_points.STORE_COMMITTED: (30, 400),
    kill_points.STORE_CHECKPOINT: (1, 2),
    kill_points.JOB_DELIVERED: (5, 60),
    kill_points.JOB_SETTLED: (5, 60),
    kill_points.LANE_DELIVERED: (1, 15),
    kill_points.LANE_SETTLED: (1, 15),
    kill_points.PUBLISH_FANNED_OUT: (1, 3),
    kill_points.FIFO_FANNED_OUT: (3, 30),
    kill_points.FIFO_DELIVERED: (5, 60),
    kill_points.FIFO_SETTLED: (5, 60),
    kill_points.PUBLISH_RECEIVED: (1, 3),
    kill_points.PUBLISH_SETTLED: (1, 3),
    kill_points.JOB_CONTINUED: (1, 6),
    kill_points.FIFO_PUBLISHED: (3, 30),
}
"""At which passage a kill point kills: lowest and highest number."""
RANDOM_TIME = "random time"
BREAKER_OPENED = "circuit_breaker.opened"
KILL_AFTER_S = (0.5, 4.0)
"""Most are late enough that first deliveries are settled and breakers are open."""
POINT_TIMEOUT_S = 30.0
"""The wait for a kill point to be reached: 400 commits of 75 ms each."""
BEGUN_TIMEOUT_S = 20.0
LOAD_AFTER_S = 1.0
ROUND_TIMEOUT_S = 150.0
POLL_INTERVAL_S = 0.01


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a round, determined by its kind and seed."""

    kind: str
    seed: int
    point: str
    after_s: float
    count: int

    @property
    def place(self) -> str:
        return self.point if self.point == RANDOM_TIME else f"{self.point}:{self.count}"


def plan_round(kind: str, seed: int) -> Plan:
    """Odd seeds have a named kill point, in turn; even seeds a random time."""
    random = Random(f"{kind}-{seed}")
    # reversed, so that a few rounds of each kind cover all points
    points = POINTS.get(kind) or (*reversed(POINTS["worker"]), *POINTS["api"])
    point = points[seed // 2 % len(points)] if seed % 2 else RANDOM_TIME
    low, high = COUNTS.get(point, (0, 0))
    return Plan(
        kind=kind, seed=seed, point=point, after_s=random.uniform(*KILL_AFTER_S), count=random.randint(low, high)
    )


async def kill_round(resources: RoundResources, plan: Plan) -> KillResult:
    began_s = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="cns-kill-"))
    try:
        async with asyncio.timeout(ROUND_TIMEOUT_S):
            assert resources.failing_endpoints is not None
            done = await Round(resources, resources.failing_endpoints, plan, directory).run()
    except (TimeoutError, SiteError, Refused) as error:
        done = KillResult(kind=plan.kind, seed=plan.seed, place=plan.place, faults=[f"broken off: {error!r}"])
    finally:
        shutil.rmtree(directory)
    return msgspec.structs.replace(done, seconds=round(time.monotonic() - began_s, 1))


class Round:
    def __init__(
        self, resources: RoundResources, failing_endpoints: FailingEndpoints, plan: Plan, directory: Path
    ) -> None:
        self._resources = resources
        self._failing_endpoints = failing_endpoints
        self._plan = plan
        self._data = directory / "data"
        latch = directory / "killed"
        self._order = None
        if plan.point != RANDOM_TIME:
            self._order = KillOrder(point=plan.point, count=plan.count, latch=latch)
        self._ledger = Ledger()
        self._arrivals = Arrivals(resources.journal)
        self._clients = LoadClients(resources, self._ledger, Random(plan.seed))
        self._drain = Drain(self._clients, self._ledger, self._arrivals, self._account, followed_s=0)
        self._deaths = {"api": 0, "worker": 0}
        self._reached = True
        self._breakers = 0

    async def run(self) -> KillResult:
        copy(self._resources.data, self._data)
        await self._failing_endpoints.fail()
        with running(self._resources.port, self._data, self._order) as service:
            await service.ready(self._deaths)
            self._clients.start()
            try:
                await self._kill(service)
                await service.ready(self._deaths)
                self._ledger.recovered_ns.append(time.time_ns())
                await asyncio.sleep(LOAD_AFTER_S)
                await self._clients.stop_sending()
                await self._drain_service()
            finally:
                await self._clients.close()
            restarts = service.restarts()
        self._breakers = service.output.count(BREAKER_OPENED)
        faults = find_leftovers(self._data, service.output)
        if restarts != self._deaths:
            faults.append(f"restarts: {restarts}, not {self._deaths}")
        return self._result(faults)

    # -- the crash ----------------------------------------------------------------------------------------------------

    async def _kill(self, service: Service) -> None:
        victims = VICTIMS[self._plan.kind]
        if self._order is None:
            await asyncio.sleep(self._plan.after_s)
        else:
            self._reached = await _appears(self._order.latch)
            if not self._reached:
                self._order.latch.touch()  # so that the point does not kill the restarted process either
        fallen = next((name for name, points in POINTS.items() if self._reached and self._plan.point in points), "")
        killed_ns = [self._order.latch.stat().st_mtime_ns] if self._order and fallen else []
        for name in victims:
            if name != fallen:
                service.kill(name)
                killed_ns.append(time.time_ns())
            self._deaths[name] += 1
        self._ledger.kills_ns.append(killed_ns[0])  # after the first of two kills nothing is settled

    # -- the drain ----------------------------------------------------------------------------------------------------

    async def _drain_service(self) -> None:
        """Wait until every acknowledged message was received; the clock jumps past leases of the killed process."""
        wire = self._resources.wire()
        await self._recover_endpoints()
        await self._delivering()
        await self._drain.run(wire)
        wire.close()

    async def _recover_endpoints(self) -> None:
        """Wait until no delivery hangs: a jump past its job's lease would make another worker deliver it as well."""
        await self._failing_endpoints.recover()
        await asyncio.sleep(DELIVERY_TIMEOUT_S)

    async def _delivering(self) -> None:
        """Wait until the restarted process has delivered something: silence before that does not mean drained."""
        since_ns, until_s = self._ledger.recovered_ns[-1] + AFTERMATH_NS, time.monotonic() + BEGUN_TIMEOUT_S
        while self._arrivals.first_after(since_ns) == since_ns and time.monotonic() < until_s:
            self._arrivals.read()
            await asyncio.sleep(POLL_INTERVAL_S)

    def _account(self) -> Account:
        return Account(self._resources, self._ledger, self._arrivals, EmbeddedCauses(self._ledger))

    def _result(self, faults: list[str]) -> KillResult:
        ledger, account = self._ledger, self._account()
        return KillResult(
            kind=self._plan.kind,
            seed=self._plan.seed,
            place=self._plan.place,
            reached=self._reached,
            failed=self._arrivals.failed,
            breakers=self._breakers,
            dead_letters=len({receipt.id for receipt in ledger.receipts_of(self._failing_endpoints.undelivered)}),
            repeated_ms=account.repeated_ns // NS_PER_MS,
            down_ms=(self._arrivals.first_after(ledger.recovered_ns[0]) - ledger.kills_ns[0]) // NS_PER_MS,
            faults=account.faults + faults,
            **account.counts(),
        )


async def _appears(latch: Path) -> bool:
    until_s = time.monotonic() + POINT_TIMEOUT_S
    while time.monotonic() < until_s:
        if latch.exists():
            return True
        await asyncio.sleep(POLL_INTERVAL_S)
    return False
