"""What the worker counts: deliveries, failures by cause, drops by cause. Reported to the store host once a second."""

from __future__ import annotations

from cns_common.metrics import Counts
from workers.latency import Latency


class Stats(Counts):
    """Counters since the worker started, by the names of the metrics page."""

    def __init__(self) -> None:
        super().__init__()
        self.latency = Latency()

    def delivered(self, protocol: str) -> None:
        self.add("deliveries", protocol=protocol)

    def failed(self, protocol: str, cause: str) -> None:
        self.add("attempts_failed", protocol=protocol, cause=cause)

    def retried(self, phase: str) -> None:
        self.add("retries_planned", phase=phase)

    def dead_lettered(self, cause: str) -> None:
        self.add("dead_lettered", cause=cause)

    def dropped(self, cause: str, n: int = 1) -> None:
        """A notification that one subscription will never get, and has no dead-letter queue for."""
        self.add("notifications_dropped", n, cause=cause)

    def quarantined(self, queue: str) -> None:
        self.add("jobs_quarantined", queue=queue)

    def crashed(self, queue: str) -> None:
        """A job that failed by our own fault; it comes back when its lease ends."""
        self.add("jobs_failed", queue=queue)

    def lease_lost(self, queue: str) -> None:
        """A cause of duplicates: the job was taken from us before it was settled."""
        self.add("jobs_lease_lost", queue=queue)
