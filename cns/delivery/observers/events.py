"""Writes the events of attempts, and of what becomes of a job's targets."""

from __future__ import annotations

from cns.delivery.observers.contract import Answer, AttemptObserver, ObservedJob
from cns.delivery.retry_policy import RetryPolicy, next_retry
from cns.delivery.target import Target
from cns.endpoints.outcome import Failed, Outcome
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


class AttemptEvents(AttemptObserver):
    def __init__(self, events: EventSink) -> None:
        self._events = events

    def answered(self, job: ObservedJob, target: Target, outcome: Outcome, at_ms: int) -> None:
        cause = outcome.cause.value if isinstance(outcome, Failed) else ""
        self._events.emit(
            DeliveryAttempted(
                at_ms=at_ms,
                message_id=job.message_id,
                message_type=job.message_type,
                topic=job.topic,
                subscription=target.arn,
                protocol=target.protocol,
                attempt=job.failures + 1,
                phase=phase_of(target.retry, job.failures),
                outcome="failed" if cause else "delivered",
                cause=cause,
                status=outcome.status,
                duration_ms=outcome.dwell_ms,
                reason=outcome.text[:REASON_CHARS_MAX] if isinstance(outcome, Failed) else "",
                replayed=job.replayed,
                endpoint=target.endpoint_name,
                account=job.account,
            )
        )

    def delivered(self, job: ObservedJob, target: Target, answer: Answer) -> None:
        self._events.emit(
            DeliveryDelivered(
                at_ms=answer.at_ms,
                message_id=job.message_id,
                message_type=job.message_type,
                topic=job.topic,
                subscription=target.arn,
                protocol=target.protocol,
                attempt=job.failures + 1,
                since_publish_ms=answer.at_ms - job.published_ms,
                replayed=job.replayed,
                endpoint=target.endpoint_name,
                account=job.account,
                size_bytes=answer.size_bytes,
            )
        )

    def dead_lettered(self, job: ObservedJob, target: Target, cause: str, at_ms: int) -> None:
        self._events.emit(
            DeliveryDeadLettered(
                at_ms=at_ms,
                message_id=job.message_id,
                message_type=job.message_type,
                topic=job.topic,
                subscription=target.arn,
                protocol=target.protocol,
                attempt=job.failures + (target.arn in job.answers),
                cause=cause,
                queue=target.dead_letter_arn,
                since_publish_ms=at_ms - job.published_ms,
                replayed=job.replayed,
                endpoint=target.endpoint_name,
                account=job.account,
            )
        )

    def dropped(
        self, job: ObservedJob, subscription: str, target: Target | None, cause: str, reason: str, at_ms: int
    ) -> None:
        self._events.emit(
            NotificationDropped(
                at_ms=at_ms,
                message_id=job.message_id,
                message_type=job.message_type,
                topic=job.topic,
                subscription=subscription,
                attempt=job.failures + (subscription in job.answers),
                cause=cause,
                reason=reason[:REASON_CHARS_MAX],
                replayed=job.replayed,
                protocol="" if target is None else target.protocol,
                endpoint="" if target is None else target.endpoint_name,
                account=job.account,
            )
        )


def phase_of(policy: RetryPolicy, failures: int) -> str:
    """The retry phase of an attempt that follows so many failures."""
    if failures == 0:
        return FIRST
    retry = next_retry(policy, failures)
    return UNPLANNED if retry is None else retry.phase.value
