"""A pipe's messages as one popper knows them. A pop of a message whose row changed meanwhile fails."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from cns_common.clock import Clock
from cns_common.cluster.lease import Lease, LeaseTimes
from cqs.engines.pipes import schema

_TIMES = LeaseTimes(schema.OWNER_LEASE_CERTAIN_MS, schema.OWNER_LEASE_RENEW_MS)

EXPIRED_AT_ONCE = 1_000

WaitingRow = tuple[int, int, int, int, int]
"""place, due, born_at, deliveries, first_at"""
PendingRow = tuple[int, int, int, int, int, int]
"""place, lease, due, born_at, deliveries, first_at"""


class Item:
    """One message. It waits if it was neither delivered nor delayed."""

    __slots__ = ("born_at_ms", "changed", "deliveries", "due_ms", "first_at_ms", "lease", "place", "taken", "waits")

    def __init__(self, place: int, changed: int) -> None:
        self.place = place
        self.changed = changed  # the view's tick of the last change made here
        self.waits = False
        self.taken = False  # a pop of this process is under way
        self.lease = self.due_ms = self.born_at_ms = self.deliveries = self.first_at_ms = 0


class PipeView:
    """Items in the order in which they are due. A message that was rolled back is due when its lease ended, so it comes
    after all that were visible by then: at the tail."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.lease = Lease(clock, _TIMES)
        self.fence = 0
        self.is_finished = False  # read to its end after the push had finished
        self.pending_read_ms: int | None = None  # on the monotonic clock
        self.tick = 0
        self.misses = 0  # times that a read under way may miss something
        self._items: dict[int, Item] = {}
        self._heap: list[tuple[int, int]] = []  # (due, place); entries that differ from the item are skipped
        self._seen: set[int] = set()
        self._removed: dict[int, int] = {}  # place: the tick at which it was removed here
        self._low = 0  # all places below are known
        self.waiting = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def low(self) -> int:
        """Places before this one need not be read again."""
        while self._low in self._seen:
            self._low += 1
        return self._low

    @property
    def is_over(self) -> bool:
        """Whether the pipe is finished and has no messages."""
        return self.is_finished and not self._items

    def forget_all(self) -> None:
        """Forget all, to read it again: others may have popped meanwhile."""
        self._items.clear()
        self._heap.clear()
        self._seen.clear()
        self._removed.clear()
        self._low = self.waiting = 0
        self.is_finished = False
        self.pending_read_ms = None

    def add_waiting(self, rows: Iterable[WaitingRow]) -> None:
        for place, due_ms, born_at_ms, deliveries, first_at_ms in rows:
            if place in self._seen or due_ms is None:
                continue
            item = self._add(place)
            item.waits = True
            self.waiting += 1
            item.due_ms, item.born_at_ms, item.deliveries, item.first_at_ms = (
                due_ms,
                born_at_ms,
                deliveries,
                first_at_ms,
            )
            self.offer(item)

    def set_pending(self, rows: Iterable[PendingRow], tick: int) -> None:
        """Take over the rows that were read since `tick`, but not over later changes of this process."""
        found = set()
        for place, lease, due_ms, born_at_ms, deliveries, first_at_ms in rows:
            if due_ms is None or lease == schema.SETTLED:
                continue
            found.add(place)
            item = self._items.get(place)
            if item is None:
                if self._removed.get(place, 0) > tick:
                    continue  # deleted here since the read began; else the reaper has brought it back
                item = self._add(place)
            elif item.taken or item.changed > tick:
                continue
            self._ends_waiting(item)
            item.lease, item.due_ms, item.born_at_ms = lease, due_ms, born_at_ms
            item.deliveries, item.first_at_ms = deliveries, first_at_ms
            self.offer(item)
        for item in list(self._items.values()):
            if item.place not in found and not item.waits and not item.taken and item.changed <= tick:
                self.remove(item.place)

    def _add(self, place: int) -> Item:
        item = self._items[place] = Item(place, -1)
        self._seen.add(place)
        return item

    def offer(self, item: Item) -> None:
        heapq.heappush(self._heap, (item.due_ms, item.place))

    def first(self, *, can_pop_waiting: bool) -> Item | None:
        """The item that is due first. A waiting one is taken by the owner only."""
        passed = []
        found = None
        while self._heap:
            due_ms, place = self._heap[0]
            item = self._items.get(place)
            if item is None or item.due_ms != due_ms or item.taken:
                heapq.heappop(self._heap)
            elif item.waits and not can_pop_waiting:
                passed.append(heapq.heappop(self._heap))
            else:
                found = item
                break
        for entry in passed:
            heapq.heappush(self._heap, entry)
        return found

    def next_due_ms(self) -> int | None:
        """When the first pending item is due."""
        item = self.first(can_pop_waiting=False)
        return None if item is None else item.due_ms

    def holds(self, item: Item) -> bool:
        """Whether the item is still known: all are forgotten when the lease is taken anew."""
        return self._items.get(item.place) is item

    def take(self, item: Item) -> None:
        """Reserve an item for a pop of this process."""
        item.taken = True

    def give_back(self, item: Item) -> None:
        item.taken = False
        self.offer(item)

    def popped(self, item: Item, lease: int, due_ms: int) -> None:
        """The pop is done: `deliveries` and `first_at_ms` were set by the caller."""
        self.tick += 1
        item.taken, item.changed, item.lease, item.due_ms = False, self.tick, lease, due_ms
        self._ends_waiting(item)
        self.offer(item)

    def hide(self, place: int, due_ms: int) -> None:
        item = self._items.get(place)
        if item is not None:
            self.tick += 1
            item.due_ms, item.changed = due_ms, self.tick
            if not item.taken:
                self.offer(item)

    def remove(self, place: int) -> None:
        item = self._items.pop(place, None)
        if item is not None:
            self._ends_waiting(item)
        self._seen.add(place)
        self.tick += 1
        self._removed[place] = self.tick

    def read_again(self, item: Item) -> None:
        """Read the item again: the outcome of its pop is unknown."""
        self.remove(item.place)
        self._seen.discard(item.place)
        del self._removed[item.place]
        self._low = min(self._low, item.place)
        self.is_finished = False
        self.miss()

    def miss(self) -> None:
        """Read the pending messages at the next look: a read under way may miss one."""
        self.misses += 1
        self.pending_read_ms = None

    def in_flight(self, now_ms: int) -> int:
        return sum(item.lease != 0 and item.due_ms > now_ms for item in self._items.values())

    def visible(self, now_ms: int, *, can_pop_waiting: bool) -> list[int]:
        """The places of visible messages."""
        return [
            item.place
            for item in self._items.values()
            if item.due_ms <= now_ms and not item.taken and (can_pop_waiting or not item.waits)
        ]

    def expired(self, oldest_ms: int, now_ms: int) -> list[int]:
        """The places of messages born until then that are not in flight."""
        return [
            item.place
            for item in self._items.values()
            if item.born_at_ms <= oldest_ms and item.due_ms <= now_ms and not item.taken
        ][:EXPIRED_AT_ONCE]

    def _ends_waiting(self, item: Item) -> None:
        if item.waits:
            item.waits = False
            self.waiting -= 1
