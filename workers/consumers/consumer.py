"""The consumer: delivers endpoint jobs, and settles them so that no target is lost and few are sent to twice.

A job is settled three quarters of a second after its first result, after 25 results, and when it is done: what remains
is written into the job it still holds, each failed target becomes a redelivery of its own, each that its endpoint had
no room for goes into its lane, in one step. So the death of a worker repeats no send that was answered more than a
second before it. Jobs that are ready for it at about the same time are settled together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from cns.delivery import jobs
from cns.delivery.jobs import TARGETS_MAX, Redelivery, TargetJob, group_of
from cns.delivery.target import Target
from cns.endpoints.outcome import Outcome
from cns.queue_port.contract import LeasedJob, NewJob
from cns_common.process.kill_points import JOB_CONTINUED, JOB_DELIVERED, JOB_REFERRED, JOB_SETTLED
from workers.consumers.debounce import Beat
from workers.consumers.job_attempts import JobSends, taken_up
from workers.consumers.job_order import JobOrder, JobTurn
from workers.consumers.outcome_handler import Concluding, Tools
from workers.consumers.running_jobs import UnderWay
from workers.delivery.deliverer import Deliverer
from workers.delivery.traffic.admission import Traffic
from workers.delivery.traffic.sends import Aside, Attempt
from workers.job_settlement import JobOutcome, JobSettlement, SettlementKillPoints

LEASE_MS = 30_000
RENEW_S = 10.0
PARK_AFTER_S = 0.2
"""Sooner than an answer is overdue: a second's jobs whose endpoints hang are more than may be busy at once."""
SETTLE_AFTER_S = 0.75
"""After an answer: so that a second after it the settlement is written, too, and no death of a worker repeats it."""
SETTLE_AFTER_RESULTS = 25
TOGETHER_S = 0.02
"""Nobody waits for a settlement, and each alone wakes two processes and takes a commit."""
JOBS_A_RECEIVE = 10
JOBS_AT_ONCE_MAX = 200
WAIT_S = 20.0
KILL_POINTS = SettlementKillPoints(JOB_DELIVERED, JOB_REFERRED, JOB_SETTLED, JOB_CONTINUED)


Result = tuple[Target, Outcome | Aside | None]
"""None: there was no attempt left to make."""


