"""Picks the positions that receives are to take: each at random from the oldest K visible ones.

Receives of this process never pick one message twice; those of other processes may pick the same, since no lock is
taken. Receives that arrive during a read share the next one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from cns_common.cassandra.session import Consistency
from cns_common.clock import Clock
from cqs.engines.bdqs import schema
from cqs.engines.bdqs.hidden import HiddenPositions
from cqs.engines.bdqs.ids import IndexRow, MessageKey, Position, generation_prefix, lowest_position, slot_name
from cqs.engines.bdqs.index import QueueIndex
from cqs.engines.bdqs.messages import gather_few
from cqs.engines.bdqs.slot_view import SlotView, SlotViews

READS_AT_ONCE = 4
COUNTED_AT_ONCE = 16
LATER_READS_MAX = 4
"""The most slots of the future read for the next due time. Without a hit, the start of the next slot is returned."""
LIST_INTERVAL_MS = 1_000
PAGE_MAX = 5_000


@dataclass(slots=True)
class Candidate:
    """A message that may be taken."""

    entry: IndexRow
    older: list[IndexRow] = field(default_factory=list)
    """Other positions of the message, all older than `entry`."""


@dataclass(slots=True, eq=False)
class PickRequest:
    """Compared by identity: two receives with the same parameters are two requests."""

    want: int
    now_ms: int
    except_for: Collection[MessageKey]
    wants_due: bool
    picked: list[Candidate] = field(default_factory=list)
    next_due_ms: int | None = None
    done: bool = False


class Picker:
    """The picker of one generation of a queue."""

    def __init__(self, queue_id: str, generation: int, index: QueueIndex, clock: Clock, dice: random.Random) -> None:
        self._queue_id = queue_id
        self._index = index
        self._clock = clock
        self._dice = dice
        self.views = SlotViews(generation)
        self.counted = SlotViews(generation)
        """For counts, which read all slots; a receive reads only those of its page of the list."""
        self.hidden = HiddenPositions(generation)
        self.first_slot = ""
        """The list has no slot before this one."""
        self.busy: set[MessageKey] = set()
        """Messages that receives of this process are taking."""
        self._lock = asyncio.Lock()
        self._count_lock = asyncio.Lock()
        self._waiting: list[PickRequest] = []
        self._last_page: list[str] = []
        """The last page read of the list, if more pages may follow."""

    async def pick(
        self,
        want: int,
        now_ms: int,
        k: int | None,
        level: Consistency,
        except_for: Collection[MessageKey] = (),
        *,
        wants_due: bool = True,
    ) -> PickRequest:
        """Pick up to `want` messages, which are `busy` until `release`. `k` is None for any order. If fewer are
        visible, `wants_due` also reads when the next one will be."""
        request = PickRequest(want, now_ms, except_for, wants_due)
        self._waiting.append(request)
        try:
            async with self._lock:
                if not request.done:
                    requests, self._waiting = self._waiting, []
                    try:
                        await self._serve(requests, k, level)
                    finally:
                        self._waiting += [one for one in requests if not one.done and one is not request]
        except BaseException:
            self.release(request.picked)
            raise
        finally:
            if request in self._waiting:
                self._waiting.remove(request)
        return request

    async def look(self, now_ms: int, n: int, level: Consistency) -> tuple[list[IndexRow], int | None]:
        """Find about `n` of the oldest visible positions, without taking them, and the next due time."""
        async with self._lock:
            await self._list(now_ms, level)
            found = await self._find(n, len(self.busy), now_ms, set(self.busy), level)
            return [one.entry for one in found[:n]], await self._next_due_ms(now_ms, level)

    async def first_visible(
        self, slots: Sequence[str], now_ms: int, level: Consistency, *, deep: bool
    ) -> list[IndexRow]:
        """The first visible position of each slot that has one; `slots` are all that are listed. Unless `deep`,
        positions that other processes wrote late may be missed."""
        self.counted.replace_listed(slots, generation_prefix(self.views.generation + 1))
        self.counted.learn(self.views)
        views = [self.counted.get(slot) for slot in slots]
        views = [view for view in views if not view.is_passed(now_ms, self._clock.monotonic_ms())]
        found: list[IndexRow] = []
        for at in range(0, len(views), COUNTED_AT_ONCE):
            some = views[at : at + COUNTED_AT_ONCE]
            async with self._count_lock:
                pages = await gather_few([self._read(view, now_ms, 1, level, deep=deep) for view in some])
            found += [page[0] for page in pages if page]
        self.views.note(found, new=False)  # written late by other processes
        return found

    def note(self, entries: Sequence[IndexRow], now_ms: int) -> None:
        """Record positions that this process wrote. Call it after the write: a read that begins then finds them."""
        self.views.note(entries)
        self.counted.note(entries, new=False)
        self.hidden.note(entries, now_ms)

    def release(self, picked: Sequence[Candidate]) -> None:
        self.busy -= {candidate.entry.message for candidate in picked}

    async def _serve(self, requests: Sequence[PickRequest], k: int | None, level: Consistency) -> None:
        now_ms = max(request.now_ms for request in requests)
        await self._list(now_ms, level)
        reach = k or schema.PAGE_ROWS
        busy = set(self.busy)  # a read may show positions of messages that are released meanwhile
        wanted = sum(request.want + len(request.except_for) for request in requests)
        need = min(wanted + reach - 1, PAGE_MAX)
        found = await self._find(need, len(busy), now_ms, busy, level)
        while not found and self._may_list_on():
            await self._read_list(now_ms, level)
            found = await self._find(need, len(busy), now_ms, busy, level)
        for request in requests:
            choice = [one for one in found if one.entry.message not in request.except_for]
            while choice and len(request.picked) < request.want:
                chosen = choice.pop(self._dice.randrange(min(reach, len(choice))))
                request.picked.append(chosen)
                found.remove(chosen)
                self.busy.add(chosen.entry.message)
        if any(len(one.picked) < one.want and (one.wants_due or not one.picked) for one in requests):
            due_ms = await self._next_due_ms(now_ms, level)
            for request in requests:
                request.next_due_ms = due_ms
        for request in requests:
            request.done = True

    async def _find(
        self, need: int, spare: int, now_ms: int, busy: Collection[MessageKey], level: Consistency
    ) -> list[Candidate]:
        """The oldest visible messages, at least `need` of them if that many exist."""
        found: dict[MessageKey, Candidate] = {}
        due = self.views.due(now_ms, self._clock.monotonic_ms())
        for at in range(0, len(due), READS_AT_ONCE):
            if len(found) >= need and _nth(found, need) <= due[at].lower_bound():
                break
            some = due[at : at + READS_AT_ONCE]
            limit = min(need + spare + 1, PAGE_MAX)
            for entries in await gather_few([self._read(view, now_ms, limit, level) for view in some]):
                for entry in entries:
                    if entry.message not in busy:
                        _add(found, entry)
        return sorted(found.values(), key=lambda one: one.entry.position)

    async def _read(
        self, view: SlotView, now_ms: int, limit: int, level: Consistency, *, deep: bool = True
    ) -> list[IndexRow]:
        now_ms = max(now_ms, view.read_to_ms)  # older if the caller waited for a read
        start = view.begin_read(now_ms, self._clock.monotonic_ms(), deep=deep)
        try:
            if view.window_ms > now_ms:
                entries = await self._index.read(self._queue_id, view.name, start, limit, level)
            else:
                entries = await self._index.read_visible(self._queue_id, view.name, start, now_ms, limit, level)
        except BaseException:
            view.failed_read()
            raise
        view.end_read(entries)
        return entries

    async def _next_due_ms(self, now_ms: int, level: Consistency) -> int | None:
        """When the next hidden message becomes visible, or earlier."""
        hidden = lowest_position(now_ms + 1)
        pages = await gather_few(
            [self._index.read(self._queue_id, view.name, hidden, 1, level) for view in self.views.present(now_ms)]
        )
        if any(pages):
            return min(page[0].position.due_ms for page in pages if page)
        later = self.views.later(now_ms, self._clock.monotonic_ms())
        for number, view in enumerate(later):
            if number == LATER_READS_MAX:
                return view.window_ms
            entries = await self._read(view, now_ms, 1, level)
            if entries:
                return entries[0].position.due_ms
        return None

    async def _list(self, now_ms: int, level: Consistency) -> None:
        """Read the list of slots again if the last reading is old."""
        views, monotonic_ms = self.views, self._clock.monotonic_ms()
        if (
            monotonic_ms - views.listed_monotonic_ms < LIST_INTERVAL_MS
            and now_ms - views.listed_now_ms < LIST_INTERVAL_MS
        ):
            return
        await self._read_list(now_ms, level)

    def _may_list_on(self) -> bool:
        """Whether all slots of the last page of the list are empty and another page may follow."""
        return bool(self._last_page) and self.views.are_empty(self._last_page)

    async def _read_list(self, now_ms: int, level: Consistency) -> None:
        """Read pages of the list until one has slots that are not empty, and the slots of the present."""
        views, monotonic_ms = self.views, self._clock.monotonic_ms()
        is_first = views.listed_now_ms < 0
        first = generation_prefix(views.generation) if is_first else views.lowest(now_ms)
        end = generation_prefix(views.generation + 1)
        present = slot_name(views.generation, now_ms - schema.RETIRE_MS, 0)
        page = await self._index.slots(self._queue_id, first, end, level)
        names = list(page)
        while is_long := len(page) == schema.PAGE_ROWS and page[-1] < present:
            if not views.are_empty(page):
                break
            page = await self._index.slots(self._queue_id, f"{page[-1]}0", end, level)
            names += page
        if is_long:  # a long backlog
            before = page[-1]
            names += await self._index.slots(self._queue_id, present, end, level)
        else:
            before = present
        self._last_page = page if is_long else []
        views.replace_listed(names, before)
        views.listed_monotonic_ms, views.listed_now_ms = monotonic_ms, now_ms


def _add(found: dict[MessageKey, Candidate], entry: IndexRow) -> None:
    other = found.get(entry.message)
    if other is None:
        found[entry.message] = Candidate(entry)
    elif other.entry.position.stamp < entry.position.stamp:
        other.older.append(other.entry)
        other.entry = entry
    elif other.entry != entry:
        other.older.append(entry)


def _nth(found: dict[MessageKey, Candidate], n: int) -> Position:
    return sorted(one.entry.position for one in found.values())[n - 1]
