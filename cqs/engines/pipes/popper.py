"""The popper of one queue in one process: finds pipes, takes leases on them, and pops messages (seed 003).

It keeps a pipe while the lease is renewed and the pipe has messages, or, with `PopMode` `turns`, for one receive. Pops
of waiting messages need no condition: only the owner pops them, and a pop that arrives after its lease has ended has a
lower write timestamp than those of the next owner. A message that was delivered before is popped by a conditional
write, by any popper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.contract import IN_FLIGHT_MAX, QueueRef, ReceiveResult
from cqs.engines.pipes import schema
from cqs.engines.pipes.conditional_writes import ConditionalWrites
from cqs.engines.pipes.delivery import PipeDeliveryBuilder, PopRequest
from cqs.engines.pipes.names import PipeLocation, first_name, start_of
from cqs.engines.pipes.options import PipeOptions
from cqs.engines.pipes.ownership import Ownership
from cqs.engines.pipes.rows import ListedPipe, PipeRows
from cqs.engines.pipes.selection import SelectedMessage, take_in_turn, take_oldest
from cqs.engines.pipes.view import Item, PipeView

PENDING_AGE_MS_MAX = 1_000
"""A pipe's delivered messages are read again after this time: other processes change and delete them."""
OVER_AGE_MS_MAX = 10_000
"""The same for a pipe that is over (finished and empty): the reaper may restore a message."""
READ_AT_ONCE = 32
ROUNDS_MAX = 20
"""Rounds without a message to return that one receive makes before it returns nothing."""
ANNOUNCED_MS = 5_000
LIST_ALL_MS = 10_000
START_SKEW_MS = 120_000


@dataclass(slots=True, kw_only=True)
class WaitingPop:
    q: QueueRef
    options: PipeOptions
    want: int
    visible_at_ms: int
    now_ms: int

    def later(self, ms: int) -> WaitingPop:
        """The same request when so much time has passed, which must not shorten the visibility timeout."""
        return replace(self, visible_at_ms=self.visible_at_ms + ms, now_ms=self.now_ms + ms)


