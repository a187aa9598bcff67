"""Decides and does what follows from an attempt: another attempt, the dead-letter queue, a drop, or nothing."""

from __future__ import annotations

import random

import structlog

from cns.delivery.failure_causes import End
from cns.delivery.retry_policy import JITTER_SHARE, TOTAL_S_MAX
from cns.delivery.target import Target
from cns.endpoints.outcome import EGRESS, Cause, Delivered, Failed, Outcome
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.job_attempts import HELD_MS_MAX, JobAttempts, NextAttempt
from cns_workers.consumers.retry_decision import judge
from cns_workers.delivery.channels import Channels

DEAD_LETTER_RETRY_MS = 30_000
"""The delay after a dead-letter queue could not be reached: then only this queue is tried again, not the endpoint."""
EGRESS_WAITS_MS = {Cause.EGRESS_PROXY: HELD_MS_MAX, Cause.EGRESS_ROUTE: TOTAL_S_MAX * 1000}
"""How long attempts may fail at the egress proxy. It may not reach an endpoint because that is down."""
EGRESS_DELAY_MS_MIN, EGRESS_DELAY_MS_MAX = 5_000, 300_000

log = structlog.get_logger(__name__)


class OutcomeHandler:
    """Its methods return None if the target needs no further attempt: delivered, dead-lettered or dropped."""

    def __init__(self, context: DeliveryContext, channels: Channels) -> None:
        self._context = context
        self._channels = channels

    async def handle(self, job: JobAttempts, target: Target, outcome: Outcome) -> NextAttempt | None:
        if isinstance(outcome, Delivered):
            job.report_delivery(target)
            return None
        if outcome.cause in EGRESS:
            return await self._wait_for_proxy(job, target, outcome)
        received = job.received
        failures = received.failures + 1
        verdict = judge(
            outcome,
            target.retry,
            failures=failures,
            elapsed_s=(self._context.clock.now_ms() - job.first_attempt_ms(target)) / 1000,
            jitter=random.random(),  # noqa: S311  # spreads retries
            client_errors_succeed=self._context.client_errors_succeed,
        )
        _log_failure(job, target, outcome, verdict.retry.delay_s if verdict.retry else None)
        if verdict.delivered:
            job.report_delivery(target)
            return None
        if verdict.retry is not None:
            self._context.stats.count_retry(verdict.retry.phase)
            return NextAttempt(failures, int(verdict.retry.delay_s * 1000), job.first_attempt_ms(target))
        return await self._dead_letter(job, target, f"{verdict.end or End.SPENT}:{outcome.cause}", failures)

    async def give_up(self, job: JobAttempts, target: Target, cause: str) -> NextAttempt | None:
        """Make no further attempt: the target's time is over, or only its dead-letter queue is left to try."""
        return await self._dead_letter(job, target, cause, job.received.failures)

    async def _wait_for_proxy(self, job: JobAttempts, target: Target, failed: Failed) -> NextAttempt | None:
        """Try again without counting a failure; the retry policy's time begins when the proxy is back. The delay is as
        long as the proxy has failed already, within bounds."""
        now_ms = self._context.clock.now_ms()
        since_ms = job.received.egress_ms or now_ms
        waited_ms = now_ms - since_ms
        if waited_ms >= EGRESS_WAITS_MS[failed.cause]:
            _log_failure(job, target, failed, None)
            return await self._dead_letter(job, target, f"{End.SPENT}:{failed.cause}", job.received.failures)
        delay_ms = min(max(waited_ms, EGRESS_DELAY_MS_MIN), EGRESS_DELAY_MS_MAX)
        delay_ms += int(delay_ms * JITTER_SHARE * random.random())  # noqa: S311  # spreads retries
        _log_failure(job, target, failed, delay_ms / 1000)
        return NextAttempt(job.received.failures, delay_ms, now_ms, egress_ms=since_ms)

    async def _dead_letter(self, job: JobAttempts, target: Target, cause: str, attempts: int) -> NextAttempt | None:
        reason = ""
        if target.dead_letter_arn and job.observed.notification is not None:
            answer = await self._channels.queues.dead_letter(target.dead_letter_arn, target, job.observed.notification)
            if not isinstance(answer, Failed):
                job.report_dead_letter(target, cause)
                return None
            if not answer.permanent:
                return NextAttempt(attempts, DEAD_LETTER_RETRY_MS, job.first_attempt_ms(target), cause)
            cause = f"{End.REFUSED}:{cause.rpartition(':')[2]}"
            reason = answer.text
        job.report_drop(target.arn, cause, reason, target)
        detail = {"text": reason} if reason else {}
        log.warning(
            "notification.dropped",
            subscription=target.arn,
            topic=job.observed.topic,
            message_id=job.observed.message_id,
            cause=cause,
            **detail,
        )
        return None


def _log_failure(job: JobAttempts, target: Target, failed: Failed, retry_in_s: float | None) -> None:
    log.info(
        "delivery_attempt.failed",
        subscription=target.arn,
        message_id=job.observed.message_id,
        attempt=job.received.failures + 1,
        cause=str(failed.cause),
        text=failed.text,
        retry_in_s=retry_in_s,
    )
