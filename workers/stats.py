"""What the worker counts: deliveries, failures by cause, drops by cause. Reported to the store host once a second."""

from __future__ import annotations

from cns.delivery.jobs import INTERNAL_QUEUES
from cns.delivery.retry_policy import Phase
from cns.endpoints.outcome import Cause
from cns.subscriptions.endpoint_syntax import PROTOCOLS
from cns_common.metrics.catalogue import (
    ATTEMPTS_FAILED,
    DEAD_LETTERED,
    DELIVERIES,
    DROPPED,
    JOB_LEASES_LOST,
    JOBS_FAILED,
    JOBS_QUARANTINED,
    RETRIES_SCHEDULED,
)
from cns_common.metrics.model import Counters
from workers.consumers.retry_decision import End
from workers.latency import Latency

DEADLINES = ("deadline_while_open", "deadline_while_throttled")
_ENDED = tuple(f"{end}:{cause}" for end in End for cause in Cause)


class Stats(Counters):
    """Counters since the worker started."""

    def __init__(self) -> None:
        super().__init__()
        self.latency = Latency()
        self.start(DELIVERIES, protocol=PROTOCOLS)
        self.start(RETRIES_SCHEDULED, phase=Phase)
        self.start(DEAD_LETTERED, cause=(*_ENDED, *DEADLINES))
        refused = (f"dead_letter_queue_refused:{cause}" for cause in (*Cause, *DEADLINES))
        self.start(DROPPED, cause=(*_ENDED, *DEADLINES, *refused, "subscription_gone", "notification_lost"))
        for metric in (JOBS_FAILED, JOB_LEASES_LOST, JOBS_QUARANTINED):
            self.start(metric, queue=INTERNAL_QUEUES)

    def delivered(self, protocol: str) -> None:
        self.add(DELIVERIES, protocol=protocol)

    def failed(self, protocol: str, cause: str) -> None:
        self.add(ATTEMPTS_FAILED, protocol=protocol, cause=cause)

    def retried(self, phase: str) -> None:
        self.add(RETRIES_SCHEDULED, phase=phase)

    def dead_lettered(self, cause: str) -> None:
        self.add(DEAD_LETTERED, cause=cause)

    def dropped(self, cause: str, n: int = 1) -> None:
        """A notification that one subscription will never get, and has no dead-letter queue for."""
        self.add(DROPPED, n, cause=cause)

    def quarantined(self, queue: str) -> None:
        self.add(JOBS_QUARANTINED, queue=queue)

    def crashed(self, queue: str) -> None:
        """A job that failed by our own fault; it comes back when its lease ends."""
        self.add(JOBS_FAILED, queue=queue)

    def lease_lost(self, queue: str) -> None:
        """A cause of duplicates: the job was taken from us before it was settled."""
        self.add(JOB_LEASES_LOST, queue=queue)
