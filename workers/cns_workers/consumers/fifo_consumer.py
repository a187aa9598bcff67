"""The consumer of FIFO topics: delivers to each subscription in the order of each message group.

A receive brings batches: the jobs of one subscription and message group, in their order. Batches run concurrently, the
jobs of a batch one after another. A job that fails stays in the queue, hidden until its next attempt, which delays its
group only. The jobs behind it are given back. Groups of paused subscriptions: see `PausedGroups`. Queues of other
services have the same limits as all endpoints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from cns.delivery import jobs
from cns.delivery.failure_causes import FinalCause
from cns.delivery.jobs import Redelivery
from cns.delivery.observers.contract import Deferral
from cns.delivery.target import Target
from cns.endpoints.outcome import Failed, Outcome
from cns.queue_port.contract import Renewal
from cns_common.errors import CnsError
from cns_common.metrics.model import Sample
from cns_workers.consumers.consumer import SETTLE_AFTER_S
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.job_attempts import JobAttempts, NextAttempt
from cns_workers.consumers.lease_renewal import with_renewals
from cns_workers.consumers.paused_groups import PausedGroups
from cns_workers.consumers.queue_consumer import QueueConsumer
from cns_workers.delivery.channels import Channels
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.jobs.receiver import ReceivedJob
from cns_workers.jobs.settlement import JobOutcome
from cns_workers.loops import now_s

LEASE_MS = 30_000
JOBS_A_RECEIVE = 10
BATCHES_AT_ONCE_MAX = 200
WAIT_S = 20.0
QUEUE = jobs.FIFO_ENDPOINT_JOBS

Result = TypeVar("Result")


class FifoConsumer(QueueConsumer):
    def __init__(self, context: DeliveryContext, channels: Channels, admission: AdmissionController) -> None:
        super().__init__(QUEUE, context, channels, admission, BATCHES_AT_ONCE_MAX, in_order=True)
        self.paused = PausedGroups(QUEUE, context)

    async def step(self) -> None:
        n = min(JOBS_A_RECEIVE, await self.running.room())
        groups: dict[str, list[ReceivedJob]] = {}
        for received in await self.receiver.target_jobs(QUEUE, n, LEASE_MS, WAIT_S):
            groups.setdefault(received.leased.group, []).append(received)
        for batch in groups.values():
            self.running.start(self._run(batch))

    def samples(self) -> list[Sample]:
        return self.paused.samples()

    async def _run(self, batch: Sequence[ReceivedJob]) -> None:
        target = await self.paused.target(batch[0])
        if target is not None:
            if self.paused.is_held(batch[0], target):
                renewals = self.paused.renewals(batch)
                await self.settlement.settle([], renewals)
                await self.paused.note(target.arn, batch[0].leased, renewals[0].visible_in_ms)
                return
            batch = await self.paused.write_off_leases(batch, target, LEASE_MS)
        attempts = [JobAttempts(received, self.context, self.channels) for received in batch]
        await FifoBatch(attempts, self, target).run()

    async def intercept(self, target: Target | None, job: JobAttempts) -> bool:
        """Quarantine the job if it was leased too often, unless a paused subscription holds it."""
        received = job.received
        if target is not None and self.paused.is_held(received, target):
            return False
        expected = received.failures + received.returns
        return await self.context.quarantine.intercept(QUEUE, received.leased, job.observed.topic, expected=expected)


class FifoBatch:
    """The jobs received of one message group, each of one target, from their leases to their settlement."""

    def __init__(self, batch: Sequence[JobAttempts], consumer: FifoConsumer, first: Target | None) -> None:
        """`first` is the target of the first job, if a paused subscription can hold that."""
        self._left = list(batch)
        self._consumer = consumer
        self._first = first
        self._clock = consumer.context.clock
        self._admission = consumer.admission
        self._outcomes = consumer.outcomes
        self._settlement = consumer.settlement
        self._done: list[JobOutcome] = []
        self._settled_s = now_s()
        self._leased_until_ms = self._clock.now_ms() + LEASE_MS

    async def run(self) -> None:
        try:
            while self._left and self._clock.now_ms() < self._leased_until_ms:  # later another worker may have the rest
                job = self._left[0]
                # just before the job begins: if it kills the process, only this job has a trial
                if await self._consumer.intercept(self._first, job):
                    del self._left[0]
                    continue
                target = next(iter(await job.load()), None)
                if target is not None and self._consumer.paused.is_held(job.received, target) and job.is_held(target):
                    await self._hold(target)
                    return
                following = None if target is None else await self._attempt(job, target)
                if following is not None:
                    await self._give_back_until(following)
                    return
                self._done.append(JobOutcome(job.received.leased.handle, job.stored_id))
                del self._left[0]
                if now_s() - self._settled_s >= SETTLE_AFTER_S:
                    await self._settle()
            await self._settle_done()
        except asyncio.CancelledError:
            await self._settle([self._settlement.renewal(job.received.leased.handle, 0) for job in self._left])
            raise
        except CnsError:  # a store is away, which is no reason to repeat what was sent before
            await self._settle_done()
            raise
        except Exception:  # the first job keeps its lease, and its group waits: after LEASES_MAX it is quarantined
            await self._settle(self._returns())
            raise

    async def _attempt(self, job: JobAttempts, target: Target) -> NextAttempt | None:
        """Returns None if the target needs no further attempt."""
        if job.received.ended:
            return await self._ended(self._outcomes.give_up(job, target, job.received.ended))
        if job.is_held(target):
            return await self._ended(self._outcomes.give_up(job, target, FinalCause.DEADLINE_PAUSED))
        attempt: asyncio.Future[Outcome | Deferral] | asyncio.Future[Outcome] = job.start(target, self._admission)
        outcome = await self._ended(attempt)
        job.report(target, attempt)
        if isinstance(outcome, Deferral):
            return await self._deferred(job, target)
        if isinstance(outcome, Failed):
            return await self._ended(self._outcomes.handle(job, target, outcome))
        return await self._outcomes.handle(job, target, outcome)

    async def _deferred(self, job: JobAttempts, target: Target) -> NextAttempt | None:
        """Hide the job's group, so that others are received: the queue, of another service, has no room."""
        if job.is_late(target, self._clock.now_ms()):
            return await self._ended(self._outcomes.give_up(job, target, job.deadline_cause(target, self._admission)))
        pause_s = self._admission.pause_s(job.traffic_key(target))
        return NextAttempt(job.received.failures, int(pause_s * 1000), job.first_attempt_ms(target))

    async def _ended(self, work: Awaitable[Result]) -> Result:
        """Wait for an attempt or a dead letter."""
        return await with_renewals(work, self._renew, SETTLE_AFTER_S)

    async def _renew(self) -> None:
        """Settle the jobs that are done, and renew the leases of the others."""
        now_ms = self._clock.now_ms()
        await self._settle([self._settlement.renewal(job.received.leased.handle, LEASE_MS) for job in self._left])
        if now_ms < self._leased_until_ms:  # a lease that has run out does not come back
            self._leased_until_ms = now_ms + LEASE_MS

    async def _hold(self, target: Target) -> None:
        renewals = self._consumer.paused.renewals([job.received for job in self._left])
        await self._settle(renewals)
        await self._consumer.paused.note(target.arn, self._left[0].received.leased, renewals[0].visible_in_ms)

    async def _give_back_until(self, following: NextAttempt) -> None:
        """Hide the first job until its next attempt, and give back the others."""
        first = self._left[0].received
        returns = first.returns + (following.failures == first.failures)  # no attempt was made
        body = jobs.encode(
            Redelivery(
                first.job,
                following.failures,
                following.first_ms,
                returns,
                following.ended,
                egress_ms=following.egress_ms,
            )
        )
        renewal = self._settlement.renewal(first.leased.handle, following.delay_ms, body)
        await self._settle([renewal, *self._returns()])

    def _returns(self) -> list[Renewal]:
        """Give back the jobs behind the first, marked as returned without an attempt."""
        rest = [job.received for job in self._left[1:]]
        return [self._settlement.renewal(each.leased.handle, 0, _returned_body(each)) for each in rest]

    async def _settle_done(self) -> None:
        if self._done:
            await self._settle()

    async def _settle(self, renewals: Sequence[Renewal] = ()) -> None:
        done, self._done = self._done, []
        await self._settlement.settle(done, renewals)
        self._settled_s = now_s()


def _returned_body(received: ReceivedJob) -> bytes:
    return jobs.encode(
        Redelivery(received.job, received.failures, received.first_attempt_ms, received.returns + 1, received.ended)
    )
