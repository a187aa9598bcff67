"""The spans of one job of a traced publish: the job, each attempt, and the request that an attempt sends."""

from __future__ import annotations

from cns.delivery.target import Target
from cns.endpoints.outcome import Failed, Outcome
from cns.notification import Notification
from cns.protocols.table import find_protocol
from cns_common.traces.context import is_sampled
from cns_common.traces.contract import Span, Spans, Value
from cns_workers.delivery.traffic.sends import Deferral


class JobTrace:
    """Its span ends with the last of `targets`. `failures` counts earlier failures of the job's targets."""

    def __init__(self, spans: Spans, notification: Notification, targets: int, failures: int, waited_ms: int) -> None:
        self._spans = spans
        self._targets = targets
        self._attempt = failures + 1
        self._message: dict[str, Value] = {
            "messaging.message.id": notification.id,
            "messaging.destination.name": notification.topic_arn,
        }
        attributes: dict[str, Value] = {**self._message, "cns.targets": targets, "cns.waited_ms": waited_ms}
        self._job = spans.start("deliver job", "consumer", notification.trace_context, attributes)
        self._attempts: dict[str, Span] = {}  # by subscription ARN
        self._sends: dict[str, Span] = {}

    def start_attempt(self, target: Target) -> None:
        """Begin an attempt, which may wait until its endpoint has room."""
        attributes: dict[str, Value] = {
            **self._message,
            "cns.subscription": target.arn,
            "cns.protocol": target.protocol,
            "cns.endpoint": target.endpoint_name,
            "cns.attempt": self._attempt,
        }
        self._attempts[target.arn] = self._spans.start("delivery attempt", "internal", self._job.context, attributes)

    def start_send(self, target: Target) -> str:
        """Begin the request of an attempt; the context to send with it."""
        if target.arn not in self._attempts:  # out of a lane: it does not wait
            self.start_attempt(target)
        protocol = find_protocol(target.protocol)
        name, kind = protocol.span or (protocol.name, "client")
        attributes: dict[str, Value] = {"server.address": target.endpoint_name}
        if name == "POST":
            attributes["http.request.method"] = name
        span = self._sends[target.arn] = self._spans.start(name, kind, self._attempts[target.arn].context, attributes)
        return span.context

    def end_attempt(self, target: Target, outcome: Outcome | Deferral | None) -> None:
        """End an attempt and its request; None: it was cancelled or crashed."""
        attempt, send = self._attempts.pop(target.arn, None), self._sends.pop(target.arn, None)
        error, attributes = _result(outcome)
        if send is not None:
            send.end(error, attributes)
        if attempt is not None:
            attempt.end(error, {} if send is not None else attributes)
        self._targets -= 1
        if self._targets == 0:
            self._job.end()


def trace_job(
    spans: Spans | None, notification: Notification | None, targets: int, failures: int, now_ms: int
) -> JobTrace | None:
    """The trace of a job with these targets, where its publish was traced."""
    if spans is None or notification is None or not targets or not is_sampled(notification.trace_context):
        return None
    return JobTrace(spans, notification, targets, failures, now_ms - notification.timestamp_ms)


def _result(outcome: Outcome | Deferral | None) -> tuple[str, dict[str, Value]]:
    if outcome is None:
        return "cancelled", {}
    if isinstance(outcome, Deferral):
        return "", {"cns.deferred": outcome.value}
    status: dict[str, Value] = {"http.response.status_code": outcome.status} if outcome.status else {}
    return (outcome.cause.value if isinstance(outcome, Failed) else ""), status
