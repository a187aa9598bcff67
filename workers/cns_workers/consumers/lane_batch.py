"""The jobs received of one lane: each is sent when its endpoint has room, and settled; the others are given back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from math import ceil
from typing import NamedTuple

import structlog

from cns.delivery import jobs
from cns.delivery.failure_causes import FinalCause
from cns.delivery.observers.contract import Deferral
from cns.delivery.target import Target
from cns.endpoints.outcome import Failed, Outcome
from cns.queue_port.contract import LeasedJob, Renewal
from cns_common.errors import CnsError
from cns_workers.consumers.consumer import SETTLE_AFTER_S
from cns_workers.consumers.job_attempts import JobAttempts, NextAttempt
from cns_workers.consumers.lease_renewal import with_renewals
from cns_workers.consumers.queue_consumer import QueueConsumer
from cns_workers.delivery.traffic.sends import AdmittedAttempt
from cns_workers.jobs.settlement import JobOutcome
from cns_workers.loops import now_s

LEASE_MS = 60_000
RENEW_S = 20.0
PARK_AFTER_S = 0.05
HELD_RECHECK_S = 60.0
"""The interval at which the lane of a paused subscription is rechecked; it is also rechecked when the subscription is
resumed: see `PausedHeads`."""
QUEUE = jobs.LANES

log = structlog.get_logger(__name__)


class LaneBlock(NamedTuple):
    """Until when a lane's head must wait, by the loop's clock. With a `key`: unless that endpoint has room earlier.
    With `paused`: unless that subscription is resumed earlier."""

    until_s: float
    key: str = ""
    paused: str = ""
    """ARN of the paused subscription whose lane it is."""


NOT_BLOCKED = LaneBlock(0.0)


class LaneBatch:
    """The jobs received of one lane, each of one target, from their leases to their settlement.

    It is parked when it only waits for slow answers.
    """

    def __init__(self, batch: Sequence[JobAttempts], consumer: QueueConsumer) -> None:
        self._left = list(batch)
        self._context = consumer.context
        self._admission = consumer.admission
        self._outcomes = consumer.outcomes
        self._settlement = consumer.settlement
        self._running = consumer.running
        self._open: dict[AdmittedAttempt, tuple[JobAttempts, Target]] = {}
        self._answered: list[AdmittedAttempt] = []
        self._done: list[JobOutcome] = []
        self._leased_s = now_s()
        self._tokens = 0  # of a throttled subscription, for sends that may start now
        self._tokens_at_s = 0.0  # when there are more

    @property
    def head(self) -> LeasedJob:
        """The first job that was given back."""
        return self._left[0].received.leased

    async def run(self) -> LaneBlock:
        """Returns why the jobs that are left had to be given back."""
        try:
            while True:
                block = await self._start_admitted()
                if not self._open:
                    break
                await self._wait()
                await self._handle_answered()
                await self._settle(self._due_renewals())
            await self._settle(self._give_back(block))
        except asyncio.CancelledError:
            await self._handle_answered()
            await self._settle([self._settlement.renewal(job.received.leased.handle, 0) for job in self._leased()])
            raise
        return block

    async def _wait(self) -> None:
        """Wait until all attempts ended, or it is time to settle those that did."""
        _, pending = await asyncio.wait(self._open, timeout=PARK_AFTER_S)
        if pending:
            self._running.park()
            await asyncio.wait(pending, timeout=SETTLE_AFTER_S - PARK_AFTER_S)

    # -- starting -----------------------------------------------------------------------------------------------------

    async def _start_admitted(self) -> LaneBlock:
        """Start attempts in order, until one has to wait. Returns why it has to."""
        while self._left:
            job = self._left[0]
            target = await self._target(job)
            if target is None:
                del self._left[0]
            elif job.is_held(target):
                held = await self._hold(job, target)
                if held is not None:
                    return held
            elif job.is_late(target, self._context.clock.now_ms()):
                await self._give_up(job, target)
                del self._left[0]
                await self._renew_if_due()
            else:
                block = await self._block(job, target)
                if block is not NOT_BLOCKED:
                    return block
                self._start(self._left.pop(0), target)
        return NOT_BLOCKED

    async def _target(self, job: JobAttempts) -> Target | None:
        """Returns None if the job ends here: its target is gone, which is counted as a drop, or it cannot be loaded."""
        try:
            target = next(iter(await job.load()), None)
        except CnsError:  # a store is away
            raise
        except Exception as error:  # noqa: BLE001  # `_redeliver_crashed` logs it
            self._redeliver_crashed(job, None, error)
            return None
        if target is None:
            self._done.append(JobOutcome(job.received.leased.handle, job.stored_id))
        return target

    async def _hold(self, job: JobAttempts, target: Target) -> LaneBlock | None:
        """Keep the head in the lane of its paused subscription, to which it moves from an endpoint's lane. After
        `HELD_MS_MAX` it goes to the dead-letter queue. Returns None if it left this lane: the next job is the head."""
        if job.is_held_too_long(self._context.clock.now_ms()):
            following = await self._with_renewals(self._outcomes.give_up(job, target, FinalCause.DEADLINE_PAUSED))
            self._end(job, target, following)
            del self._left[0]
            await self._renew_if_due()
        elif job.received.leased.group == jobs.lane_name(target.arn):
            return LaneBlock(now_s() + HELD_RECHECK_S, paused=target.arn)
        else:
            self._done.append(JobOutcome(job.received.leased.handle, job.stored_id, (job.deferral(target),)))
            del self._left[0]
        return None

    async def _block(self, job: JobAttempts, target: Target) -> LaneBlock:
        key = job.traffic_key(target)
        wait_s = self._admission.wait_s(key) if key else 0.0
        if wait_s > 0:
            return LaneBlock(now_s() + wait_s, key)
        if target.receives_per_second is None or await self._may_send(target.arn, target.receives_per_second):
            return NOT_BLOCKED
        return LaneBlock(self._tokens_at_s)

    async def _may_send(self, subscription: str, per_second: int) -> bool:
        """Take one of the batch's tokens, which are fetched together: all jobs of a lane have one subscription. Tokens
        that are left when the lane must wait for other reasons are not returned: the rate is a maximum."""
        if not self._tokens:
            grant = await self._context.rates.take_tokens(subscription, per_second, len(self._left))
            self._tokens, self._tokens_at_s = grant.tokens, now_s() + grant.wait_s
        if not self._tokens:
            return False
        self._tokens -= 1
        return True

    def _start(self, job: JobAttempts, target: Target) -> None:
        attempt = job.start(target, self._admission)
        attempt.add_done_callback(partial(self._collect, job, target))
        self._open[attempt] = (job, target)

    def _collect(self, job: JobAttempts, target: Target, attempt: AdmittedAttempt) -> None:
        self._answered.append(attempt)
        job.report(target, attempt)

    # -- outcomes -----------------------------------------------------------------------------------------------------

    async def _handle_answered(self) -> None:
        answered, self._answered = self._answered, []  # an attempt that is done may not have been recorded yet
        for attempt in answered:
            job, target = self._open[attempt]
            if (error := attempt.exception()) is None:
                await self._handle(job, target, attempt.result())
            else:
                self._redeliver_crashed(job, target, error)
            del self._open[attempt]
            await self._renew_if_due()

    async def _handle(self, job: JobAttempts, target: Target, outcome: Outcome | Deferral) -> None:
        if isinstance(outcome, Deferral):  # the room it was admitted to is gone
            self._left.insert(0, job)
        else:
            handling = self._outcomes.handle(job, target, outcome)
            self._end(job, target, await (self._with_renewals(handling) if isinstance(outcome, Failed) else handling))

    def _redeliver_crashed(self, job: JobAttempts, target: Target | None, error: BaseException) -> None:
        """Redeliver a job that crashed, since it would block its lane. It is quarantined if it keeps crashing."""
        log.error("lane.crashed", lane=job.received.leased.group, message_id=job.observed.message_id, exc_info=error)
        self._context.stats.count_job_failure(QUEUE)
        self._done.append(JobOutcome(job.received.leased.handle, job.stored_id, (job.after_crash(target),)))

    async def _give_up(self, job: JobAttempts, target: Target) -> None:
        cause = job.deadline_cause(target, self._admission)
        self._end(job, target, await self._with_renewals(self._outcomes.give_up(job, target, cause)))

    async def _with_renewals(self, work: Awaitable[NextAttempt | None]) -> NextAttempt | None:
        """Wait for `work`, which may send a dead letter; renew the leases meanwhile."""
        return await with_renewals(work, self._renew, RENEW_S)

    def _end(self, job: JobAttempts, target: Target, following: NextAttempt | None) -> None:
        new_jobs = () if following is None else (job.redelivery(target, following),)
        self._done.append(JobOutcome(job.received.leased.handle, job.stored_id, new_jobs))

    # -- leases -------------------------------------------------------------------------------------------------------

    def _leased(self) -> list[JobAttempts]:
        return [*[job for job, _ in self._open.values()], *self._left]

    def _due_renewals(self) -> list[Renewal]:
        return [] if now_s() - self._leased_s < RENEW_S else self._renewals()

    def _renewals(self) -> list[Renewal]:
        self._leased_s = now_s()
        return [self._settlement.renewal(job.received.leased.handle, LEASE_MS) for job in self._leased()]

    async def _renew(self) -> None:
        await self._settle(self._renewals())

    async def _renew_if_due(self) -> None:
        """Renew the leases between the dead letters of a batch, which together may take longer than these."""
        if renewals := self._due_renewals():
            await self._settle(renewals)

    def _give_back(self, block: LaneBlock) -> list[Renewal]:
        """Hide the head, which hides the lane. The jobs behind it are given back."""
        hidden_ms = max(ceil((block.until_s - now_s()) * 1000), 0)
        delays_ms = [hidden_ms, *[0] * len(self._left)]
        return [
            self._settlement.renewal(job.received.leased.handle, delay_ms)
            for job, delay_ms in zip(self._left, delays_ms, strict=False)
        ]

    async def _settle(self, renewals: Sequence[Renewal]) -> None:
        done, self._done = self._done, []
        if done or renewals:
            await self._settlement.settle(done, renewals)
