"""What a process remembers of one queue while it hides messages itself: those of the buckets that it claimed."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from cns_common.ids import hex_id
from cqs.engines.cluster.cache_contract import EPOCH_DIGITS, Item, Lease, Taken, Verdict, Wish
from cqs.engines.cluster.ids import Key, Place
from cqs.engines.contract import IN_FLIGHT_MAX, SPENT_HIDE_MS, Outcome


class _Record:
    __slots__ = ("deliveries", "due_ms", "first_at_ms", "lease")

    def __init__(self, item: Item) -> None:
        self.due_ms = item.visible_at_ms
        self.deliveries = item.deliveries
        self.first_at_ms = item.first_at_ms
        self.lease = 0


class Shelf:
    """One life of one queue's hiding: its epoch."""

    __slots__ = (
        "_heap",
        "_in_flight",
        "_lease",
        "_records",
        "buckets",
        "ended",
        "epoch",
        "generation",
        "look_at_ms",
        "used_ms",
        "whole",
    )

    def __init__(self, generation: int, now_ms: int) -> None:
        self.epoch = hex_id()[:EPOCH_DIGITS]
        self.generation = generation
        self.buckets: dict[str, int] = {}  # claimed ones, and up to which number their rows have been read for good
        self.whole: set[str] = set()  # of those, the ones that were read to their end
        self.ended: set[str] = set()  # and the ones that were so after their last row was written
        self.look_at_ms = 0  # when the rows are worth another look
        self.used_ms = now_ms
        self._lease = 0
        self._records: dict[Place, _Record] = {}
        self._heap: list[tuple[int, Place]] = []  # entries that a record no longer agrees with are passed over
        self._in_flight: dict[Place, _Record] = {}

    def add(self, items: Sequence[Item], now_ms: int) -> list[Item]:
        """Returns those that are new and of buckets that are claimed."""
        added = [item for item in items if item.place not in self._records and item.place.bucket in self.buckets]
        for item in added:
            record = self._records[item.place] = _Record(item)
            if item.deliveries and item.visible_at_ms > now_ms:
                self._in_flight[item.place] = record  # somebody got it from who had the claim before
            heapq.heappush(self._heap, (item.visible_at_ms, item.place))
        return added

    def take(self, wish: Wish) -> Taken:
        room = IN_FLIGHT_MAX - self.count_in_flight(wish.now_ms)
        if room <= 0:
            return Taken(limit_reached=True)
        self._lease += 1
        places: list[Place] = []
        soonest = self._soonest()
        while soonest is not None and soonest[0] <= wish.now_ms and len(places) < min(wish.want, room):
            place = soonest[1]
            places.append(place)
            self._records[place].due_ms = -1  # taken: not the soonest any more
            soonest = self._soonest()
        leases = tuple([self._give(place, wish) for place in places])
        soonest = self._soonest()
        return Taken(leases, None if soonest is None else soonest[0])

    def _give(self, place: Place, wish: Wish) -> Lease:
        record = self._records[place]
        spent = 0 < wish.max_receives <= record.deliveries
        record.lease = self._lease
        if not spent:
            record.deliveries += 1
            record.first_at_ms = record.first_at_ms or wish.now_ms
        self._move(place, wish.now_ms + SPENT_HIDE_MS if spent else wish.visible_at_ms)
        self._in_flight[place] = record
        return Lease(Key(self.epoch, self._lease, place), record.deliveries, record.first_at_ms, spent)

    def judge(self, key: Key) -> Verdict:
        if key.place.bucket not in self.buckets:
            return None
        record = self._records.get(key.place)
        if record is None:
            return Outcome.GONE if key.place.bucket in self.whole else None
        lease = key.lease if key.epoch == self.epoch else 0
        return Outcome.STALE if record.lease > lease and not (lease and key.any_lease) else Outcome.DONE

    def hide(self, place: Place, visible_at_ms: int) -> None:
        self._move(place, visible_at_ms)
        self._in_flight[place] = self._records[place]

    def postpone(self, place: Place, visible_at_ms: int) -> None:
        """It was given out, and is not to be yet: another process moved it."""
        record = self._records.get(place)
        if record is not None:
            record.deliveries -= 1
            self.hide(place, visible_at_ms)

    def remove(self, place: Place) -> None:
        self._records.pop(place, None)
        self._in_flight.pop(place, None)

    def in_flight(self, now_ms: int) -> list[Item]:
        self.count_in_flight(now_ms)
        return [self._item(place) for place in self._in_flight]

    def items(self) -> list[Item]:
        return [self._item(place) for place in self._records]

    def count_in_flight(self, now_ms: int) -> int:
        for place in [place for place, record in self._in_flight.items() if record.due_ms <= now_ms]:
            del self._in_flight[place]
        return len(self._in_flight)

    def is_ready(self, want: int, now_ms: int) -> bool:
        """Whether there are so many visible messages; looks at no others."""
        ready, at = 0, [0]
        while at and ready < want:
            n = at.pop()
            if n < len(self._heap) and self._heap[n][0] <= now_ms:
                ready += self._is_current(*self._heap[n])
                at += (2 * n + 1, 2 * n + 2)
        return ready >= want

    def _item(self, place: Place) -> Item:
        record = self._records[place]
        return Item(place, record.due_ms, record.deliveries, record.first_at_ms)

    def _move(self, place: Place, due_ms: int) -> None:
        self._records[place].due_ms = due_ms
        heapq.heappush(self._heap, (due_ms, place))

    def _soonest(self) -> tuple[int, Place] | None:
        while self._heap and not self._is_current(*self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _is_current(self, due_ms: int, place: Place) -> bool:
        record = self._records.get(place)
        return record is not None and record.due_ms == due_ms