class Popper:
    def __init__(
        self, rows: PipeRows, writes: ConditionalWrites, clock: Clock, queue_id: str, generation: int, node: str
    ) -> None:
        self.generation = generation
        self.used_ms = clock.monotonic_ms()
        self._rows = rows
        self._clock = clock
        self._queue_id = queue_id
        self._ownership = Ownership(rows, queue_id, node)
        self._delivery_builder = PipeDeliveryBuilder(writes, rows, self._ownership, self._leased, clock)
        self._whole = PipeView(schema.WHOLE, clock)
        self._locks_queue = False
        self._views: dict[str, PipeView] = {}
        self._lock = asyncio.Lock()
        self._looks = 0
        self._looked_ms = -1  # the message time of the last look; -1: none since a release
        self._served = ""
        self._announced: dict[PipeLocation, int] = {}
        self._receives = 0  # under way
        self._list_after = ""
        self._listed_all_ms: int | None = None  # on the monotonic clock

    # -- receiving ----------------------------------------------------------------------------------------------------

    async def receive(self, request: WaitingPop) -> ReceiveResult:
        self.used_ms = self._clock.monotonic_ms()
        self._locks_queue = request.options.locks_queue
        self._receives += 1
        try:
            if not request.options.releases_at_once:
                return await self._receive(request)
            async with self._lock:
                try:
                    return await self._receive(request)
                finally:
                    await self._release()
        finally:
            self._receives -= 1

    async def _receive(self, first: WaitingPop) -> ReceiveResult:
        begun_ms, request = self._clock.monotonic_ms(), first
        for _ in range(ROUNDS_MAX):
            room = IN_FLIGHT_MAX - self._in_flight(request.now_ms)
            if room <= 0:
                return ReceiveResult(limit_reached=True)
            taken = await self._take(request, min(request.want, room))
            if not taken:
                return ReceiveResult(next_due_ms=self.next_due_ms(request.now_ms))
            current = taken
            if any(one.item.born_at_ms <= request.now_ms - request.q.retention_ms for one in taken):
                try:
                    current = await self._expire(request, taken)
                except BaseException:
                    for one in taken:
                        one.view.give_back(one.item)
                    raise
            pop = PopRequest(request.q, request.visible_at_ms, request.now_ms)
            popping = asyncio.create_task(self._delivery_builder.pop(pop, current))
            try:
                messages, spent = await asyncio.shield(popping)  # a cancelled receive must not cut off a pop
            except CnsError:
                self._announced.clear()  # a waiter that was woken for the messages did not get them
                raise
            if messages or spent:
                return ReceiveResult(tuple(messages), tuple(spent), self.next_due_ms(request.now_ms))
            request = first.later(self._clock.monotonic_ms() - begun_ms)
        return ReceiveResult()

    async def _take(self, request: WaitingPop, want: int) -> list[SelectedMessage]:
        """Reserve messages: from the pipes as they are known, if these are enough; else after a look at the pipes."""
        if request.options.releases_at_once:
            await self._look(request.options, request.now_ms)
            return self._select(request, want)
        taken = self._select(request, want)
        if len(taken) == want and all(map(self._is_sure, taken)) and not self._lapsed():
            return taken
        for one in taken:
            one.view.give_back(one.item)
        before = self._looks
        async with self._lock:
            if self._looks == before:  # else another receive looked after this one began
                await self._look(request.options, request.now_ms)
            return self._select(request, want)

    def _is_sure(self, one: SelectedMessage) -> bool:
        """Whether no message that was due before can have arrived since the last look, and the lease need not be
        renewed."""
        is_first = one.item.due_ms <= self._looked_ms
        return is_first and not (one.item.waits and self._leased(one.view).lease.is_due)

    def _lapsed(self) -> bool:
        """Whether older messages may wait in a pipe whose lease this popper held and must take again."""
        leases = [self._leased(view).lease for view in self._views.values() if view.waiting]
        return any(lease.held and not lease.is_certain for lease in leases)

    def _select(self, request: WaitingPop, want: int) -> list[SelectedMessage]:
        def first(view: PipeView) -> Item | None:
            item = view.first(can_pop_waiting=self.may_pop(view))
            return item if item is not None and item.due_ms <= request.now_ms else None

        views = [view for _, view in sorted(self._views.items()) if first(view) is not None]
        width = request.options.width
        if not request.options.turns:
            return take_oldest(views[:width], want, first)
        taken = take_in_turn(views[:width], want, first, self._served)
        if taken:
            self._served = taken[-1].view.name
        return taken

    async def _expire(self, request: WaitingPop, taken: Sequence[SelectedMessage]) -> list[SelectedMessage]:
        """Remove the expired ones of these messages, and all other expired messages of their pipes. Returns the
        rest."""
        oldest_ms = await self._rows.retentions.oldest_ms(request, request.now_ms)
        expired = [one for one in taken if one.item.born_at_ms <= oldest_ms]
        if not expired:
            return list(taken)
        places = {(one.view, one.item.place) for one in expired}
        for view in {one.view for one in expired}:
            places |= {(view, place) for place in view.expired(oldest_ms, request.now_ms)}
        locations = sorted(PipeLocation(view.name, place) for view, place in places)
        await self._rows.expire(request.q, locations, request.now_ms)
        for view, place in places:
            view.remove(place)
        return [one for one in taken if one.item.born_at_ms > oldest_ms]

    # -- finding messages ---------------------------------------------------------------------------------------------

    def may_pop(self, view: PipeView) -> bool:
        """Whether this popper certainly has the lease on the pipe."""
        return self._leased(view).lease.is_certain

    def _leased(self, view: PipeView) -> PipeView:
        """Return the view whose lease covers the pipe: with a queue lock, that of the whole queue."""
        return self._whole if self._locks_queue else view

    async def _look(self, options: PipeOptions, now_ms: int, *, owns: bool = True) -> None:
        """Read the pipes, oldest first, until `width` of them have a message that this popper may take."""
        self._looks += 1
        self._looked_ms = now_ms
        if owns and self._locks_queue and not await self._own_whole():
            return
        found: set[str] = set()
        useful = 0
        after = self._list_from()
        async for page in self._rows.pipes(self._queue_id, self.generation, after):
            left = page
            while left and useful < options.width:
                n = min(READ_AT_ONCE, options.width - useful)
                views = [self._view(listed) for listed in left[:n]]
                finished = [listed.is_finished for listed in left[:n]]
                left = left[n:]
                found |= {view.name for view in views}
                await asyncio.gather(
                    *[self._refresh(*one, now_ms, owns=owns) for one in zip(views, finished, strict=True)]
                )
                useful += sum(self._has_visible(view, now_ms) for view in views)
            if useful >= options.width:
                return
        for name in [name for name in self._views.keys() - found if name > after]:  # they were removed
            del self._views[name]
        if not after:
            self._listed_all_ms = self._clock.monotonic_ms()
        oldest_ms = min((start_of(name) for name in found), default=now_ms)
        self._list_after = first_name(self.generation, oldest_ms - START_SKEW_MS)

    def _list_from(self) -> str:
        """The name after which to list pipes, to skip the tombstones of removed ones. Now and then all are listed: a
        name has the clock of the process that opened the pipe, so a new pipe may have an older name."""
        now_ms = self._clock.monotonic_ms()
        is_known = self._listed_all_ms is not None and now_ms - self._listed_all_ms < LIST_ALL_MS
        return self._list_after if is_known else ""

    async def _own_whole(self) -> bool:
        fence = self._whole.fence
        owns = await self._ownership.own_whole(self._whole)
        if owns and self._whole.fence != fence:
            for view in self._views.values():
                view.forget_all()
        return owns

    def _view(self, listed: ListedPipe) -> PipeView:
        view = self._views.get(listed.name)
        if view is None:
            view = self._views[listed.name] = PipeView(listed.name, self._clock)
        return view

    async def _refresh(self, view: PipeView, is_finished: bool, now_ms: int, *, owns: bool) -> None:
        """Read what is new in a pipe, and take the lease if visible messages wait in it."""
        await self._read(view, is_finished)
        if not owns or self._locks_queue or not view.waiting or (view.lease.is_certain and not view.lease.is_due):
            return
        item = view.first(can_pop_waiting=True)
        if item is not None and item.due_ms <= now_ms:
            fence = view.fence
            if await self._ownership.own(view) and view.fence != fence:
                await self._read(view, is_finished)

    async def _read(self, view: PipeView, is_finished: bool) -> None:
        """`is_finished` was listed before this read: if it is True, no message is added after the read."""
        misses = view.misses
        if not view.is_finished:
            view.add_waiting(await self._rows.waiting(self._queue_id, view.name, view.low))
            view.is_finished = is_finished and view.misses == misses
        begun_ms, tick, misses = self._clock.monotonic_ms(), view.tick, view.misses
        age_ms_max = OVER_AGE_MS_MAX if view.is_over else PENDING_AGE_MS_MAX
        if view.pending_read_ms is None or begun_ms - view.pending_read_ms > age_ms_max:
            rows = await self._rows.pending(self._queue_id, view.name)
            view.set_pending(rows, tick)
            view.pending_read_ms = begun_ms if view.misses == misses else None

    def _has_visible(self, view: PipeView, now_ms: int) -> bool:
        item = view.first(can_pop_waiting=self.may_pop(view))
        return item is not None and item.due_ms <= now_ms

    def next_due_ms(self, now_ms: int) -> int | None:
        """When the next message is visible; None if that is now, or not known."""
        dues = [due_ms for view in self._views.values() if (due_ms := view.next_due_ms()) is not None]
        return min((due_ms for due_ms in dues if due_ms > now_ms), default=None)

    def _in_flight(self, now_ms: int) -> int:
        """Return the number of messages in flight in known pipes, or 0 if it is certainly below IN_FLIGHT_MAX."""
        if sum(map(len, self._views.values())) < IN_FLIGHT_MAX:
            return 0
        return sum(view.in_flight(now_ms) for view in self._views.values())

    # -- what others do -----------------------------------------------------------------------------------------------

    def announce(self, locations: Iterable[PipeLocation]) -> None:
        """Note that waiters were woken for these messages."""
        now_ms = self._clock.monotonic_ms()
        self._announced |= dict.fromkeys(locations, now_ms)

    async def poll(self, options: PipeOptions, now_ms: int) -> int:
        """Look for waiters. Returns how many visible messages there are for which none was woken."""
        self._locks_queue = options.locks_queue
        keeps = not options.releases_at_once
        async with self._lock:
            begun_ms = self._clock.monotonic_ms()
            await self._look(options, now_ms, owns=keeps)
            visible = {
                PipeLocation(name, place)
                for name, view in self._views.items()
                for place in view.visible(now_ms, can_pop_waiting=self.may_pop(view) or not keeps)
            }
        self._announced = {
            location: at_ms
            for location, at_ms in self._announced.items()
            if at_ms >= begun_ms or (location in visible and begun_ms - at_ms < ANNOUNCED_MS)
        }
        new = visible - self._announced.keys()
        self.announce(new)
        return len(new)

    def note_delayed(self, pipes: Iterable[str]) -> None:
        """Note that delayed messages were pushed to these pipes."""
        for view in [self._views[pipe] for pipe in pipes if pipe in self._views]:
            view.miss()

    def note_deleted(self, location: PipeLocation) -> None:
        view = self._views.get(location.pipe)
        if view is not None:
            view.remove(location.place)

    def note_hidden(self, location: PipeLocation, due_ms: int) -> None:
        view = self._views.get(location.pipe)
        if view is not None:
            view.hide(location.place, due_ms)

    def over(self) -> list[str]:
        """The finished pipes without messages: the reaper may remove them."""
        return [name for name, view in self._views.items() if view.is_over]

    # -- giving leases up ---------------------------------------------------------------------------------------------

    async def release_if_idle(self, idle_ms: int) -> None:
        if not self._is_idle(idle_ms):
            return
        async with self._lock:
            if self._is_idle(idle_ms):  # else a receive began meanwhile
                await self._release()

    def _is_idle(self, idle_ms: int) -> bool:
        return not self._receives and self._clock.monotonic_ms() - self.used_ms > idle_ms

    async def close(self) -> None:
        async with self._lock:
            await self._release()

    async def _release(self) -> None:
        self._looked_ms = -1  # waiting messages are skipped until the leases are taken again
        await self._ownership.release((self._whole, *self._views.values()))
