"""The consumer: delivers endpoint jobs, and settles them so that no target is lost and few are sent to twice.

A job is settled one second after its first result, after 25 results, and when it is done: what remains is written into
the job it still holds, each failed target becomes a redelivery of its own, in one step. So the death of a worker
repeats no send that was answered more than a second before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from cns import jobs
from cns.endpoints.outcome import Outcome
from cns.jobs import TARGETS_MAX, ConfirmationJob, DirectJob, EndpointJob, Redelivery, TargetJob, group_of
from cns.model import Notification
from cns.queue_port import Held, Put, Renewal
from cns.target import Target, direct_target
from common.kill_points import JOB_DELIVERED, JOB_SETTLED, passed
from workers.concluding import Again, Concluding, Tools
from workers.delivery import Deliverer
from workers.job_facts import JobFacts
from workers.under_way import UnderWay

LEASE_MS = 30_000
RENEW_S = 10.0
SETTLE_AFTER_S = 1.0
SETTLE_AFTER_RESULTS = 25
JOBS_A_RECEIVE = 10
JOBS_AT_ONCE_MAX = 200
WAIT_S = 20.0


class Consumer:
    """Takes jobs from one queue as long as it has room; `redelivery` and first attempts are two of these."""

    def __init__(self, queue: str, tools: Tools, deliverer: Deliverer) -> None:
        self._queue = queue
        self._tools = tools
        self._deliverer = deliverer
        self._under_way = UnderWay(queue, tools.stats, JOBS_AT_ONCE_MAX)

    async def step(self) -> None:
        sends = await self._deliverer.room()
        n = min(JOBS_A_RECEIVE, await self._under_way.room(), -(-sends // TARGETS_MAX))
        for held in await self._tools.port.receive(self._queue, n, LEASE_MS, WAIT_S):
            self._under_way.start(self._run(held))

    async def drain(self, grace_s: float) -> int:
        """Let jobs under way end; the rest are given back at once. Returns how many those were."""
        return await self._under_way.drain(grace_s)

    async def _run(self, held: Held) -> None:
        job = jobs.decode(held.body)
        failures, first_ms = 0, self._tools.clock.now_ms()
        if isinstance(job, Redelivery):
            failures, first_ms, job = job.failures, job.first_attempt_ms, job.job
        assert isinstance(job, TargetJob)  # nothing else is put there
        if not await self._tools.quarantine.takes(self._queue, held, group_of(job)):
            await JobRun(self._queue, held, job, failures, first_ms, self._tools, self._deliverer).run()


class JobRun:
    """One job, from its lease to its settlement."""

    def __init__(
        self,
        queue: str,
        held: Held,
        job: TargetJob,
        failures: int,
        first_attempt_ms: int,
        tools: Tools,
        deliverer: Deliverer,
    ) -> None:
        self._queue = queue
        self._held = held
        self._job = job
        self._failures = failures
        self._first_attempt_ms = first_attempt_ms
        self._tools = tools
        self._deliverer = deliverer
        self._facts = JobFacts(tools.stats, tools.events, tools.clock, job, failures)
        self._concluding = Concluding(tools, deliverer, self._facts, failures, first_attempt_ms)
        self._results: list[tuple[Target, asyncio.Future[Outcome]]] = []
        self._enough = asyncio.Event()
        self._remaining: dict[str, None] = {}
        self._open = 0

    async def run(self) -> None:
        try:
            await self._deliver()
        except asyncio.CancelledError:
            await self._give_back()
            raise

    async def _deliver(self) -> None:
        notification = await self._notification()
        targets = await self._targets(notification)
        self._remaining = dict.fromkeys(target.arn for target in targets)
        self._open = len(targets)
        for target in targets:
            self._start(target, notification)
        while self._remaining:
            await self._wait()
            results, self._results = self._results, []
            await self._settle([(target, future.result()) for target, future in results], notification)
        if not targets:
            await self._settle([], notification)

    async def _targets(self, notification: Notification | None) -> list[Target]:
        """Whom to send to. What is gone is counted."""
        job = self._job
        if notification is not None:
            self._facts.published_ms = notification.timestamp_ms
        if isinstance(job, DirectJob):
            return [direct_target(job)]
        if isinstance(job, ConfirmationJob):
            return await self._tools.targets.find([job.subscription])
        targets = [target for target in await self._tools.targets.find(job.subscriptions) if target.confirmed]
        for gone in set(job.subscriptions).difference([target.arn for target in targets]):
            self._facts.dropped(gone, "subscription_gone")
        if notification is not None:
            return targets
        for target in targets:
            self._facts.dropped(target.arn, "notification_lost")
        return []

    async def _notification(self) -> Notification | None:
        if isinstance(self._job, ConfirmationJob):
            return None
        return self._job.inline or await self._tools.notifications.get(self._job.notification_id)

    def _start(self, target: Target, notification: Notification | None) -> None:
        if isinstance(self._job, ConfirmationJob):
            future = self._deliverer.start_confirmation(target, self._job)
        else:
            assert notification is not None
            future = self._deliverer.start(target, notification)
        future.add_done_callback(lambda done: self._collect(target, done))

    def _collect(self, target: Target, future: asyncio.Future[Outcome]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._facts.attempted(target, future.result())
        self._results.append((target, future))
        self._open -= 1
        if self._open == 0 or len(self._results) >= SETTLE_AFTER_RESULTS:
            self._enough.set()
        elif len(self._results) == 1:
            asyncio.get_running_loop().call_later(SETTLE_AFTER_S, self._enough.set)

    async def _wait(self) -> None:
        """Until it is time to settle, or to renew the lease."""
        try:
            await asyncio.wait_for(self._enough.wait(), RENEW_S)
        except TimeoutError:
            return
        self._enough.clear()

    async def _settle(self, results: Sequence[tuple[Target, Outcome]], notification: Notification | None) -> None:
        puts: list[Put] = []
        for target, outcome in results:
            put = await self._conclude(target, outcome, notification)
            if put is not None:
                puts.append(put)
            self._remaining.pop(target.arn, None)
        passed(JOB_DELIVERED)
        referring = self._referring
        if referring and puts:
            await self._tools.notifications.refer(referring, len(puts))
        if self._remaining:
            renewal = Renewal(self._queue, self._held.handle, LEASE_MS, self._remaining_body())
            await self._tools.port.settle(self._queue, puts=puts, renewals=[renewal])
            return
        held = await self._tools.port.settle(self._queue, [self._held.handle], puts)
        passed(JOB_SETTLED)
        if not all(held):  # the lease had run out, and another has the job: its targets may get this twice
            self._tools.stats.lease_lost(self._queue)
        elif referring:  # who has the job has its reference
            await self._tools.notifications.refer(referring, -1)

    @property
    def _referring(self) -> str:
        """The id of the stored notification this job counts as a reference to, or ''."""
        job = self._job
        return job.notification_id if isinstance(job, EndpointJob) and job.inline is None else ""

    async def _conclude(self, target: Target, outcome: Outcome, notification: Notification | None) -> Put | None:
        """Count what came of one target; the redelivery that must be put, if there is to be one."""
        again = await self._concluding.of(target, outcome, notification)
        return None if again is None else self._redelivery(target, again)

    def _redelivery(self, target: Target, again: Again) -> Put:
        job = self._job
        if isinstance(job, EndpointJob):
            alone: TargetJob = EndpointJob(job.notification_id, job.topic, (target.arn,), job.inline)
        else:
            alone = job
        body = jobs.encode(Redelivery(alone, again.failures, self._first_attempt_ms))
        put_id = f"{self._facts.message_id}/{target.arn}/{again.failures}"
        return Put(jobs.REDELIVERY, put_id, body, group_of(job), again.delay_ms)

    def _remaining_body(self) -> bytes:
        job = self._job
        if not isinstance(job, EndpointJob):
            return self._held.body
        rest = EndpointJob(job.notification_id, job.topic, tuple(self._remaining), job.inline)
        return jobs.encode(Redelivery(rest, self._failures, self._first_attempt_ms) if self._failures else rest)

    async def _give_back(self) -> None:
        """The process stops: let another worker have what remains at once."""
        renewal = Renewal(self._queue, self._held.handle, 0, self._remaining_body() if self._remaining else None)
        await self._tools.port.settle(self._queue, renewals=[renewal])
