"""What the store host keeps in memory of a line: counts by state, tenants in flight, and who waits for messages."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable

from common.clock import Clock, Timer
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


class Waiter:
    """One long poll on one queue. `notify` is called from the store host's loop when it should receive."""

    __slots__ = ("_host", "closed", "notify", "queue", "woken")

    def __init__(self, host: Waiters, queue: str, notify: Callable[[], None]) -> None:
        self._host = host
        self.queue = queue
        self.notify = notify
        self.woken = False
        self.closed = False

    def rearm(self) -> None:
        """Wait again, behind those who wait already."""
        if self.woken and not self.closed:
            self.woken = False
            self._host.join(self)

    def pass_on(self) -> None:
        self._host.wake(self.queue, 1)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self.woken:
            self.pass_on()  # it was to fetch a message and will not
        else:
            self._host.leave(self)


class Waiters:
    """Everybody who waits, by queue; wakes as many as there are messages, and sets a timer for the next that is due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: dict[str, OrderedDict[Waiter, None]] = {}
        self._timers: dict[str, Timer] = {}

    def __contains__(self, queue: str) -> bool:
        return queue in self._queues

    def __len__(self) -> int:
        return sum(len(waiters) for waiters in self._queues.values())

    def join(self, waiter: Waiter) -> None:
        self._queues.setdefault(waiter.queue, OrderedDict())[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        waiters = self._queues.get(waiter.queue)
        if waiters is None:
            return
        waiters.pop(waiter, None)
        if not waiters:
            self._forget(waiter.queue)

    def wake(self, queue: str, n: int) -> None:
        waiters = self._queues.get(queue)
        while waiters and n > 0:
            waiter, _ = waiters.popitem(last=False)
            waiter.woken = True
            waiter.notify()
            n -= 1
        if not waiters:
            self._forget(queue)

    def wake_all(self, queue: str) -> None:
        self.wake(queue, len(self._queues.get(queue, ())))

    def wake_at(self, queue: str, due_ms: int) -> None:
        """One waiter is called when `due_ms` has come, unless something is due sooner."""
        timer = self._timers.get(queue)
        if timer is not None:
            if timer.at_ms == due_ms:
                return
            timer.cancel()
        self._timers[queue] = self._clock.call_at(due_ms, lambda: self._due(queue))

    def _due(self, queue: str) -> None:
        self._timers.pop(queue, None)
        self.wake(queue, 1)

    def _forget(self, queue: str) -> None:
        self._queues.pop(queue, None)
        timer = self._timers.pop(queue, None)
        if timer is not None:
            timer.cancel()
