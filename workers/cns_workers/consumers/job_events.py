"""Reports what becomes of a job's targets: as metrics, as events, and in the delivery status log."""

from __future__ import annotations

from hashlib import md5
from typing import NamedTuple

from cns.delivery.envelope import MessageType
from cns.delivery.jobs import ConfirmationJob, DirectJob, TargetJob
from cns.delivery.retry_policy import RetryPolicy, next_retry
from cns.delivery.target import Target
from cns.endpoints.outcome import Failed, Outcome
from cns.notification import Notification
from cns_common.clock import Clock
from cns_common.events.schema import (
    FIRST,
    REASON_CHARS_MAX,
    UNPLANNED,
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    EventSink,
    NotificationDropped,
)
from cns_workers.delivery.logs.logger import AttemptLog, NoDeliveryLog
from cns_workers.delivery.logs.record import LoggedAttempt
from cns_workers.stats import Stats

NO_DELIVERY_LOG = NoDeliveryLog()


class _Answer(NamedTuple):
    """The end of an attempt."""

    at_ms: int
    size_bytes: int  # that were sent


class JobEvents:
    """`failures` counts earlier failures of the job's targets. A confirmation was published at its own timestamp."""

    def __init__(
        self,
        stats: Stats,
        events: EventSink,
        clock: Clock,
        job: TargetJob,
        failures: int,
        log: AttemptLog = NO_DELIVERY_LOG,
    ) -> None:
        self._stats = stats
        self._events = events
        self._clock = clock
        self._log = log
        self.topic, self._account = ("", job.account) if isinstance(job, DirectJob) else (job.topic, "")
        self._failures = failures
        self._attempt = failures + 1
        self._answers: dict[str, _Answer] = {}  # by subscription ARN
        self._notification: Notification | None = None
        self._replayed = False
        self._md5: tuple[str, str] = ("", "")
        if isinstance(job, ConfirmationJob):
            self.message_id = job.message_id
            self._message_type: str = MessageType(job.kind).value
            self.published_ms = job.timestamp_ms
        else:
            self.message_id = job.notification_id
            self._message_type = MessageType.NOTIFICATION.value
            self.published_ms = 0  # until the notification is read
            self._replayed = job.inline is not None and job.inline.replayed  # replays send it inline

    def set_notification(self, notification: Notification) -> None:
        self._notification = notification
        self._replayed = notification.replayed
        self.published_ms = notification.timestamp_ms

    def report_attempt(self, target: Target, outcome: Outcome) -> None:
        """Report an attempt as soon as it has ended. What follows from it is reported up to a second later."""
        if outcome.repeats is not None:
            self.report_attempt(target, outcome.repeats)
        now_ms = self._clock.now_ms()
        self._answers[target.arn] = _Answer(now_ms, outcome.size_bytes)
        cause = outcome.cause.value if isinstance(outcome, Failed) else ""
        if cause:
            self._stats.count_failure(target.protocol, cause)
        self._stats.attempts.observe(outcome.dwell_ms / 1000, target.protocol, "failed" if cause else "accepted")
        self._events.emit(
            DeliveryAttempted(
                at_ms=now_ms,
                message_id=self.message_id,
                message_type=self._message_type,
                topic=self.topic,
                subscription=target.arn,
                protocol=target.protocol,
                attempt=self._attempt,
                phase=phase_of(target.retry, self._failures),
                outcome="failed" if cause else "delivered",
                cause=cause,
                status=outcome.status,
                duration_ms=outcome.dwell_ms,
                reason=outcome.text[:REASON_CHARS_MAX] if isinstance(outcome, Failed) else "",
                replayed=self._replayed,
                endpoint=target.endpoint_name,
                account=self._account,
            )
        )
        if target.feedback is not None:
            self._log_attempt(target, outcome, now_ms)

    def report_delivery(self, target: Target) -> None:
        self._stats.count_delivery(target.protocol)
        at_ms, size_bytes = self._answers[target.arn]
        since_publish_ms = at_ms - self.published_ms
        if self._notification is not None and not self._replayed:
            attempt = "later" if self._failures else "first"
            self._stats.delivery_times.observe(since_publish_ms / 1000, target.protocol, attempt)
        self._events.emit(
            DeliveryDelivered(
                at_ms=at_ms,
                message_id=self.message_id,
                message_type=self._message_type,
                topic=self.topic,
                subscription=target.arn,
                protocol=target.protocol,
                attempt=self._attempt,
                since_publish_ms=since_publish_ms,
                replayed=self._replayed,
                endpoint=target.endpoint_name,
                account=self._account,
                size_bytes=size_bytes,
            )
        )

    def report_dead_letter(self, target: Target, cause: str) -> None:
        self._stats.count_dead_letter(cause)
        at_ms = self._clock.now_ms()
        self._events.emit(
            DeliveryDeadLettered(
                at_ms=at_ms,
                message_id=self.message_id,
                message_type=self._message_type,
                topic=self.topic,
                subscription=target.arn,
                protocol=target.protocol,
                attempt=self._failures + (target.arn in self._answers),
                cause=cause,
                queue=target.dead_letter_arn,
                since_publish_ms=at_ms - self.published_ms,
                replayed=self._replayed,
                endpoint=target.endpoint_name,
                account=self._account,
            )
        )

    def report_drop(self, subscription: str, cause: str, reason: str = "", target: Target | None = None) -> None:
        """Report that there is no further attempt, or none at all: the subscription or the notification is gone.
        `target` is None where the subscription is."""
        self._stats.count_drop(cause)
        self._events.emit(
            NotificationDropped(
                at_ms=self._clock.now_ms(),
                message_id=self.message_id,
                message_type=self._message_type,
                topic=self.topic,
                subscription=subscription,
                attempt=self._failures + (subscription in self._answers),
                cause=cause,
                reason=reason[:REASON_CHARS_MAX],
                replayed=self._replayed,
                protocol="" if target is None else target.protocol,
                endpoint="" if target is None else target.endpoint_name,
                account=self._account,
            )
        )

    def _log_attempt(self, target: Target, outcome: Outcome, now_ms: int) -> None:
        self._log.log_attempt(
            LoggedAttempt(
                target=target,
                outcome=outcome,
                message_id=self.message_id,
                topic=self.topic,
                published_ms=self.published_ms,
                at_ms=now_ms,
                number=self._attempt,
                message_md5=self._message_md5(target.protocol) if self.topic else "",
            )
        )

    def _message_md5(self, protocol: str) -> str:
        """The digest of the text for this protocol. The last one is cached: most protocols get the same text."""
        if self._notification is None:
            return ""
        text = self._notification.text_for(protocol)
        if self._md5[0] is not text:
            self._md5 = (text, md5(text.encode(), usedforsecurity=False).hexdigest())
        return self._md5[1]


def phase_of(policy: RetryPolicy, failures: int) -> str:
    """The retry phase of an attempt that follows so many failures."""
    if failures == 0:
        return FIRST
    retry = next_retry(policy, failures)
    return UNPLANNED if retry is None else retry.phase.value
