"""The consumer of the lanes: what an endpoint had no room for when it was due.

A lane is a group of one FIFO queue: who holds its head holds all of it, so that one worker alone tries an endpoint
whose breaker is open, or keeps a subscription's pace, whatever the others do. While there is no room the head is hidden
until there may be some; what lies behind it costs nothing. What failed here goes on as a redelivery of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import NamedTuple

import structlog

from cns.delivery import jobs
from cns.delivery.jobs import Redelivery
from cns.delivery.retry_policy import lifetime_s
from cns.delivery.target import Target
from cns.endpoints.outcome import Outcome
from cns.queue_port.contract import LeasedJob, NewJob, Renewal
from cns_common.errors import CnsError
from cns_common.metrics.catalogue import LANES_WAITING
from cns_common.metrics.model import Sample
from cns_common.process.kill_points import LANE_DELIVERED, LANE_SETTLED
from workers.consumers.consumer import SETTLE_AFTER_S
from workers.consumers.hidden_lanes import LaneHeads
from workers.consumers.job_attempts import JobSends, taken_up
from workers.consumers.outcome_handler import Again, Concluding, Tools
from workers.consumers.running_jobs import UnderWay
from workers.delivery.deliverer import Deliverer
from workers.delivery.traffic.admission import Traffic
from workers.delivery.traffic.sends import Aside, Attempt
from workers.job_settlement import JobOutcome, JobSettlement, SettlementKillPoints

LEASE_MS = 60_000
RENEW_S = 20.0
PARK_AFTER_S = 0.05
COME_SOON_S = 0.5
"""A head that is hidden for less than this is not shown before."""
SHOWN_A_STEP = 100
JOBS_A_RECEIVE_MAX = 10
"""One, as long as endpoints have room for one: the rest of a lane would be read, decoded and given back in vain."""
RUNS_AT_ONCE_MAX = 16
"""Without those that only wait for an answer. What was put aside comes back in waves, and is not to be in the way of
what is due now."""
WAIT_S = 20.0
QUEUE = jobs.LANES
KILL_POINTS = SettlementKillPoints(begun=LANE_DELIVERED, settled=LANE_SETTLED, continued=LANE_SETTLED)

log = structlog.get_logger(__name__)


class Lanes:
    def __init__(self, tools: Tools, deliverer: Deliverer, traffic: Traffic) -> None:
        self._tools = tools
        self._deliverer = deliverer
        self._traffic = traffic
        self._under_way = UnderWay(QUEUE, tools.stats, RUNS_AT_ONCE_MAX)
        self._settlement = JobSettlement(QUEUE, tools.port, tools.references, tools.stats, KILL_POINTS)
        self._jobs_a_receive = JOBS_A_RECEIVE_MAX
        self._heads = LaneHeads()
        self._woken: list[str] = []
        self._showing: asyncio.Task[None] | None = None
        traffic.room_again.append(self._wake)

    async def step(self) -> None:
        n = min(self._jobs_a_receive, await self._under_way.room())
        runs: dict[str, list[LeasedJob]] = {}
        for held in await self._tools.port.receive(QUEUE, n, LEASE_MS, WAIT_S):
            runs.setdefault(held.group, []).append(held)
        for run in runs.values():
            self._under_way.start(self._run(run))

    def samples(self) -> list[Sample]:
        return [LANES_WAITING.sample(len(self._heads))]

    async def drain(self, grace_s: float) -> int:
        """Let runs under way end; the rest are given back at once. Returns how many those were."""
        return await self._under_way.drain(grace_s)

    async def _run(self, run: Sequence[LeasedJob]) -> None:
        turns = [self._turn(held) for held in run]
        one = Run(turns, self._tools, self._settlement, self._traffic, self._hide, self._under_way.park)
        await one.run()
        doubled, halved = self._jobs_a_receive * 2, self._jobs_a_receive // 2
        self._jobs_a_receive = min(doubled, JOBS_A_RECEIVE_MAX) if one.flowed else max(halved, 1)

    def _turn(self, held: LeasedJob) -> Turn:
        redelivery = jobs.decode(held.body)
        assert isinstance(redelivery, Redelivery)  # nothing else is put there
        job, failures, first_ms = redelivery.job, redelivery.failures, redelivery.first_attempt_ms
        sends, concluding = taken_up(job, failures, first_ms, self._tools, self._deliverer, self._traffic)
        return Turn(held, failures, first_ms, sends, concluding)

    def _hide(self, blocked: Blocked, head: LeasedJob) -> None:
        """Said of a lane's head, which is hidden by now."""
        now_s = _now_s()
        self._heads.add(blocked.key, head.group, head.handle, now_s)
        if now_s + self._traffic.wait_s(blocked.key) < blocked.until_s - COME_SOON_S:
            self._wake(blocked.key)

    def _wake(self, key: str) -> None:
        """The endpoint has room again, or it is known when it will."""
        self._woken += self._heads.take(key)
        if self._woken and (self._showing is None or self._showing.done()):
            self._showing = asyncio.create_task(self._show())

    async def _show(self) -> None:
        """Many in one step: the end of one hanging send may make room for hundreds."""
        while self._woken:
            handles, self._woken = self._woken[:SHOWN_A_STEP], self._woken[SHOWN_A_STEP:]
            try:
                await self._tools.port.settle(QUEUE, renewals=[Renewal(QUEUE, handle, 0) for handle in handles])
            except CnsError as error:  # they come by themselves a little later
                log.info("lanes.wake_failed", lanes=len(handles), error=str(error))