class Consumer:
    """Takes jobs from one queue as long as it has room; `redelivery` and first attempts are two of these."""

    def __init__(self, queue: str, tools: Tools, deliverer: Deliverer, traffic: Traffic) -> None:
        self._queue = queue
        self._tools = tools
        self._deliverer = deliverer
        self._traffic = traffic
        self._under_way = UnderWay(queue, tools.stats, JOBS_AT_ONCE_MAX)
        self._settlement = JobSettlement(queue, tools.port, tools.references, tools.stats, KILL_POINTS)
        self._beat = Beat(TOGETHER_S)
        self._order = JobOrder()

    async def step(self) -> None:
        sends = min(await self._deliverer.room(), await self._traffic.room())
        n = min(JOBS_A_RECEIVE, await self._under_way.room(), -(-sends // TARGETS_MAX))
        for held in await self._tools.port.receive(self._queue, n, LEASE_MS, WAIT_S):
            self._under_way.start(self._run(held))

    async def drain(self, grace_s: float) -> int:
        """Let jobs under way end; the rest are given back at once. Returns how many those were."""
        return await self._under_way.drain(grace_s)

    async def _run(self, held: LeasedJob) -> None:
        job = jobs.decode(held.body)
        failures, first_ms, ended = 0, self._tools.clock.now_ms(), ""
        if isinstance(job, Redelivery):
            failures, first_ms, ended, job = job.failures, job.first_attempt_ms, job.ended, job.job
        assert isinstance(job, TargetJob)  # nothing else is put there
        turn = self._order.turn(group_of(job))  # before the first wait: tasks begin in the order of their jobs
        try:
            if not await self._tools.quarantine.takes(self._queue, held, group_of(job)):
                sends, concluding = taken_up(job, failures, first_ms, self._tools, self._deliverer, self._traffic)
                park = self._under_way.park
                await JobRun(held, sends, concluding, self._settlement, self._beat, turn, park, ended).run()
        finally:
            turn.end()


class JobRun:
    """One job, from its lease to its settlement. Its sends begin when its `turn` has come. `park` is called when only
    slow answers are waited for. `ended` is why no attempt is left, where only the dead-letter queue is."""

    def __init__(
        self,
        held: LeasedJob,
        sends: JobSends,
        concluding: Concluding,
        settlement: JobSettlement,
        beat: Beat,
        turn: JobTurn,
        park: Callable[[], None],
        ended: str,
    ) -> None:
        self._held = held
        self._sends = sends
        self._concluding = concluding
        self._settlement = settlement
        self._beat = beat
        self._turn = turn
        self._park = park
        self._ended = ended
        self._results: list[tuple[Target, Attempt]] = []
        self._enough = False
        self._wake = asyncio.Event()
        self._remaining: dict[str, None] = {}
        self._open = 0
        self._parked = False

    async def run(self) -> None:
        try:
            await self._deliver()
        except asyncio.CancelledError:
            await self._give_back()
            raise

    async def _deliver(self) -> None:
        targets = await self._sends.targets()
        self._remaining = dict.fromkeys(target.arn for target in targets)
        self._open = len(targets)
        await self._turn.come()
        if self._ended:
            self._turn.end()
            await self._settle([(target, None) for target in targets], LEASE_MS)
        else:
            await self._attempt(targets)

    async def _attempt(self, targets: Sequence[Target]) -> None:
        for target in targets:
            self._start(target)
        self._turn.end()
        while self._remaining:
            await self._wait()
            await self._settle(self._take_results(), LEASE_MS)
        if not targets:
            await self._settle([], LEASE_MS)

    def _take_results(self) -> list[Result]:
        results, self._results = self._results, []
        return [(target, attempt.result()) for target, attempt in results]

    def _start(self, target: Target) -> None:
        attempt = self._sends.start(target)
        attempt.add_done_callback(partial(self._collect, target))

    def _collect(self, target: Target, attempt: Attempt) -> None:
        if not attempt.cancelled() and attempt.exception() is None:
            outcome = attempt.result()
            if not isinstance(outcome, Aside):
                self._concluding.attempted(target, outcome)
        self._results.append((target, attempt))
        self._open -= 1
        if self._open == 0 or len(self._results) == SETTLE_AFTER_RESULTS:
            self._beat.soon(self._have_enough)
        elif len(self._results) == 1:
            asyncio.get_running_loop().call_later(SETTLE_AFTER_S, self._have_enough)

    def _have_enough(self) -> None:
        self._enough = True
        self._wake.set()

    async def _wait(self) -> None:
        """Until it is time to settle, or to renew the lease."""
        if not self._parked and not await self._enough_within(PARK_AFTER_S):
            self._parked = True
            self._park()
        await self._enough_within(RENEW_S)
        self._enough = False

    async def _enough_within(self, time_s: float) -> bool:
        """A timer of its own, since `asyncio.timeout` takes as much as the rest of a wait."""
        if not self._enough:
            self._wake.clear()
            timer = asyncio.get_running_loop().call_later(time_s, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()
        return self._enough

    async def _settle(self, results: Sequence[Result], lease_ms: int) -> None:
        """What remains is kept for so long. It is less when that is written: who is stopped before gives back all."""
        puts: list[NewJob] = []
        remaining = dict(self._remaining)
        for target, outcome in results:
            put = await self._conclude(target, outcome)
            if put is not None:
                puts.append(put)
            remaining.pop(target.arn, None)
        body = self._sends.rest(remaining) if results and remaining else None
        handle = self._held.handle
        renewal = self._settlement.renewal(handle, lease_ms, body) if remaining else None
        await self._settlement.settle([JobOutcome(handle, self._sends.stored_id, puts, renewal)])
        self._remaining = remaining

    async def _conclude(self, target: Target, outcome: Outcome | Aside | None) -> NewJob | None:
        """Count what came of one target; what must be put so that it is tried again, if it is to be."""
        if isinstance(outcome, Aside):
            return self._sends.aside(target)
        if outcome is None:
            again = await self._concluding.end(target, self._ended, self._sends.notification)
        else:
            again = await self._concluding.of(target, outcome, self._sends.notification)
        return None if again is None else self._sends.again(target, again)

    async def _give_back(self) -> None:
        """The process stops: let another worker have what remains at once, and not what was answered."""
        if self._remaining:
            await self._settle(self._take_results(), 0)
        else:
            await self._settlement.settle([], [self._settlement.renewal(self._held.handle, 0)])
