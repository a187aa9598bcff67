"""What follows from an attempt at a target: delivered, another try, the dead-letter queue, or a counted drop."""

from __future__ import annotations

import random
from dataclasses import dataclass

import structlog

from cns.delivery.notification_references import NotificationReferences
from cns.delivery.target import Target, TargetCache
from cns.endpoints.outcome import Delivered, Failed, Outcome
from cns.notification import Notification
from cns.queue_port.contract import QueuePort
from cns_common.clock import Clock
from cns_common.events.schema import EventSink
from cns_common.process.kill_points import JOB_BURIED, kill_point
from workers.consumers.job_events import NO_DELIVERY_LOG, JobFacts
from workers.consumers.notification_cache import Notifications
from workers.consumers.quarantine import Quarantine
from workers.consumers.retry_decision import End, judge
from workers.delivery.deliverer import Deliverer
from workers.delivery.logs.logger import DeliveryLog
from workers.stats import Stats

BURIAL_AGAIN_MS = 30_000
"""After a dead-letter queue could not be reached: the target is kept, and comes back for that, not for an attempt."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What delivering a job takes."""

    port: QueuePort
    notifications: Notifications
    references: NotificationReferences
    targets: TargetCache
    clock: Clock
    quarantine: Quarantine
    stats: Stats
    events: EventSink
    client_errors_succeed: bool
    delivery_log: DeliveryLog = NO_DELIVERY_LOG


@dataclass(frozen=True, slots=True)
class Again:
    """The attempt that is to follow, and how many failed before it."""

    failures: int
    delay_ms: int
    ended: str = ""  # why there is to be no attempt: only its dead-letter queue could not be reached


class Concluding:
    """For the targets of one job, which failed `failures` times before."""

    def __init__(
        self, tools: Tools, deliverer: Deliverer, facts: JobFacts, failures: int, first_attempt_ms: int
    ) -> None:
        self._tools = tools
        self._deliverer = deliverer
        self._facts = facts
        self._failures = failures
        self._first_attempt_ms = first_attempt_ms

    def attempted(self, target: Target, outcome: Outcome) -> None:
        """Called when the outcome is known, which may be a second before what follows from it."""
        self._facts.attempted(target, outcome)

    async def of(self, target: Target, outcome: Outcome, notification: Notification | None) -> Again | None:
        """Count what came of it; None when the target is done with."""
        if isinstance(outcome, Delivered):
            self._facts.delivered(target)
            return None
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
        log.info(
            "delivery_attempt.failed",
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
            return Again(failures, int(verdict.retry.delay_s * 1000))
        return await self._end(target, f"{verdict.end or End.SPENT}:{outcome.cause}", notification, failures)

    async def end(self, target: Target, why: str, notification: Notification | None) -> Again | None:
        """It was held back until its time was over, or its dead-letter queue was away when its attempts were."""
        return await self._end(target, why, notification, self._failures)

    async def _end(self, target: Target, cause: str, notification: Notification | None, attempts: int) -> Again | None:
        """No attempt is left: the dead-letter queue, or a drop counted by its cause."""
        reason = ""
        if target.dead_letter_arn and notification is not None:
            buried = await self._deliverer.dead_letter(target.dead_letter_arn, target, notification)
            if not isinstance(buried, Failed):
                kill_point(JOB_BURIED)
                self._facts.dead_lettered(target, cause)
                return None
            if not buried.permanent:
                return Again(attempts, BURIAL_AGAIN_MS, cause)
            cause = f"dead_letter_queue_refused:{cause.rpartition(':')[2]}"
            reason = buried.text
        self._facts.dropped(target.arn, cause, reason)
        said = {"text": reason} if reason else {}
        log.warning("notification.dropped", subscription=target.arn, topic=self._facts.topic, cause=cause, **said)
        return None
