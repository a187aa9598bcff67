"""Records the spans of traced publishes: each job, each attempt, and the request that an attempt sends."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import msgspec

from cns.delivery.observers.contract import AttemptObserver, Deferral, ObservedJob
from cns.delivery.target import Target
from cns.endpoints.outcome import Failed, Outcome
from cns.protocols.table import find_protocol
from cns_common.traces.context import is_sampled
from cns_common.traces.contract import Span, Spans, Value


class _JobTrace(msgspec.Struct):
    """The job's span ends with the last of its targets."""

    span: Span
    message: dict[str, Value]
    targets: int  # whose attempt has not ended
    attempts: dict[str, Span] = {}  # by subscription ARN
    sends: dict[str, Span] = {}


class AttemptSpans(AttemptObserver):
    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._traces: WeakKeyDictionary[ObservedJob, _JobTrace] = WeakKeyDictionary()  # of traced publishes

    def before_job(self, job: ObservedJob, targets: int, now_ms: int) -> None:
        notification = job.notification
        if notification is None or not targets or not is_sampled(notification.trace_context):
            return
        message: dict[str, Value] = {
            "messaging.message.id": notification.id,
            "messaging.destination.name": notification.topic_arn,
        }
        waited_ms = now_ms - notification.timestamp_ms
        attributes: dict[str, Value] = {**message, "cns.targets": targets, "cns.waited_ms": waited_ms}
        span = self._spans.start("deliver job", "consumer", notification.trace_context, attributes)
        self._traces[job] = _JobTrace(span, message, targets)

    def before_attempt(self, job: ObservedJob, target: Target) -> None:
        trace = self._traces.get(job)
        if trace is None:
            return
        attributes: dict[str, Value] = {
            **trace.message,
            "cns.subscription": target.arn,
            "cns.protocol": target.protocol,
            "cns.endpoint": target.endpoint_name,
            "cns.attempt": job.failures + 1,
        }
        trace.attempts[target.arn] = self._spans.start("delivery attempt", "internal", trace.span.context, attributes)

    def before_send(self, job: ObservedJob, target: Target) -> None:
        trace = self._traces.get(job)
        if trace is None:
            return
        if target.arn not in trace.attempts:  # out of a lane: it does not wait
            self.before_attempt(job, target)
        protocol = find_protocol(target.protocol)
        name, kind = protocol.span or (protocol.name, "client")
        attributes: dict[str, Value] = {"server.address": target.endpoint_name}
        if name == "POST":
            attributes["http.request.method"] = name
        span = self._spans.start(name, kind, trace.attempts[target.arn].context, attributes)
        trace.sends[target.arn] = span
        job.trace_contexts[target.arn] = span.context

    def after_attempt(self, job: ObservedJob, target: Target, outcome: Outcome | Deferral | None) -> None:
        trace = self._traces.get(job)
        if trace is None:
            return
        attempt, send = trace.attempts.pop(target.arn, None), trace.sends.pop(target.arn, None)
        error, attributes = _result(outcome)
        if send is not None:
            send.end(error, attributes)
        if attempt is not None:
            attempt.end(error, {} if send is not None else attributes)
        trace.targets -= 1
        if trace.targets == 0:
            trace.span.end()


def _result(outcome: Outcome | Deferral | None) -> tuple[str, dict[str, Value]]:
    if outcome is None:
        return "cancelled", {}
    if isinstance(outcome, Deferral):
        return "", {"cns.deferred": outcome.value}
    status: dict[str, Value] = {"http.response.status_code": outcome.status} if outcome.status else {}
    return (outcome.cause.value if isinstance(outcome, Failed) else ""), status
