"""Counts attempts and deliveries, and measures how long they take."""

from __future__ import annotations

from collections.abc import Iterable

from cns.delivery.observers.contract import Answer, AttemptObserver, ObservedJob
from cns.delivery.target import Target
from cns.endpoints.outcome import Failed, Outcome
from cns_common.metrics.catalogue import ATTEMPTS_FAILED, DELIVERIES, DELIVERY_ATTEMPT_SECONDS, DELIVERY_SECONDS
from cns_common.metrics.histogram import Histogram
from cns_common.metrics.model import Counters, Sample

DELIVERY_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600)
ATTEMPT_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30)
"""An attempt over HTTP ends after 15 s."""


class DeliveryMetrics(Counters, AttemptObserver):
    """Since the process started. It delivers to endpoints of these protocols."""

    def __init__(self, protocols: Iterable[str]) -> None:
        super().__init__()
        self.delivery_times = Histogram(DELIVERY_SECONDS, DELIVERY_BOUNDS_S)
        """From publish to accepted delivery."""
        self.attempts = Histogram(DELIVERY_ATTEMPT_SECONDS, ATTEMPT_BOUNDS_S)
        self.start(DELIVERIES, protocol=protocols)

    def answered(self, job: ObservedJob, target: Target, outcome: Outcome, at_ms: int) -> None:
        cause = outcome.cause.value if isinstance(outcome, Failed) else ""
        if cause:
            self.add(ATTEMPTS_FAILED, protocol=target.protocol, cause=cause)
        self.attempts.observe(outcome.dwell_ms / 1000, target.protocol, "failed" if cause else "accepted")

    def delivered(self, job: ObservedJob, target: Target, answer: Answer) -> None:
        self.add(DELIVERIES, protocol=target.protocol)
        if job.notification is not None and not job.replayed:
            attempt = "later" if job.failures else "first"
            self.delivery_times.observe((answer.at_ms - job.published_ms) / 1000, target.protocol, attempt)

    def samples(self) -> list[Sample]:
        return [*super().samples(), *self.delivery_times.samples(), *self.attempts.samples()]
