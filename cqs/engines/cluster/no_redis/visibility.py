"""The visibility of one queue's messages in the memory of one process, for the buckets that it has claimed."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Sequence

from cqs.engines.cluster.cache_contract import (
    CachedMessage,
    LeaseRequest,
    LeaseResult,
    MaybeOutcome,
    MessageLease,
    cache_epoch,
)
from cqs.engines.cluster.ids import DeliveryKey, MessageLocation
from cqs.engines.contract import IN_FLIGHT_MAX, SPENT_HIDE_MS, Outcome

DELETE_MS_MAX = 40_000
"""A delete whose end was not reported within this time has ended, with or without success."""
READ_NOTE_MS = 1_000
"""A read sooner than this after the last noted one is not noted."""


class _Record:
    __slots__ = ("deliveries", "due_ms", "first_at_ms", "lease")

    def __init__(self, item: CachedMessage) -> None:
        self.due_ms = item.visible_at_ms
        self.deliveries = item.deliveries
        self.first_at_ms = item.first_at_ms
        self.lease = 0


class LocalVisibility:
    """One epoch of one queue. `trust` is the number of the processes' epoch (`View`)."""

    __slots__ = (
        "_deleting",
        "_heap",
        "_in_flight",
        "_lease",
        "_reads",
        "_records",
        "buckets",
        "epoch",
        "finished",
        "generation",
        "read_again_ms",
        "read_to_end",
        "used_ms",
    )

    def __init__(self, generation: int, now_ms: int, trust: int = 0) -> None:
        self.epoch = cache_epoch(trust)
        self.generation = generation
        self.buckets: dict[str, int] = {}  # claimed buckets, and the `seq` up to which no more rows can come
        self._reads: dict[str, deque[tuple[int, int]]] = {}  # (time of a read, the highest `seq` of that read)
        self.read_to_end: set[str] = set()  # claimed buckets that were read to their end
        self.finished: set[str] = set()  # those that were read to their end after their last row was written
        self.read_again_ms = 0  # when the rows should be read again
        self.used_ms = now_ms
        self._lease = 0
        self._records: dict[MessageLocation, _Record] = {}
        # (due, location); entries that differ from the record are skipped
        self._heap: list[tuple[int, MessageLocation]] = []
        self._in_flight: dict[MessageLocation, _Record] = {}
        # (deadline, record) of messages whose rows are being deleted, in the order of the deadlines
        self._deleting: dict[MessageLocation, tuple[int, _Record | None]] = {}

    def begin_bucket(self, bucket: str) -> None:
        self.buckets[bucket] = -1
        self._reads[bucket] = deque()

    def note_read(self, bucket: str, last_seq: int, read_ms: int, settled_ms: int) -> None:
        """Note the highest `seq` of a read. Rows before one that was read by `settled_ms` can no longer appear; this is
        judged by this process's clock, not by the writer's."""
        reads = self._reads[bucket]
        if not reads or (last_seq > reads[-1][1] and read_ms >= reads[-1][0] + READ_NOTE_MS):
            reads.append((read_ms, last_seq))
        while reads and reads[0][0] <= settled_ms:
            self.buckets[bucket] = max(self.buckets[bucket], reads.popleft()[1])

    def add(self, items: Sequence[CachedMessage], now_ms: int) -> list[CachedMessage]:
        """Add messages of claimed buckets. Returns those that were new.

        A read that began before a delete ends still finds the row: its message is not added.
        """
        added = [
            item
            for item in items
            if item.location.bucket in self.buckets
            and item.location not in self._records
            and item.location not in self._deleting
        ]
        for item in added:
            record = self._records[item.location] = _Record(item)
            if item.deliveries and item.visible_at_ms > now_ms:
                self._in_flight[item.location] = record  # leased by the process that had the claim before
            heapq.heappush(self._heap, (item.visible_at_ms, item.location))
        return added

    def lease(self, request: LeaseRequest) -> LeaseResult:
        room = IN_FLIGHT_MAX - self.count_in_flight(request.now_ms)
        if room <= 0:
            return LeaseResult(limit_reached=True)
        self._lease += 1
        locations: list[MessageLocation] = []
        soonest = self._soonest()
        while soonest is not None and soonest[0] <= request.now_ms and len(locations) < min(request.want, room):
            location = soonest[1]
            locations.append(location)
            self._records[location].due_ms = -1  # leased now: not a candidate any more
            soonest = self._soonest()
        leases = tuple([self._give(location, request) for location in locations])
        soonest = self._soonest()
        return LeaseResult(leases, None if soonest is None else soonest[0])

    def _give(self, location: MessageLocation, request: LeaseRequest) -> MessageLease:
        record = self._records[location]
        spent = 0 < request.max_receives <= record.deliveries
        record.lease = self._lease
        if not spent:
            record.deliveries += 1
            record.first_at_ms = record.first_at_ms or request.now_ms
        self._move(location, request.now_ms + SPENT_HIDE_MS if spent else request.visible_at_ms)
        self._in_flight[location] = record
        return MessageLease(
            DeliveryKey(self.epoch, self._lease, location), record.deliveries, record.first_at_ms, spent
        )

    def judge(self, key: DeliveryKey) -> MaybeOutcome:
        if key.location.bucket not in self.buckets:
            return None
        record = self._records.get(key.location)
        if record is None:
            return Outcome.GONE if key.location.bucket in self.read_to_end else None
        lease = key.lease if key.epoch == self.epoch else 0
        return Outcome.STALE if record.lease > lease and not (lease and key.any_lease) else Outcome.DONE

    def set_visible_at(self, location: MessageLocation, visible_at_ms: int) -> None:
        self._move(location, visible_at_ms)
        self._in_flight[location] = self._records[location]

    def postpone(self, location: MessageLocation, visible_at_ms: int) -> None:
        """Undo a lease: another process hid the message for longer."""
        record = self._records.get(location)
        if record is not None:
            record.deliveries -= 1
            self.set_visible_at(location, visible_at_ms)

    def undo_lease(self, lease: MessageLease, now_ms: int) -> None:
        location = lease.key.location
        record = self._records.get(location)
        if record is not None and (self.epoch, record.lease) == lease.key[:2]:
            record.deliveries -= not lease.spent
            record.lease = 0  # an earlier receiver of the message may still settle it
            record.first_at_ms = record.first_at_ms if record.deliveries else 0
            self._move(location, now_ms)

    def begin_delete(self, location: MessageLocation, now_ms: int) -> None:
        """Remove a message whose row is about to be deleted, until `end_delete` or `restore_undeleted`."""
        record = self._records.get(location)
        self.remove(location)
        self._deleting[location] = (now_ms + DELETE_MS_MAX, record)

    def end_delete(self, location: MessageLocation) -> None:
        """Record that the row is deleted, or that its delete failed."""
        self._deleting.pop(location, None)

    def restore_undeleted(self, now_ms: int) -> int:
        """Return messages whose delete was interrupted: their rows are not read again. If a row was deleted
        nevertheless, the next receive notices. Returns how many."""
        over = list(itertools.takewhile(lambda one: one[1][0] <= now_ms, self._deleting.items()))
        for location, (_, record) in over:
            del self._deleting[location]
            if record is not None and location not in self._records:
                self._records[location] = record
                self._move(location, record.due_ms)
                if record.deliveries:
                    self._in_flight[location] = record
        return len(over)

    def remove(self, location: MessageLocation) -> None:
        self._records.pop(location, None)
        self._in_flight.pop(location, None)

    def in_flight(self, now_ms: int) -> list[CachedMessage]:
        self.count_in_flight(now_ms)
        return [self._item(location) for location in self._in_flight]

    def items(self) -> list[CachedMessage]:
        return [self._item(location) for location in self._records]

    def count_in_flight(self, now_ms: int) -> int:
        for location in [location for location, record in self._in_flight.items() if record.due_ms <= now_ms]:
            del self._in_flight[location]
        return len(self._in_flight)

    def has_visible(self, want: int, now_ms: int) -> bool:
        """Whether `want` messages are visible. Visits no others."""
        ready, at = 0, [0]
        while at and ready < want:
            n = at.pop()
            if n < len(self._heap) and self._heap[n][0] <= now_ms:
                ready += self._is_current(*self._heap[n])
                at += (2 * n + 1, 2 * n + 2)
        return ready >= want

    def _item(self, location: MessageLocation) -> CachedMessage:
        record = self._records[location]
        return CachedMessage(location, record.due_ms, record.deliveries, record.first_at_ms)

    def _move(self, location: MessageLocation, due_ms: int) -> None:
        self._records[location].due_ms = due_ms
        heapq.heappush(self._heap, (due_ms, location))

    def _soonest(self) -> tuple[int, MessageLocation] | None:
        while self._heap and not self._is_current(*self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _is_current(self, due_ms: int, location: MessageLocation) -> bool:
        record = self._records.get(location)
        return record is not None and record.due_ms == due_ms
