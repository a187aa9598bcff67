"""The cache in this process's memory: what the engine hides messages with while there is no Redis."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from common.ids import hex_id
from cqs.engines.contract import IN_FLIGHT_MAX, SPENT_HIDE_MS, Outcome
from cqs.engines.cqs.cache import DROPPED, FILLED, Counted, Item, Lease, Taken, Wish
from cqs.engines.cqs.places import Key, Place

EPOCH_DIGITS = 16
Tell = Callable[[str, int, int | None], None]


class _Record:
    __slots__ = ("deliveries", "due_ms", "first_at_ms", "lease")

    def __init__(self, item: Item) -> None:
        self.due_ms = item.visible_at_ms
        self.deliveries = item.deliveries
        self.first_at_ms = item.first_at_ms
        self.lease = 0


class _Shelf:
    """One queue's epoch."""

    __slots__ = ("_heap", "deleted", "epoch", "filled", "filler", "generation", "in_flight", "lease", "records")

    def __init__(self, generation: int, filler: str) -> None:
        self.epoch = hex_id()[:EPOCH_DIGITS]
        self.generation = generation
        self.filler = filler
        self.filled = False
        self.lease = 0
        self.records: dict[Place, _Record] = {}
        self.deleted: set[Place] = set()  # while the rest is filled in
        self._heap: list[tuple[int, Place]] = []  # entries that a record no longer agrees with are passed over
        self.in_flight: dict[Place, _Record] = {}

    def add(self, item: Item) -> bool:
        if item.place in self.records or item.place in self.deleted:
            return False
        self.records[item.place] = _Record(item)
        heapq.heappush(self._heap, (item.visible_at_ms, item.place))
        return True

    def move(self, place: Place, due_ms: int) -> None:
        self.records[place].due_ms = due_ms
        heapq.heappush(self._heap, (due_ms, place))

    def remove(self, place: Place) -> None:
        self.records.pop(place, None)
        self.in_flight.pop(place, None)
        if not self.filled:
            self.deleted.add(place)

    def soonest(self) -> tuple[int, Place] | None:
        while self._heap:
            due_ms, place = self._heap[0]
            record = self.records.get(place)
            if record is not None and record.due_ms == due_ms:
                return due_ms, place
            heapq.heappop(self._heap)
        return None

    def count_in_flight(self, now_ms: int) -> int:
        for place in [place for place, record in self.in_flight.items() if record.due_ms <= now_ms]:
            del self.in_flight[place]
        return len(self.in_flight)

    def count_visible(self, now_ms: int) -> int:
        return sum(record.due_ms <= now_ms for record in self.records.values())

    def judge(self, key: Key) -> Outcome | None:
        record = self.records.get(key.place)
        if record is None:
            return Outcome.GONE if self.filled else None
        lease = key.lease if key.epoch == self.epoch else 0
        return Outcome.STALE if record.lease > lease else Outcome.DONE


