"""The consumer of standard topics: delivers endpoint jobs so that no target is lost and few are sent to twice.

A job is settled 0.75 s after its first unsettled result, after 25 results, and at its end. One settlement writes the
remaining targets into the job, adds a redelivery for each failed target, and moves each target whose endpoint has no
room into a lane (`lane_consumer`). So a worker's death repeats no send that was answered more than a second before it.
Jobs that are due at about the same time are settled together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from math import floor

from cns.delivery.jobs import TARGETS_MAX, group_of
from cns.delivery.observers.contract import Deferral
from cns.delivery.target import Target
from cns.endpoints.outcome import Failed, Outcome
from cns.queue_port.contract import NewJob
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.job_attempts import JobAttempts
from cns_workers.consumers.job_order import JobOrder, JobTurn
from cns_workers.consumers.lease_renewal import with_renewals
from cns_workers.consumers.queue_consumer import QueueConsumer
from cns_workers.delivery.channels import Channels
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.sends import AdmittedAttempt
from cns_workers.jobs.receiver import ReceivedJob
from cns_workers.jobs.settlement import JobOutcome

LEASE_MS = 30_000
RENEW_S = 10.0
PARK_AFTER_S = 0.2
"""A job whose sends are unanswered for this long is parked (`RunningJobs`). It is less than `OVERDUE_S`: of jobs with
hanging endpoints, more are received within a second than may be busy at once."""
SETTLE_AFTER_S = 0.75
"""From the first unsettled result: the settlement is written within a second of it."""
SETTLE_AFTER_RESULTS = 25
SETTLE_TOGETHER_S = 0.02
"""Jobs that are due within this time are settled together: a settlement wakes two processes and takes a commit,
whatever its size."""
JOBS_A_RECEIVE = 10
JOBS_AT_ONCE_MAX = 200
WAIT_S = 20.0


class Consumer(QueueConsumer):
    """Receives jobs from one queue while it has room. First attempts and redeliveries have a consumer each."""

    def __init__(
        self, queue: str, context: DeliveryContext, channels: Channels, admission: AdmissionController
    ) -> None:
        super().__init__(queue, context, channels, admission, JOBS_AT_ONCE_MAX)
        self._order = JobOrder()

    async def step(self) -> None:
        sends = min(await self.channels.room(), await self.admission.room())
        n = min(JOBS_A_RECEIVE, await self.running.room(), -(-sends // TARGETS_MAX))
        for received in await self.receiver.target_jobs(self.queue, n, LEASE_MS, WAIT_S):
            self.running.start(self._run(received))

    async def _run(self, received: ReceivedJob) -> None:
        topic = group_of(received.job)
        turn = self._order.turn(topic)  # before the first await: tasks begin in the order of their jobs
        try:
            attempts = JobAttempts(received, self.context, self.channels)
            if not await self.context.quarantine.intercept(self.queue, received.leased, topic):
                await JobDelivery(attempts, self, turn).run()
        finally:
            turn.end()


class JobDelivery:
    """One job, from its lease to its settlement.

    Its sends begin when its `turn` has come. It is parked when it only waits for slow answers.
    """

    def __init__(self, attempts: JobAttempts, consumer: QueueConsumer, turn: JobTurn) -> None:
        self._attempts = attempts
        self._admission = consumer.admission
        self._outcomes = consumer.outcomes
        self._settlement = consumer.settlement
        self._running = consumer.running
        self._turn = turn
        self._parked = False
        self._remaining: dict[str, None] = {}  # targets that are not settled, by ARN
        self._unanswered = 0
        self._results: list[tuple[Target, AdmittedAttempt]] = []
        self._is_due = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        try:
            targets = await self._attempts.load()
            self._remaining = dict.fromkeys([target.arn for target in targets])
            self._unanswered = len(targets)
            await self._turn.wait()
            if self._attempts.age_ms() >= LEASE_MS:  # the process stood still: another worker may have the job
                self._settlement.count_lost_lease()
                return
            ended = self._attempts.received.ended
            for target in () if ended else targets:
                self._start(target)
            self._turn.end()
            if ended or not targets:
                await self._give_up(targets, ended)
            while self._remaining:
                await self._wait_until_due()
                await self._settle_results(LEASE_MS)
        except asyncio.CancelledError:
            await self._give_back()
            raise

    def _start(self, target: Target) -> None:
        if self._attempts.is_held(target):
            attempt = self._admission.defer(Deferral.PAUSED)
        elif self._attempts.received.crashed:
            attempt = self._attempts.start_now(target)  # a crash in its lane would bring it back here
        elif target.receives_per_second is None:
            attempt = self._attempts.start(target, self._admission)
        else:
            attempt = self._admission.defer(Deferral.THROTTLED)  # in its lane one worker keeps the rate
        attempt.add_done_callback(partial(self._collect, target))

    def _collect(self, target: Target, attempt: AdmittedAttempt) -> None:
        self._attempts.report(target, attempt)
        self._results.append((target, attempt))
        self._unanswered -= 1
        loop = asyncio.get_running_loop()
        if self._unanswered == 0 or len(self._results) == SETTLE_AFTER_RESULTS:
            # a common time: jobs that are due by then share a frame to the store host and a commit
            loop.call_at((floor(loop.time() / SETTLE_TOGETHER_S) + 1) * SETTLE_TOGETHER_S, self._set_due)
        elif len(self._results) == 1:
            loop.call_later(SETTLE_AFTER_S, self._set_due)

    def _set_due(self) -> None:
        self._is_due = True
        self._wake.set()

    async def _wait_until_due(self) -> None:
        """Wait until it is time to settle, or to renew the lease."""
        if self._parked or not await self._is_due_within(PARK_AFTER_S):
            if not self._parked:
                self._parked = True
                self._running.park()
            await self._is_due_within(RENEW_S)
        self._is_due = False

    async def _is_due_within(self, time_s: float) -> bool:
        if not self._is_due:
            self._wake.clear()
            timer = asyncio.get_running_loop().call_later(time_s, self._wake.set)  # far cheaper than `asyncio.timeout`
            try:
                await self._wake.wait()
            finally:
                timer.cancel()
        return self._is_due

    async def _settle_results(self, lease_ms: int) -> None:
        """Settle the targets that were answered. With a lease of 0 ms the others are given back."""
        results, self._results = self._results, []
        new_jobs = await self._follow_ups(results)
        remaining = dict(self._remaining)
        for target, _ in results:
            remaining.pop(target.arn, None)
        await self._settle(new_jobs, remaining, lease_ms)

    async def _follow_ups(self, results: Sequence[tuple[Target, AdmittedAttempt]]) -> list[NewJob]:
        """Make the jobs that follow. Results that may go to a dead-letter queue are handled concurrently: the queue may
        be as slow as any endpoint."""
        new_jobs: list[NewJob | None] = []
        slow: list[Coroutine[None, None, NewJob | None]] = []
        for target, attempt in results:
            if len(self._remaining) > 1 and (error := attempt.exception()) is not None:
                new_jobs.append(self._after_crash(target, error))
                continue
            outcome = attempt.result()  # raises if it crashed: the job has no other target
            if isinstance(outcome, Failed) and target.dead_letter_arn:
                slow.append(self._follow_up(target, outcome))
            else:
                new_jobs.append(await self._follow_up(target, outcome))
        if slow:
            new_jobs += await with_renewals(asyncio.gather(*slow), self._renew, RENEW_S)
        return [new_job for new_job in new_jobs if new_job is not None]

    def _after_crash(self, target: Target, error: BaseException) -> NewJob:
        """The job for a target whose delivery crashed: the other targets of this job do not wait for it."""
        self._running.report(error)
        return self._attempts.after_crash(target)

    async def _follow_up(self, target: Target, outcome: Outcome | Deferral) -> NewJob | None:
        if isinstance(outcome, Deferral):
            return self._attempts.deferral(target)
        following = await self._outcomes.handle(self._attempts, target, outcome)
        return None if following is None else self._attempts.redelivery(target, following)

    async def _give_up(self, targets: Sequence[Target], cause: str) -> None:
        """Settle the job without attempts."""
        new_jobs: list[NewJob] = []
        for target in targets:
            giving_up = self._outcomes.give_up(self._attempts, target, cause)
            following = await with_renewals(giving_up, self._renew, RENEW_S)
            if following is not None:
                new_jobs.append(self._attempts.redelivery(target, following))
        await self._settle(new_jobs, {}, LEASE_MS)

    async def _renew(self) -> None:
        renewal = self._settlement.renewal(self._attempts.received.leased.handle, LEASE_MS)
        await self._settlement.settle([], [renewal])

    async def _settle(self, new_jobs: Sequence[NewJob], remaining: dict[str, None], lease_ms: int) -> None:
        """Shrink `self._remaining` only after the write: a job that is stopped before gives back all of them."""
        handle, renewal = self._attempts.received.leased.handle, None
        if remaining:
            changed = len(remaining) < len(self._remaining)
            body = self._attempts.remaining_body(remaining) if changed else None
            renewal = self._settlement.renewal(handle, lease_ms, body)
        await self._settlement.settle([JobOutcome(handle, self._attempts.stored_id, new_jobs, renewal)])
        self._remaining = remaining

    async def _give_back(self) -> None:
        """The process stops: settle what was answered, and let another worker have the rest at once."""
        if self._remaining:
            await self._settle_results(0)
        else:
            await self._settlement.settle([], [self._settlement.renewal(self._attempts.received.leased.handle, 0)])