@dataclass(frozen=True, slots=True)
class Turn:
    """One job of a run: of one target."""

    held: LeasedJob
    failures: int
    first_ms: int
    sends: JobSends
    concluding: Concluding


class Blocked(NamedTuple):
    """Until when, by the loop's time; with a key: unless the endpoint has room again before."""

    until_s: float
    key: str = ""


NOT_BLOCKED = Blocked(0.0)
Hide = Callable[[Blocked, LeasedJob], None]


class Run:
    """What was received of one lane, from leases to settlement. `hide` is told of a head that waits for room. `park` is
    called when only slow answers are waited for."""

    def __init__(
        self,
        turns: Sequence[Turn],
        tools: Tools,
        settlement: JobSettlement,
        traffic: Traffic,
        hide: Hide,
        park: Callable[[], None],
    ) -> None:
        self._left = list(turns)
        self._tools = tools
        self._settlement = settlement
        self._traffic = traffic
        self._hide = hide
        self._park = park
        self._open: dict[Attempt, tuple[Turn, Target]] = {}
        self._answered: list[Attempt] = []
        self._done: list[tuple[Turn, NewJob | None]] = []
        self._leased_s = _now_s()
        self.flowed = True
        """There was room for all of them, at once or soon."""

    async def run(self) -> None:
        try:
            while True:
                blocked = await self._start_what_may()
                if not self._open:
                    break
                await self._wait()
                await self._collect()
            self.flowed = not blocked.key
            await self._settle(self._rest(blocked))
            if blocked.key:
                self._hide(blocked, self._left[0].held)
        except asyncio.CancelledError:
            await self._conclude_ended()
            turns = [*[turn for turn, _ in self._open.values()], *self._left]
            await self._settle([Renewal(QUEUE, turn.held.handle, 0) for turn in turns])
            raise

    async def _wait(self) -> None:
        """Until all are answered, or it is time to settle those that are."""
        _, pending = await asyncio.wait(self._open, timeout=PARK_AFTER_S)
        if pending:
            self._park()
            await asyncio.wait(pending, timeout=SETTLE_AFTER_S - PARK_AFTER_S)

    async def _start_what_may(self) -> Blocked:
        """Begin as many as there is room for."""
        while self._left:
            turn = self._left[0]
            target = next(iter(await turn.sends.targets()), None)
            if target is None:  # and that was counted
                self._done.append((self._left.pop(0), None))
            elif self._tools.clock.now_ms() > turn.first_ms + lifetime_s(target.retry) * 1000:
                await self._give_up(self._left.pop(0), target)
            else:
                blocked = self._blocked(turn, target)
                if blocked is not NOT_BLOCKED:
                    return blocked
                self._begin(turn, target)
        return NOT_BLOCKED

    def _blocked(self, turn: Turn, target: Target) -> Blocked:
        key = turn.sends.traffic_key(target)
        wait_s = self._traffic.wait_s(key) if key else 0.0
        if wait_s > 0:
            return Blocked(_now_s() + wait_s, key)
        if target.receives_per_second is None:
            return NOT_BLOCKED
        wait_s = self._traffic.take_turn(target.arn, target.receives_per_second, len(self._left))
        return Blocked(_now_s() + wait_s) if wait_s > 0 else NOT_BLOCKED

    def _begin(self, turn: Turn, target: Target) -> None:
        attempt = turn.sends.start_from_lane(target)
        attempt.add_done_callback(partial(self._attempted, turn, target))
        self._open[attempt] = (self._left.pop(0), target)

    def _attempted(self, turn: Turn, target: Target, attempt: Attempt) -> None:
        self._answered.append(attempt)
        if not attempt.cancelled() and attempt.exception() is None:
            outcome = attempt.result()
            if not isinstance(outcome, Aside):
                turn.concluding.attempted(target, outcome)

    async def _collect(self) -> None:
        """Conclude what was answered; keep the leases of the rest."""
        await self._conclude_ended()
        renewals: list[Renewal] = []
        if _now_s() - self._leased_s >= RENEW_S:
            self._leased_s = _now_s()
            held = [*[turn for turn, _ in self._open.values()], *self._left]
            renewals = [Renewal(QUEUE, turn.held.handle, LEASE_MS) for turn in held]
        await self._settle(renewals)

    async def _conclude_ended(self) -> None:
        answered, self._answered = self._answered, []  # not whatever is done: it may not have been told of yet
        for attempt in answered:
            turn, target = self._open.pop(attempt)
            if (error := attempt.exception()) is None:
                await self._conclude(turn, target, attempt.result())
            else:
                self._hand_over(turn, target, error)

    def _hand_over(self, turn: Turn, target: Target, error: BaseException) -> None:
        """What crashes would hold up its lane. The other queue's jobs are counted by how often they crash."""
        log.error("lane.crashed", subscription=target.arn, exc_info=error)
        self._tools.stats.crashed(QUEUE)
        self._end(turn, target, Again(turn.failures, 0))

    async def _conclude(self, turn: Turn, target: Target, outcome: Outcome | Aside) -> None:
        if isinstance(outcome, Aside):  # there was room for it, and no more
            self._left.insert(0, turn)
            return
        self._end(turn, target, await turn.concluding.of(target, outcome, turn.sends.notification))

    async def _give_up(self, turn: Turn, target: Target) -> None:
        why = "deadline_while_open" if target.receives_per_second is None else "deadline_while_throttled"
        self._end(turn, target, await turn.concluding.end(target, why, turn.sends.notification))

    def _end(self, turn: Turn, target: Target, again: Again | None) -> None:
        self._done.append((turn, None if again is None else turn.sends.again(target, again)))

    def _rest(self, blocked: Blocked) -> list[Renewal]:
        """The head stays hidden, and with it the lane; what is behind it is given back."""
        hidden_ms = max(ceil((blocked.until_s - _now_s()) * 1000), 0)
        return [
            Renewal(QUEUE, turn.held.handle, hidden_ms if place == 0 else 0) for place, turn in enumerate(self._left)
        ]

    async def _settle(self, renewals: Sequence[Renewal]) -> None:
        done, self._done = self._done, []
        if not (done or renewals):
            return
        outcomes = [
            JobOutcome(turn.held.handle, turn.sends.stored_id, () if put is None else (put,)) for turn, put in done
        ]
        await self._settlement.settle(outcomes, renewals)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
