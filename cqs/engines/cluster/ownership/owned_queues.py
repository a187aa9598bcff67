"""The queues that this process owns, and when each is checked again.

A check of an idle queue costs two statements, and the pause after it doubles while nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from cns_common.clock import Clock
from cqs.engines.cluster.ownership.processes import LiveProcesses
from cqs.engines.cluster.ownership.used_queues import NOBODY, SLICES, QueueUse, UsedQueues, slice_key, slice_of
from cqs.engines.cluster.rows import ListedBucket
from cqs.engines.contract import QueueRef

READ_INTERVAL_MS = 60_000
"""The pause between two reads of a slice. New uses are announced over Redis, and read at once."""
READ_INTERVAL_HEARD_MS = 600_000
PAUSE_MS_MIN = 60_000
PAUSE_MS_MAX = 1_920_000
PAUSES_IN_RETENTION = 4
"""The least number of checks of a queue within its retention period."""


AT_ONCE = 0
NEVER = 1 << 62
"""Times that have always passed, and that never pass, on every clock."""


class OwnedQueue:
    __slots__ = ("buckets", "due_ms", "generation", "last_examined", "oldest", "pause_ms", "q", "users")

    def __init__(self, q: QueueRef) -> None:
        self.q = q
        self.due_ms = AT_ONCE
        self.pause_ms = PAUSE_MS_MIN
        self.users: set[str] = set()
        self.generation = 0
        self.buckets: list[ListedBucket] | None = None  # at the last check
        self.oldest = ("", -1)  # the oldest sealed bucket, and the number up to which it has no messages
        self.last_examined = ""  # the sealed bucket that was last examined for being empty

    def begin_check(self) -> None:
        """Begin a check. A `hasten` from now on is not lost, even if it comes before `plan`."""
        self.due_ms = NEVER

    def plan(self, now_ms: int, buckets: list[ListedBucket], due_ms: int | None) -> None:
        """Plan the next check, after one that found these buckets; at `due_ms` something falls due."""
        self.pause_ms = min(self.pause_ms * 2, PAUSE_MS_MAX) if buckets == self.buckets else PAUSE_MS_MIN
        self.buckets = buckets
        pause_ms = min(self.pause_ms, max(PAUSE_MS_MIN, self.q.retention_ms // PAUSES_IN_RETENTION))
        self.hasten(now_ms + pause_ms if due_ms is None else min(now_ms + pause_ms, due_ms))

    def hasten(self, due_ms: int) -> None:
        self.due_ms = min(self.due_ms, due_ms)


class OwnedQueues:
    def __init__(self, used: UsedQueues, processes: LiveProcesses, clock: Clock) -> None:
        self._used = used
        self._processes = processes
        self._clock = clock
        self._slices: dict[int, dict[str, OwnedQueue]] = {}
        self._read_ms: dict[int, int] = {}
        self._live: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return sum(map(len, self._slices.values()))

    def get(self, queue_id: str) -> OwnedQueue | None:
        return self._slices.get(slice_of(queue_id), {}).get(queue_id)

    def schedule_check(self, queue_id: str) -> None:
        """Check the queue at once, if this process owns it: some of its buckets may be empty."""
        queue = self.get(queue_id)
        if queue is not None:
            queue.due_ms = AT_ONCE

    def schedule_read(self, numbers: Iterable[int]) -> None:
        """Read these slices again, if this process owns them: they have new uses."""
        for number in numbers:
            self._read_ms.pop(number, None)

    def forget(self, queue_id: str) -> None:
        self._slices.get(slice_of(queue_id), {}).pop(queue_id, None)

    async def refresh(self) -> list[QueueUse]:
        """Adapt to the live processes, and read the owned slices that are due. Returns the uses by dead processes."""
        if self._live != self._processes.live:
            self._live = self._processes.live
            self._read_ms.clear()  # a process that died may have used any queue
        owned = {number for number in range(SLICES) if self._processes.owns(slice_key(number))}
        for number in self._slices.keys() - owned:
            del self._slices[number]
        interval_ms = READ_INTERVAL_HEARD_MS if self._processes.hears else READ_INTERVAL_MS
        now_ms = self._clock.monotonic_ms()
        due = [number for number in owned if now_ms - self._read_ms.get(number, -interval_ms) >= interval_ms]
        uses: list[QueueUse] = []
        for number in due:
            read = await self._used.read(number)
            self._read_ms[number] = now_ms
            self._take(number, read)
            uses += read
        if any(self._is_dead(use) for use in uses):
            await self._processes.read()  # after the uses: their processes were alive before they wrote them
        return [use for use in uses if self._is_dead(use)]

    def _is_dead(self, use: QueueUse) -> bool:
        return use.node != NOBODY and use.node not in self._processes.live

    def _take(self, number: int, uses: list[QueueUse]) -> None:
        before = self._slices.get(number, {})
        taken = self._slices[number] = {}
        for queue_id, some in groupby(uses, key=lambda use: use.q.id):
            of_queue = list(some)
            newest = max(of_queue, key=lambda use: use.q.version).q
            queue = taken[queue_id] = before.get(queue_id) or OwnedQueue(newest)
            if queue.q.retention_ms != newest.retention_ms:
                queue.hasten(self._clock.now_ms() + newest.retention_ms)
            queue.q = newest
            queue.users = {use.node for use in of_queue}

    def due(self, now_ms: int) -> list[OwnedQueue]:
        """The queues whose check is due, longest overdue first."""
        waiting = [queue for queues in self._slices.values() for queue in queues.values() if queue.due_ms <= now_ms]
        return sorted(waiting, key=lambda queue: queue.due_ms)
