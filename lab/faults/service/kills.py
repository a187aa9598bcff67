"""A kill round: the service under load, SIGKILL at a seeded time or a named point, restart, drain, accounting."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from cns_common.process import kill_points
from lab.faults.accounting.causes import AFTERMATH_NS, EmbeddedCauses
from lab.faults.accounting.failing_endpoints import DELIVERY_TIMEOUT_S, FailingEndpoints
from lab.faults.accounting.ledger import NS_PER_MS, Ledger
from lab.faults.results import KillResult
from lab.faults.service.clients import LoadClients
from lab.faults.service.leftovers import find_leftovers
from lab.faults.service.resources import ResourceMaker, RoundResources
from lab.faults.service.round import Round, finish
from lab.harness.ports import free_port
from lab.harness.processes import credentials_in
from lab.harness.running import Up, start

VICTIMS: dict[str, tuple[str, ...]] = {"api": ("api",), "worker": ("worker",), "both": ("api", "worker")}
POINTS: dict[str, dict[str, tuple[int, int]]] = {
    "api": {
        kill_points.STORE_COMMIT: (30, 400),
        kill_points.STORE_COMMITTED: (30, 400),
        kill_points.STORE_CHECKPOINT: (1, 2),
    },
    "worker": {
        kill_points.FIFO_SETTLED: (5, 60),
        kill_points.JOB_DELIVERED: (5, 60),
        kill_points.LANE_DELIVERED: (1, 15),
        kill_points.PUBLISH_FANNED_OUT: (1, 3),
        kill_points.LANE_SETTLED: (1, 15),
        kill_points.JOB_SETTLED: (5, 60),
        kill_points.FIFO_FANNED_OUT: (3, 30),
        kill_points.FIFO_DELIVERED: (5, 60),
        kill_points.PUBLISH_RECEIVED: (1, 3),
        kill_points.PUBLISH_SETTLED: (1, 3),
        kill_points.JOB_CONTINUED: (1, 6),
        kill_points.FIFO_PUBLISHED: (3, 30),
    },
}
"""By victim. At which passage a point kills: lowest and highest number."""
RANDOM_TIME = "random time"
BREAKER_OPENED = "circuit_breaker.opened"
KILL_AFTER_S = (0.5, 4.0)
"""Most are late enough that first deliveries are settled and breakers are open."""
POINT_TIMEOUT_S = 30.0
"""The wait for a kill point to be reached: 400 commits of 75 ms each."""
BEGUN_TIMEOUT_S = 20.0
OUTPUT_SHOWN = 3_000
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
    points = POINTS.get(kind) or dict(reversed(POINTS["worker"].items())) | POINTS["api"]
    point = list(points)[seed // 2 % len(points)] if seed % 2 else RANDOM_TIME
    low, high = points.get(point, (0, 0))
    return Plan(
        kind=kind, seed=seed, point=point, after_s=random.uniform(*KILL_AFTER_S), count=random.randint(low, high)
    )


async def set_up(directory: Path, receiver: str, journal: Path) -> RoundResources:
    """Start the service on new data, make the resources, and stop the service."""
    async with _service(directory / "service", free_port()) as service:
        await _ready(service, {"api": 0, "worker": 0})
        maker = ResourceMaker(service.process.port, credentials_in(service.said()), receiver, journal)
        return await asyncio.to_thread(lambda: maker.add_failing_endpoints(maker.make(service.data)))


async def kill_round(resources: RoundResources, plan: Plan) -> KillResult:
    planned = KillResult(kind=plan.kind, seed=plan.seed, place=plan.place, faults=[])
    with tempfile.TemporaryDirectory(prefix="cns-kill-") as directory:
        return await finish(KillRound(resources, plan, Path(directory)).run(), ROUND_TIMEOUT_S, planned)


class KillRound(Round):
    clock_followed_s = 0
    """One process has the clock."""

    def __init__(self, resources: RoundResources, plan: Plan, directory: Path) -> None:
        ledger = Ledger()
        super().__init__(resources, ledger, EmbeddedCauses(ledger), LoadClients(resources, ledger, Random(plan.seed)))
        assert resources.failing_endpoints is not None
        self._failing_endpoints: FailingEndpoints = resources.failing_endpoints
        self._plan = plan
        self._data = directory / "data"
        self._latch = directory / "killed" if plan.point != RANDOM_TIME else None
        """The process makes this file before it dies at the plan's point."""
        self._deaths = {"api": 0, "worker": 0}
        self._reached = True
        self._service: Up

    async def run(self) -> dict[str, Any]:
        ignored = shutil.ignore_patterns("*.socket", "lock", "processes.json")  # files of processes
        shutil.copytree(self.resources.data, self._data, ignore=ignored)
        self._failing_endpoints.fail()
        order = {kill_points.VARIABLE: f"{self._plan.place}:{self._latch}"} if self._latch else {}
        async with _service(self._data, self.resources.port, **order) as self._service:
            await _ready(self._service, self._deaths)
            await self.load()
            restarts = _restarts(self._service)
        faults = find_leftovers(self._data, self._service.said())
        if restarts != self._deaths:
            faults.append(f"restarts: {restarts}, not {self._deaths}")
        ledger, account = self.ledger, self.account()
        return {
            "reached": self._reached,
            "failed": self.arrivals.failed,
            "breakers": self._service.said().count(BREAKER_OPENED),
            "dead_letters": len({letter.id for letter in ledger.receipts_of(self._failing_endpoints.undelivered)}),
            "repeated_ms": account.repeated_ns // NS_PER_MS,
            "down_ms": (self.arrivals.first_after(ledger.recovered_ns[0]) - ledger.kills_ns[0]) // NS_PER_MS,
            "faults": account.faults + faults,
            **account.counts(),
        }

    # -- the crash ----------------------------------------------------------------------------------------------------

    async def inject_faults(self) -> None:
        """Kill the victims. Returns when the service has recovered."""
        if self._latch is None:
            await asyncio.sleep(self._plan.after_s)
        else:
            self._reached = await _appears(self._latch)
            if not self._reached:
                self._latch.touch()  # so that the point does not kill the restarted process either
        fallen = next((name for name, points in POINTS.items() if self._reached and self._plan.point in points), "")
        killed_ns = [self._latch.stat().st_mtime_ns] if self._latch and fallen else []
        pids = {status.name: status.pid for status in self._service.supervised()}
        for name in VICTIMS[self._plan.kind]:
            if name != fallen:
                with suppress(ProcessLookupError):
                    os.kill(pids[name], signal.SIGKILL)
                killed_ns.append(time.time_ns())
            self._deaths[name] += 1
        self.ledger.kills_ns.append(killed_ns[0])  # after the first of two kills nothing is settled
        await _ready(self._service, self._deaths)
        self.ledger.recovered_ns.append(time.time_ns())

    # -- the drain ----------------------------------------------------------------------------------------------------

    async def prepare_drain(self) -> None:
        """Wait until no delivery hangs: a jump past its job's lease would make another worker deliver it as well. Then
        wait until the restarted process has delivered something: silence before that does not mean drained."""
        self._failing_endpoints.recover()
        await asyncio.sleep(DELIVERY_TIMEOUT_S)
        since_ns, until_s = self.ledger.recovered_ns[-1] + AFTERMATH_NS, time.monotonic() + BEGUN_TIMEOUT_S
        while self.arrivals.first_after(since_ns) == since_ns and time.monotonic() < until_s:
            self.arrivals.read()
            await asyncio.sleep(POLL_INTERVAL_S)


@asynccontextmanager
async def _service(data: Path, port: int, **settings: str) -> AsyncIterator[Up]:
    """Run the service within the block; at its end stop the service, so that its data can be copied."""
    environment = {"CNS_DELIVERY_TIMEOUT_S": str(DELIVERY_TIMEOUT_S), **settings}
    service = start(data, "--test-clock", port=port, environment=environment)
    try:
        yield service
    finally:
        code = await asyncio.to_thread(service.stop)
    assert code == 0, f"the service ended with {code}: {service.said()[-OUTPUT_SHOWN:]}"


async def _ready(service: Up, restarts: dict[str, int]) -> None:
    """Wait until the numbers of restarts are `restarts`, the API answers, and a running worker has reported."""
    await asyncio.to_thread(
        service.process.wait_until, lambda: _restarts(service) == restarts and service.answers("/ready")
    )


def _restarts(service: Up) -> dict[str, int]:
    return {status.name: status.restarts for status in service.supervised()}


async def _appears(latch: Path) -> bool:
    until_s = time.monotonic() + POINT_TIMEOUT_S
    while time.monotonic() < until_s:
        if latch.exists():
            return True
        await asyncio.sleep(POLL_INTERVAL_S)
    return False