class MemoryCache:
    """See `Cache`. `tell` is called when messages of a queue become visible or are due."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._shelves: dict[str, _Shelf] = {}

    def clear(self) -> None:
        self._shelves.clear()

    async def add(self, queue: str, items: Sequence[Item], now_ms: int) -> int | None:
        shelf = self._shelves.get(queue)
        if shelf is None:
            return None
        if shelf.generation != DROPPED:
            self._add(queue, shelf, items, now_ms)
        return shelf.generation

    async def take(self, queue: str, wish: Wish) -> Taken | None:
        shelf = self._shelves.get(queue)
        if shelf is None:
            return None
        if shelf.generation == DROPPED:
            return Taken(dropped=True)
        room = IN_FLIGHT_MAX - shelf.count_in_flight(wish.now_ms)
        if room <= 0:
            return Taken(limit_reached=True)
        if wish.patient and not shelf.filled and shelf.count_visible(wish.now_ms) < wish.want:
            return Taken(filling=True)
        shelf.lease += 1
        places: list[Place] = []
        soonest = shelf.soonest()
        while soonest is not None and soonest[0] <= wish.now_ms and len(places) < min(wish.want, room):
            place = soonest[1]
            places.append(place)
            shelf.records[place].due_ms = -1  # taken: not the soonest any more
            soonest = shelf.soonest()
        leases = tuple([self._lease(shelf, place, wish) for place in places])
        soonest = shelf.soonest()
        return Taken(leases, None if soonest is None else soonest[0], filling=not shelf.filled)

    def _lease(self, shelf: _Shelf, place: Place, wish: Wish) -> Lease:
        record = shelf.records[place]
        spent = 0 < wish.max_receives <= record.deliveries
        record.lease = shelf.lease
        if not spent:
            record.deliveries += 1
            record.first_at_ms = record.first_at_ms or wish.now_ms
        shelf.move(place, wish.now_ms + SPENT_HIDE_MS if spent else wish.visible_at_ms)
        shelf.in_flight[place] = record
        return Lease(Key(shelf.epoch, shelf.lease, place), record.deliveries, record.first_at_ms, spent)

    async def release(self, queue: str, keys: Sequence[Key]) -> list[Outcome | None]:
        shelf = self._shelves.get(queue)
        if shelf is None:
            return [None] * len(keys)
        outcomes = []
        for key in keys:
            outcome = shelf.judge(key)
            if outcome is Outcome.DONE:
                shelf.remove(key.place)
            outcomes.append(outcome)
        return outcomes

    async def check(self, queue: str, key: Key) -> Outcome | None:
        shelf = self._shelves.get(queue)
        return None if shelf is None else shelf.judge(key)

    async def hide(self, queue: str, key: Key, visible_at_ms: int, now_ms: int) -> Outcome | None:
        shelf = self._shelves.get(queue)
        if shelf is None:
            return None
        outcome = shelf.judge(key)
        if outcome is Outcome.DONE and key.epoch == shelf.epoch and key.place in shelf.records:
            shelf.move(key.place, visible_at_ms)
            shelf.in_flight[key.place] = shelf.records[key.place]
            self._tell(queue, int(visible_at_ms <= now_ms), visible_at_ms)
        return outcome

    async def forget(self, queue: str, places: Sequence[Place]) -> None:
        shelf = self._shelves.get(queue)
        if shelf is not None:
            for place in places:
                shelf.remove(place)

    async def counts(self, queue: str, now_ms: int, *, patient: bool) -> Counted | None:
        shelf = self._shelves.get(queue)
        if shelf is None or (patient and not shelf.filled):
            return None
        in_flight = shelf.count_in_flight(now_ms)
        visible = shelf.count_visible(now_ms)
        return Counted(visible, in_flight, len(shelf.records) - visible - in_flight)

    async def page(self, queue: str, after: tuple[int, str], n: int, *, patient: bool) -> list[Item] | None:
        shelf = self._shelves.get(queue)
        if shelf is None or (patient and not shelf.filled):
            return None
        behind = [place for place, one in shelf.records.items() if (one.due_ms, place.member) > after]
        soonest = heapq.nsmallest(n, behind, key=lambda place: (shelf.records[place].due_ms, place))
        records = [(place, shelf.records[place]) for place in soonest]
        return [Item(place, one.due_ms, one.deliveries, one.first_at_ms) for place, one in records]

    async def begin(self, queue: str, generation: int, filler: str) -> int:
        shelf = self._shelves.get(queue)
        if shelf is None:
            shelf = self._shelves[queue] = _Shelf(generation, "")
        if shelf.filled:
            return FILLED
        shelf.filler = filler  # this process runs one fill a queue: a former one has ended
        return shelf.generation

    async def fill(self, queue: str, filler: str, items: Sequence[Item]) -> bool:
        shelf = self._shelves.get(queue)
        if shelf is None or shelf.filler != filler:
            return False
        self._add(queue, shelf, items, 0)
        return True

    async def filled(self, queue: str, filler: str) -> None:
        shelf = self._shelves.get(queue)
        if shelf is not None and shelf.filler == filler:
            shelf.filled = True
            shelf.deleted.clear()

    async def add_missing(self, queue: str, items: Sequence[Item], now_ms: int) -> int:
        shelf = self._shelves.get(queue)
        return 0 if shelf is None else self._add(queue, shelf, items, now_ms)

    async def reset(self, queue: str, generation: int) -> None:
        shelf = self._shelves[queue] = _Shelf(generation, "")
        shelf.filled = generation == DROPPED
        self._tell(queue, len(shelf.records) + 1_000_000, None)

    def _add(self, queue: str, shelf: _Shelf, items: Sequence[Item], now_ms: int) -> int:
        added = [item for item in items if shelf.add(item)]
        hidden = [item.visible_at_ms for item in added if item.visible_at_ms > now_ms]
        if added:
            self._tell(queue, len(added) - len(hidden), min(hidden, default=None))
        return len(added)
