"""A worker's counters: deliveries, failures and drops by cause, jobs. The worker reports them every second."""

from __future__ import annotations

from collections import deque

from cns.delivery.failure_causes import DEADLINES, End, FinalCause, is_of_concern
from cns.delivery.jobs import INTERNAL_QUEUES
from cns.delivery.observers.contract import ObservedJob
from cns.delivery.observers.metrics import DeliveryMetrics
from cns.delivery.retry_policy import Phase
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause
from cns.protocols.table import PROTOCOLS
from cns_common.metrics.catalogue import (
    DEAD_LETTERED,
    DROPPED,
    DROPPED_RECENTLY,
    FANOUT_SECONDS,
    JOB_LEASES_LOST,
    JOB_WAIT_SECONDS,
    JOBS_FAILED,
    JOBS_QUARANTINED,
    RETRIES_SCHEDULED,
)
from cns_common.metrics.histogram import Histogram
from cns_common.metrics.model import Sample

WAIT_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600)
RECENT_MS = 600_000
_ENDED = tuple(f"{end}:{cause}" for end in (End.SPENT, End.PERMANENT) for cause in Cause)


class Stats(DeliveryMetrics):
    """Counters since the worker started."""

    def __init__(self) -> None:
        super().__init__(PROTOCOLS)
        self.job_waits = Histogram(JOB_WAIT_SECONDS, WAIT_BOUNDS_S)
        self.fanouts = Histogram(FANOUT_SECONDS, WAIT_BOUNDS_S)
        self._lost = 0  # since `dropped_recently` was last called
        self._losses: deque[tuple[int, int]] = deque()  # when, how many
        self.start(RETRIES_SCHEDULED, phase=Phase)
        self.start(DEAD_LETTERED, cause=(*_ENDED, *DEADLINES))
        refused = (f"{End.REFUSED}:{cause}" for cause in (*Cause, *DEADLINES))
        self.start(
            DROPPED, cause=(*_ENDED, *DEADLINES, *refused, FinalCause.SUBSCRIPTION_GONE, FinalCause.NOTIFICATION_LOST)
        )
        for metric in (JOBS_FAILED, JOB_LEASES_LOST, JOBS_QUARANTINED):
            self.start(metric, queue=INTERNAL_QUEUES)

    def dead_lettered(self, job: ObservedJob, target: Target, cause: str, at_ms: int) -> None:
        self.add(DEAD_LETTERED, cause=cause)

    def dropped(
        self, job: ObservedJob, subscription: str, target: Target | None, cause: str, reason: str, at_ms: int
    ) -> None:
        self.count_drop(cause)

    def count_retry(self, phase: str) -> None:
        self.add(RETRIES_SCHEDULED, phase=phase)

    def count_drop(self, cause: str, n: int = 1) -> None:
        """Count notifications that are neither delivered to a subscription nor sent to a dead-letter queue."""
        self.add(DROPPED, n, cause=cause)
        if is_of_concern(cause):
            self._lost += n

    def dropped_recently(self, now_ms: int) -> Sample:
        """The drops of the last `RECENT_MS` that somebody should look at. Called every second."""
        if self._lost:
            self._losses.append((now_ms, self._lost))
            self._lost = 0
        while self._losses and self._losses[0][0] <= now_ms - RECENT_MS:
            self._losses.popleft()
        return DROPPED_RECENTLY.sample(sum(n for _, n in self._losses))

    def count_quarantined_job(self, queue: str) -> None:
        self.add(JOBS_QUARANTINED, queue=queue)

    def count_job_failure(self, queue: str) -> None:
        """Count a job that failed by a defect of ours or an absent store. It comes back when its lease runs out."""
        self.add(JOBS_FAILED, queue=queue)

    def count_lost_lease(self, queue: str) -> None:
        """Count a job whose lease ran out before it was settled: its work may be done twice."""
        self.add(JOB_LEASES_LOST, queue=queue)
