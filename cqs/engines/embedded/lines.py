"""What the store host keeps in memory of a line: counts by state, and tenants in flight."""

from __future__ import annotations

import heapq

from cqs.engines.contract import NOISY_IN_FLIGHT_MIN, NOISY_SHARE

BUCKET_MS = 100
"""Hidden messages are counted by the tenth of a second in which they become visible."""


class _Bucket:
    __slots__ = ("delayed", "in_flight", "tenants")

    def __init__(self) -> None:
        self.in_flight = 0
        self.delayed = 0
        self.tenants: dict[str, int] = {}


class Hidden:
    """A histogram of due times: how many messages are in flight or delayed, and until when."""

    __slots__ = ("_buckets", "_heap", "delayed", "in_flight", "tenants")

    def __init__(self) -> None:
        self._buckets: dict[int, _Bucket] = {}
        self._heap: list[int] = []
        self.in_flight = 0
        self.delayed = 0
        self.tenants: dict[str, int] = {}  # in flight, by tenant

    def add(self, visible_at_ms: int, delivered: bool, tenant: str = "", n: int = 1) -> None:
        """`n` more (or, below zero, fewer) are hidden until `visible_at_ms`."""
        key = visible_at_ms // BUCKET_MS
        bucket = self._buckets.get(key)
        if bucket is None:
            if n < 0:
                return  # their time was up: `expire` has taken them out
            bucket = self._buckets[key] = _Bucket()
            heapq.heappush(self._heap, key)
        if not delivered:
            bucket.delayed += n
            self.delayed += n
            return
        bucket.in_flight += n
        self.in_flight += n
        if tenant:
            bucket.tenants[tenant] = bucket.tenants.get(tenant, 0) + n
            self._tenant(tenant, n)

    def remove(self, visible_at_ms: int, delivered: bool, tenant: str = "") -> None:
        self.add(visible_at_ms, delivered, tenant, -1)

    def expire(self, now_ms: int) -> None:
        """Take out all that is visible by now."""
        limit = now_ms // BUCKET_MS
        while self._heap and self._heap[0] < limit:
            bucket = self._buckets.pop(heapq.heappop(self._heap))
            self.in_flight -= bucket.in_flight
            self.delayed -= bucket.delayed
            for tenant, n in bucket.tenants.items():
                self._tenant(tenant, -n)

    def ending(self, now_ms: int) -> tuple[int, int, int]:
        """(in flight, delayed) as counted in the tenth of a second that is not over, and when it will be."""
        key = now_ms // BUCKET_MS
        bucket = self._buckets.get(key)
        in_flight, delayed = (bucket.in_flight, bucket.delayed) if bucket is not None else (0, 0)
        return in_flight, delayed, (key + 1) * BUCKET_MS

    def noisy(self) -> list[str]:
        """Tenants that hold so much of what is in flight that others should go first (SQS fair queues)."""
        least = max(NOISY_IN_FLIGHT_MIN, int(self.in_flight * NOISY_SHARE) + 1)
        return [tenant for tenant, n in self.tenants.items() if n >= least]

    def _tenant(self, tenant: str, n: int) -> None:
        left = self.tenants.get(tenant, 0) + n
        if left:
            self.tenants[tenant] = left
        else:
            self.tenants.pop(tenant, None)  # all of a bucket's may have been deleted before its time came


class Line:
    """The line a queue's messages stand in now."""

    __slots__ = ("fair", "hidden", "kept", "key", "queue", "retention_ms", "tenant_cursor", "total")

    def __init__(self, key: int, queue: str, total: int, fair: bool, retention_ms: int) -> None:
        self.key = key
        self.queue = queue
        self.total = total
        self.fair = fair
        self.retention_ms = retention_ms
        self.hidden = Hidden()
        self.tenant_cursor = ""  # where the last look for quiet tenants ended
        self.kept = (total, fair, retention_ms)  # what the table says

    @property
    def to_keep(self) -> tuple[int, bool, int]:
        return (self.total, self.fair, self.retention_ms)
