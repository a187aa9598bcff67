"""The consumer: delivers endpoint jobs, and settles them so that no target is lost and few are sent to twice.

A job is settled one second after its first result, after 25 results, and when it is done: what remains is written into
the job it still holds, each failed target becomes a redelivery of its own, in one step. So the death of a worker
repeats no send that was answered more than a second before it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from cns import jobs
from cns.endpoints.outcome import Failed, Outcome
from cns.jobs import ConfirmationJob, EndpointJob, Redelivery
from cns.model import Notification
from cns.queue_port import Held, Put, QueuePort, Renewal
from cns.stores.contract import NotificationStore
from cns.target import Target, Targets
from common.clock import Clock
from common.errors import CnsError
from common.events import EventSink
from common.kill_points import JOB_DELIVERED, JOB_SETTLED, passed
from workers.delivery import Deliverer
from workers.job_facts import JobFacts
from workers.quarantine import Quarantine
from workers.settlement import End, Verdict, judge
from workers.stats import Stats

LEASE_MS = 30_000
RENEW_S = 10.0
SETTLE_AFTER_S = 1.0
SETTLE_AFTER_RESULTS = 25
JOBS_A_RECEIVE = 10
JOBS_AT_ONCE_MAX = 200
WAIT_S = 20.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What delivering a job takes."""

    port: QueuePort
    notifications: NotificationStore
    targets: Targets
    clock: Clock
    quarantine: Quarantine
    stats: Stats
    events: EventSink
    client_errors_succeed: bool


class Consumer:
    """Takes jobs from one queue as long as it has room; `redelivery` and first attempts are two of these."""

    def __init__(self, queue: str, tools: Tools, deliverer: Deliverer) -> None:
        self._queue = queue
        self._tools = tools
        self._deliverer = deliverer
        self._under_way: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._room.set()

    async def step(self) -> None:
        await self._room.wait()
        n = min(JOBS_A_RECEIVE, JOBS_AT_ONCE_MAX - len(self._under_way))
        for held in await self._tools.port.receive(self._queue, n, LEASE_MS, WAIT_S):
            task = asyncio.create_task(self._run(held))
            self._under_way.add(task)
            task.add_done_callback(self._ended)
        if len(self._under_way) >= JOBS_AT_ONCE_MAX:
            self._room.clear()

    async def drain(self, grace_s: float) -> int:
        """Let jobs under way end; the rest are given back at once. Returns how many those were."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=grace_s)
        left = list(self._under_way)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return len(left)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._room.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            # the lease runs out and the job comes back; five times, and it is quarantined
            self._tools.stats.crashed(self._queue)
            if isinstance(error, CnsError):
                log.warning("job.failed", queue=self._queue, error=str(error))
            else:
                log.error("job.crashed", queue=self._queue, exc_info=error)

    async def _run(self, held: Held) -> None:
        job = jobs.decode(held.body)
        failures, first_ms = 0, self._tools.clock.now_ms()
        if isinstance(job, Redelivery):
            failures, first_ms, job = job.failures, job.first_attempt_ms, job.job
        if isinstance(job, EndpointJob | ConfirmationJob) and not await self._tools.quarantine.takes(
            self._queue, held, job.topic
        ):
            await JobRun(self._queue, held, job, failures, first_ms, self._tools, self._deliverer).run()


class JobRun:
    """One job, from its lease to its settlement."""

    def __init__(
        self,
        queue: str,
        held: Held,
        job: EndpointJob | ConfirmationJob,
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
        job = self._job
        arns = job.subscriptions if isinstance(job, EndpointJob) else (job.subscription,)
        notification = await self._notification()
        targets = await self._tools.targets.find(arns)
        if isinstance(job, EndpointJob):
            targets = [target for target in targets if target.confirmed]
            for gone in set(arns).difference([target.arn for target in targets]):
                self._facts.dropped(gone, "subscription_gone")
            if notification is None:
                for target in targets:
                    self._facts.dropped(target.arn, "notification_lost")
                targets = []
            else:
                self._facts.published_ms = notification.timestamp_ms
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
        now_ms = self._tools.clock.now_ms()
        failures = self._failures + 1
        verdict = judge(
            outcome,
            target.retry,
            failures=failures,
            elapsed_s=(now_ms - self._first_attempt_ms) / 1000,
            jitter=random.random(),  # noqa: S311  # spreads retries
            client_errors_succeed=self._tools.client_errors_succeed,
        )
        if isinstance(outcome, Failed):
            log.info(
                "delivery.failed",
                subscription=target.arn,
                attempt=failures,
                cause=str(outcome.cause),
                text=outcome.text,
                retry_in_s=verdict.retry.delay_s if verdict.retry else None,
            )
        if verdict.delivered:
            self._facts.delivered(target)
            return None
        if verdict.retry is not None:
            self._tools.stats.retried(verdict.retry.phase)
            return self._redelivery(target, failures, int(verdict.retry.delay_s * 1000))
        assert isinstance(outcome, Failed)
        return await self._end(target, outcome, verdict, notification)

    def _redelivery(self, target: Target, failures: int, delay_ms: int) -> Put:
        job = self._job
        if isinstance(job, EndpointJob):
            alone: EndpointJob | ConfirmationJob = EndpointJob(
                job.notification_id, job.topic, (target.arn,), job.inline
            )
            of = job.notification_id
        else:
            alone, of = job, job.message_id
        body = jobs.encode(Redelivery(alone, failures, self._first_attempt_ms))
        return Put(jobs.REDELIVERY, f"{of}/{target.arn}/{failures}", body, job.topic, delay_ms)

    async def _end(
        self, target: Target, failed: Failed, verdict: Verdict, notification: Notification | None
    ) -> Put | None:
        """No attempt is left: the dead-letter queue, or a drop counted by its cause."""
        cause = f"{verdict.end or End.SPENT}:{failed.cause}"
        if target.dead_letter_arn and notification is not None:
            buried = await self._deliverer.dead_letter(target.dead_letter_arn, target, notification)
            if not isinstance(buried, Failed):
                self._facts.dead_lettered(target, cause)
                return None
            if not buried.permanent:  # the store is away: keep the target, and come back to this point
                return self._redelivery(target, self._failures + 1, LEASE_MS)
            cause = f"dead_letter_queue_refused:{failed.cause}"
        self._facts.dropped(target.arn, cause)
        log.warning("notification.dropped", subscription=target.arn, topic=self._job.topic, cause=cause)
        return None

    def _remaining_body(self) -> bytes:
        job = self._job
        if isinstance(job, ConfirmationJob):
            return self._held.body
        rest = EndpointJob(job.notification_id, job.topic, tuple(self._remaining), job.inline)
        return jobs.encode(Redelivery(rest, self._failures, self._first_attempt_ms) if self._failures else rest)

    async def _give_back(self) -> None:
        """The process stops: let another worker have what remains at once."""
        renewal = Renewal(self._queue, self._held.handle, 0, self._remaining_body() if self._remaining else None)
        await self._tools.port.settle(self._queue, renewals=[renewal])
