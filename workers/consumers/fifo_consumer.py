"""The consumer of FIFO topics: delivers to each subscription in the order of each message group.

A receive brings runs: what one subscription is to get of one group, in its order. Runs go side by side, the jobs of a
run one after another. One that fails stays where it is, hidden until its next attempt: that holds up its group, and
nothing else. What was behind it in the run is given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob, Redelivery
from cns.endpoints.outcome import Outcome
from cns.queue_port.contract import LeasedJob, Renewal
from cns_common.errors import CnsError
from cns_common.process.kill_points import FIFO_DELIVERED, FIFO_SETTLED
from workers.consumers.consumer import SETTLE_AFTER_S
from workers.consumers.job_events import JobFacts
from workers.consumers.outcome_handler import Again, Concluding, Tools
from workers.consumers.running_jobs import UnderWay
from workers.delivery.deliverer import Deliverer
from workers.job_settlement import JobOutcome, JobSettlement, SettlementKillPoints

LEASE_MS = 30_000
JOBS_A_RECEIVE = 10
RUNS_AT_ONCE_MAX = 200
WAIT_S = 20.0
QUEUE = jobs.FIFO_ENDPOINT_JOBS
KILL_POINTS = SettlementKillPoints(begun=FIFO_DELIVERED, settled=FIFO_SETTLED)


class Turn(msgspec.Struct, frozen=True):
    """One job of a run."""

    held: LeasedJob
    job: EndpointJob  # of one subscription
    failures: int
    first_attempt_ms: int
    returns: int
    ended: str  # why no attempt is left, where only the dead-letter queue is

    @property
    def stored_id(self) -> str:
        """Of the stored notification that it counts as a reference to, or ''."""
        return "" if self.job.inline is not None else self.job.notification_id


class FifoConsumer:
    def __init__(self, tools: Tools, deliverer: Deliverer) -> None:
        self._tools = tools
        self._deliverer = deliverer
        self._under_way = UnderWay(QUEUE, tools.stats, RUNS_AT_ONCE_MAX)
        self._settlement = JobSettlement(QUEUE, tools.port, tools.references, tools.stats, KILL_POINTS)

    async def step(self) -> None:
        n = min(JOBS_A_RECEIVE, await self._under_way.room())
        runs: dict[str, list[LeasedJob]] = {}
        for held in await self._tools.port.receive(QUEUE, n, LEASE_MS, WAIT_S):
            runs.setdefault(held.group, []).append(held)
        for run in runs.values():
            self._under_way.start(self._run(run))

    async def drain(self, grace_s: float) -> int:
        """Let runs under way end; the rest are given back at once. Returns how many those were."""
        return await self._under_way.drain(grace_s)

    async def _run(self, run: Sequence[LeasedJob]) -> None:
        turns: list[Turn] = []
        for held in run:
            turn = _turn(held, self._tools.clock.now_ms())
            expected = turn.failures + turn.returns
            if not await self._tools.quarantine.takes(QUEUE, held, turn.job.topic, expected=expected):
                turns.append(turn)
        if turns:
            await Run(turns, self._tools, self._settlement, self._deliverer).run()


class Run:
    """From their leases to their settlement."""

    def __init__(self, turns: Sequence[Turn], tools: Tools, settlement: JobSettlement, deliverer: Deliverer) -> None:
        self._left = list(turns)
        self._tools = tools
        self._settlement = settlement
        self._deliverer = deliverer
        self._done: list[Turn] = []
        self._settled_s = _now_s()
        self._held_until_ms = tools.clock.now_ms() + LEASE_MS

    async def run(self) -> None:
        try:
            while self._left and self._tools.clock.now_ms() < self._held_until_ms:  # else another may have what is left
                again = await self._attempt(self._left[0])
                if again is not None:
                    await self._wait_for(again)
                    return
                self._done.append(self._left.pop(0))
                if _now_s() - self._settled_s >= SETTLE_AFTER_S:
                    await self._settle()
            await self._settle_rest()
        except asyncio.CancelledError:
            await self._settle([Renewal(QUEUE, turn.held.handle, 0) for turn in self._left])
            raise
        except CnsError:  # a store is away: what was sent before is not to be sent again for that
            await self._settle_rest()
            raise

    async def _attempt(self, turn: Turn) -> Again | None:
        """None when the job's target is done with."""
        job = turn.job
        tools = self._tools
        facts = JobFacts(tools.stats, tools.events, tools.clock, job, turn.failures, tools.delivery_log)
        (arn,) = job.subscriptions
        target = next((one for one in await self._tools.targets.find([arn]) if one.confirmed), None)
        if target is None:
            facts.dropped(arn, "subscription_gone")
            return None
        found = job.inline or await self._tools.notifications.get(job.notification_id)
        if found is None:
            facts.dropped(arn, "notification_lost")
            return None
        notification = replace(found, sequence_number=job.sequence_number)
        facts.known(notification)
        concluding = Concluding(self._tools, self._deliverer, facts, turn.failures, turn.first_attempt_ms)
        if turn.ended:
            return await concluding.end(target, turn.ended, notification)
        outcome = await self._outcome(self._deliverer.start(target, notification))
        facts.attempted(target, outcome)
        return await concluding.of(target, outcome, notification)

    async def _outcome(self, attempt: asyncio.Future[Outcome]) -> Outcome:
        """While one attempt takes long, those before it are settled, and the leases last."""
        while not attempt.done():
            await asyncio.wait([attempt], timeout=SETTLE_AFTER_S)
            if not attempt.done():
                await self._renew()
        return attempt.result()

    async def _renew(self) -> None:
        now_ms = self._tools.clock.now_ms()
        await self._settle([Renewal(QUEUE, turn.held.handle, LEASE_MS) for turn in self._left])
        if now_ms < self._held_until_ms:  # what has run out is not brought back
            self._held_until_ms = now_ms + LEASE_MS

    async def _wait_for(self, again: Again) -> None:
        """The first job left stays, hidden until its next attempt; those behind it count that they were not tried."""
        first, *rest = self._left
        returns = first.returns + bool(first.ended)
        body = jobs.encode(Redelivery(first.job, again.failures, first.first_attempt_ms, returns, again.ended))
        await self._settle(
            [
                Renewal(QUEUE, first.held.handle, again.delay_ms, body),
                *(Renewal(QUEUE, turn.held.handle, 0, _returned(turn)) for turn in rest),
            ]
        )

    async def _settle_rest(self) -> None:
        if self._done:
            await self._settle()

    async def _settle(self, renewals: Sequence[Renewal] = ()) -> None:
        done, self._done = self._done, []
        await self._settlement.settle([JobOutcome(turn.held.handle, turn.stored_id) for turn in done], renewals)
        self._settled_s = _now_s()


def _turn(held: LeasedJob, now_ms: int) -> Turn:
    job = jobs.decode(held.body)
    failures, first_attempt_ms, returns, ended = 0, now_ms, 0, ""
    if isinstance(job, Redelivery):
        failures, first_attempt_ms, returns, ended = job.failures, job.first_attempt_ms, job.returns, job.ended
        job = job.job
    assert isinstance(job, EndpointJob)  # nothing else is put there
    return Turn(held, job, failures, first_attempt_ms, returns, ended)


def _returned(turn: Turn) -> bytes:
    return jobs.encode(Redelivery(turn.job, turn.failures, turn.first_attempt_ms, turn.returns + 1, turn.ended))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
