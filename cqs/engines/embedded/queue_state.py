"""The state of a queue in memory: counts of messages by state, and the use of each tenant."""

from __future__ import annotations

import heapq

from cqs.engines.embedded.fairness import TenantUsage

BUCKET_MS = 100
"""Hidden messages are counted by the tenth of a second in which they become visible."""


class _Bucket:
    __slots__ = ("delayed", "in_flight", "tenants")

    def __init__(self) -> None:
        self.in_flight = 0
        self.delayed = 0
        self.tenants: dict[str, int] = {}


class HiddenHistogram:
    """Counts of messages in flight and delayed, by the time at which they become visible."""

    __slots__ = ("_buckets", "_heap", "delayed", "in_flight", "tenants")

    def __init__(self) -> None:
        self._buckets: dict[int, _Bucket] = {}
        self._heap: list[int] = []
        self.in_flight = 0
        self.delayed = 0
        self.tenants: TenantUsage | None = None  # of a fair queue only

    def add(self, now_ms: int, visible_at_ms: int, delivered: bool, tenant: str = "", n: int = 1) -> None:
        """`n` more messages (fewer, if negative) are hidden until `visible_at_ms`."""
        self.expire(now_ms)  # until now, what ended before was not in flight
        key = visible_at_ms // BUCKET_MS
        bucket = self._buckets.get(key)
        if bucket is None:
            if n < 0:
                return  # that time has passed: `expire` removed them already
            bucket = self._buckets[key] = _Bucket()
            heapq.heappush(self._heap, key)
        if not delivered:
            bucket.delayed += n
            self.delayed += n
            return
        bucket.in_flight += n
        self.in_flight += n
        if self.tenants is not None:
            bucket.tenants[tenant] = bucket.tenants.get(tenant, 0) + n
            self.tenants.change(tenant, n, now_ms)

    def remove(self, now_ms: int, visible_at_ms: int, delivered: bool, tenant: str = "") -> None:
        self.add(now_ms, visible_at_ms, delivered, tenant, -1)

    def expire(self, now_ms: int) -> None:
        """Remove the messages that are visible by now, except those of the current tenth of a second."""
        limit = now_ms // BUCKET_MS
        while self._heap and self._heap[0] < limit:
            key = heapq.heappop(self._heap)
            bucket = self._buckets.pop(key)
            self.in_flight -= bucket.in_flight
            self.delayed -= bucket.delayed
            if self.tenants is not None:
                for tenant, n in bucket.tenants.items():
                    self.tenants.change(tenant, -n, (key + 1) * BUCKET_MS)

    def ending(self, now_ms: int) -> tuple[int, int, int]:
        """(in flight, delayed) of the current tenth of a second, and the time at which it ends."""
        key = now_ms // BUCKET_MS
        bucket = self._buckets.get(key)
        in_flight, delayed = (bucket.in_flight, bucket.delayed) if bucket is not None else (0, 0)
        return in_flight, delayed, (key + 1) * BUCKET_MS

    def noisy(self, now_ms: int) -> dict[str, int]:
        return {} if self.tenants is None else self.tenants.noisy(now_ms)

    def become_fair(self) -> None:
        """Count by tenant from now on. Messages in flight now count for no tenant."""
        if self.tenants is not None:
            return
        self.tenants = TenantUsage()
        self.tenants.change("", self.in_flight, 0)
        for bucket in self._buckets.values():
            bucket.tenants[""] = bucket.in_flight


class QueueState:
    """The current generation of a queue: its row in `lines`, and what the row does not say."""

    __slots__ = (
        "audit",
        "fair",
        "generation",
        "hidden",
        "id",
        "known_empty",
        "retention_ms",
        "stored_counters",
        "tenant_cursor",
        "total",
        "version",
    )

    def __init__(self, generation: int, queue_id: str, total: int, fair: bool, retention_ms: int, audit: str) -> None:
        self.generation = generation
        self.id = queue_id
        self.total = total
        self.fair = fair
        self.retention_ms = retention_ms
        self.audit = audit
        self.version = 0  # of the attributes that retention and audit are from; 0 for those in the table
        self.hidden = HiddenHistogram()
        self.known_empty = False  # no message is stored: a receive found none, and none was sent since
        self.tenant_cursor = ""  # the last tenant examined by a receive that looked for quiet tenants
        self.stored_counters = (total, fair, retention_ms, audit)  # as in the table

    @property
    def counters(self) -> tuple[int, bool, int, str]:
        return (self.total, self.fair, self.retention_ms, self.audit)
