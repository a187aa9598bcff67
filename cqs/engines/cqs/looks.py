"""How a process without Redis comes by its messages: it claims buckets where they are asked for, and reads their rows.

Claims move to where messages are asked for. Who gives a bucket back writes into the rows until when its messages are
hidden, so they come twice only when a process dies with its claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from common.clock import Clock
from common.errors import CnsError
from cqs.engines.cqs.cache import DROPPED, Item
from cqs.engines.cqs.claims import Claims
from cqs.engines.cqs.rows import Rows
from cqs.engines.cqs.shelf import Shelf
from cqs.engines.cqs.walks import RECONCILE_AGE_MS, buckets_of, has_messages, is_closed, items_of, sketches_of

LOOKS_AT_ONCE = 16
LOOK_AGAIN_MS = 100
LOOK_REST = 5
"""Between two looks at a queue's rows lies so many times what the first took."""
IDLE_MS = 2_000
"""A queue that nobody here has asked for messages so long is given back."""
SHOW_LIFE_MS = 1_000

Tell = Callable[[str, int, int | None], None]
log = structlog.get_logger(__name__)


class Looks:
    """`shelves` has what this process hides, by queue. `waiting` says whose messages are waited for here; `tell` is
    called when messages of a queue become visible or are due."""

    def __init__(self, rows: Rows, claims: Claims, clock: Clock, waiting: Callable[[], list[str]], tell: Tell) -> None:
        self._rows = rows
        self.claims = claims
        self._clock = clock
        self._waiting = waiting
        self._tell = tell
        self.shelves: dict[str, Shelf] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._show_at_ms = 0

    async def step(self) -> None:
        """What is to be done every now and then."""
        now_ms = self._clock.wall_ms()
        if now_ms >= self._show_at_ms or not self.claims.sure:
            was_sure = self.claims.sure
            await self.claims.show_life()
            self._show_at_ms = now_ms + SHOW_LIFE_MS
            if not was_sure:
                await self._leave_what_others_took()
        waited_for = self._waiting()
        for at in range(0, len(waited_for), LOOKS_AT_ONCE):
            await asyncio.gather(*[self.at(queue, 1) for queue in waited_for[at : at + LOOKS_AT_ONCE]])
        left_alone = self.shelves.keys() - set(waited_for)
        for queue, shelf in list(self.shelves.items()):
            if queue in left_alone and now_ms - shelf.used_ms > IDLE_MS and queue not in self._tasks:
                await self._alone(queue, self._give_back(queue, shelf))

    async def end(self) -> dict[str, list[Item]]:
        """Give everything back; returns what is hidden, by queue."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        hidden: dict[str, list[Item]] = {}
        for queue, shelf in list(self.shelves.items()):
            hidden[queue] = shelf.in_flight(self._clock.now_ms())
            await self._give_back(queue, shelf)
        return hidden

    async def at(self, queue: str, want: int) -> None:
        if queue in self._tasks:
            await self.rest(queue)  # it looks for all who ask
        else:
            await self._alone(queue, self._look(queue, want))

    async def rest(self, queue: str) -> None:
        """Returns when no look is under way, in whose midst a bucket is neither here nor there."""
        task = self._tasks.get(queue)
        if task is not None:
            await asyncio.wait({task})

    def soon(self, queue: str) -> None:
        """Something came into a bucket that is not claimed here: who waits here may have it."""
        shelf = self.shelves.get(queue)
        if shelf is not None:
            shelf.look_at_ms = 0
        if queue not in self._tasks and queue in self._waiting():
            self._begin(queue, self._look_for_waiters(queue))

    def bring(self, queue: str, shelf: Shelf, items: Sequence[Item]) -> int:
        now_ms = self._clock.now_ms()
        added = shelf.add(items, now_ms)
        later = [item.visible_at_ms for item in added if item.visible_at_ms > now_ms]
        if added:
            self._tell(queue, len(added) - len(later), min(later, default=None))
        return len(added)

    # -- one at a time, of a queue ------------------------------------------------------------------------------------

    async def _alone(self, queue: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._begin(queue, work)
        await asyncio.wait({task})
        task.result()

    def _begin(self, queue: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._tasks[queue] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._tasks.pop(queue))
        return task

    async def _look_for_waiters(self, queue: str) -> None:
        try:
            await self._look(queue, 1)
        except CnsError as error:
            log.warning("outage.look_failed", queue=queue, error=str(error))

    async def _look(self, queue: str, want: int) -> None:
        """Read what came into the claimed buckets, and claim more until there is what is wanted."""
        begun_ms = self._clock.wall_ms()
        generation = await self._rows.generation(queue)
        shelf = self._shelf(queue, DROPPED if generation is None else generation)
        if shelf.generation == DROPPED:
            return
        owners = await self.claims.owners(queue)
        async for bucket in buckets_of(self._rows, queue, shelf.generation):
            now_ms = self._clock.now_ms()
            if bucket in shelf.buckets:
                if not is_closed(bucket, now_ms):
                    await self._read(queue, shelf, bucket)
            elif not shelf.is_ready(want, now_ms) and await self._claim(queue, bucket, owners.get(bucket)):
                shelf.buckets[bucket] = -1
                await self._read(queue, shelf, bucket)
        ended_ms = self._clock.wall_ms()
        shelf.look_at_ms = ended_ms + max(LOOK_AGAIN_MS, LOOK_REST * (ended_ms - begun_ms))

    def _shelf(self, queue: str, generation: int) -> Shelf:
        """A purge leaves the old one behind, with its claims: nobody needs those buckets any more."""
        shelf = self.shelves.get(queue)
        if shelf is None or DROPPED != shelf.generation != generation:
            shelf = self.shelves[queue] = Shelf(generation, self._clock.wall_ms())
        return shelf

    async def _claim(self, queue: str, bucket: str, owner: str | None) -> bool:
        return await has_messages(self._rows, queue, bucket) and await self.claims.take(queue, bucket, owner)

    async def _read(self, queue: str, shelf: Shelf, bucket: str) -> None:
        settled_ms = self._clock.now_ms() - RECONCILE_AGE_MS
        async for page in sketches_of(self._rows, queue, bucket, shelf.buckets[bucket]):
            self.bring(queue, shelf, items_of(page))
            settled = [one.place.seq for one in page if one.place.arrived_ms <= settled_ms]
            shelf.buckets[bucket] = max(shelf.buckets[bucket], *settled, -1)

    async def _give_back(self, queue: str, shelf: Shelf) -> None:
        del self.shelves[queue]
        try:
            await self._rows.hold(queue, shelf.in_flight(self._clock.now_ms()))
        except CnsError as error:
            log.warning("outage.hiding_lost", queue=queue, error=str(error))
        await self.claims.give_back(queue, shelf.buckets)

    async def _leave_what_others_took(self) -> None:
        """After a time in which they had to think that this process is dead."""
        for queue, shelf in list(self.shelves.items()):
            if not await self.claims.has(queue, shelf.buckets):
                log.warning("outage.claims_lost", queue=queue)
                self.shelves.pop(queue, None)
