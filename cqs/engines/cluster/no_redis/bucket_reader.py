"""How a process without Redis comes by its messages: it claims buckets where they are asked for, and reads their rows.

Claims move to where messages are asked for. Who gives a bucket back writes into the rows until when its messages are
hidden, so they come twice only when a process dies with its claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import DROPPED, Item
from cqs.engines.cluster.no_redis.claims import Claims
from cqs.engines.cluster.no_redis.visibility import Shelf
from cqs.engines.cluster.refill import buckets_of, has_messages, is_closed, items_of, sketches_of
from cqs.engines.cluster.rows import Rows

QUEUES_AT_ONCE = 16
LOOK_AGAIN_MS = 100
LOOK_REST = 5
"""Between two looks at a queue's rows lies so many times what the first took."""
IDLE_MS = 2_000
"""A queue that nobody here has asked for messages so long is given back."""
WRITE_MS_MAX = 40_000
"""A row that was begun so long ago is there, or will never be: all tries of a statement are over."""
GIVEN_MAX = 50_000

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
        self._owed: dict[str, set[str]] = {}  # claims that are to be given back still
        self._given: dict[str, list[Item]] = {}  # what was hidden in what was given back
        self._doubts = False  # whether others may have taken what is claimed here

    async def beat(self) -> None:
        """Show that this process lives, and find out what is left to it if others had to think that it does not."""
        self._doubts = self._doubts or not self.claims.sure
        await self.claims.show_life()
        if self._doubts:
            for queue, shelf in list(self.shelves.items()):
                if not await self.claims.has(queue, shelf.generation, shelf.buckets):
                    log.warning("redis_outage.bucket_claims_lost", queue=queue)
                    await self._leave(queue)
            self._doubts = False

    async def step(self) -> None:
        """What is to be done every now and then."""
        now_ms = self._clock.wall_ms()
        waited_for = self._waiting()
        due = [queue for queue in waited_for if queue not in self.shelves or self.shelves[queue].look_at_ms <= now_ms]
        await self._each(due, self._look_for_waiters_at)
        idle = [queue for queue, shelf in self.shelves.items() if now_ms - shelf.used_ms > IDLE_MS]
        await self._each([queue for queue in idle if queue not in waited_for], self._leave)
        for queue, buckets in list(self._owed.items()):
            self._owed[queue] = await self.claims.give_back(queue, buckets)
            if not self._owed[queue]:
                del self._owed[queue]

    async def end(self) -> dict[str, list[Item]]:
        """Give everything back; returns what is hidden, by queue."""
        await self._each(list(self.shelves), self._leave)
        given, self._given = self._given, {}
        now_ms = self._clock.now_ms()
        return {queue: [item for item in items if item.visible_at_ms > now_ms] for queue, items in given.items()}

    @staticmethod
    async def _each(queues: Sequence[str], work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        for at in range(0, len(queues), QUEUES_AT_ONCE):
            await asyncio.gather(*[work(queue) for queue in queues[at : at + QUEUES_AT_ONCE]])

    async def _look_for_waiters_at(self, queue: str) -> None:
        if queue in self._tasks:
            await self.rest(queue)
        else:
            await self._alone(queue, self._look_for_waiters(queue))

    async def _leave(self, queue: str) -> None:
        await self.rest(queue)
        if queue in self.shelves and queue not in self._tasks:
            await self._alone(queue, self._give_back(queue))

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
        task.add_done_callback(lambda ended: self._ended(queue, ended))
        return task

    def _ended(self, queue: str, task: asyncio.Task[None]) -> None:
        del self._tasks[queue]
        if not task.cancelled():
            task.exception()  # whoever waits for it has it; who went away does not need it

    async def _look_for_waiters(self, queue: str) -> None:
        try:
            await self._look(queue, 1)
        except CnsError as error:
            log.warning("redis_outage.read_failed", queue=queue, error=str(error))

    async def _look(self, queue: str, want: int) -> None:
        """Read what came into the claimed buckets, and claim more until there is what is wanted."""
        begun_ms = self._clock.wall_ms()
        generation = await self._rows.generation(queue)
        shelf = self._shelf(queue, DROPPED if generation is None else generation)
        if shelf.generation == DROPPED:
            return
        owners = await self.claims.owners(queue, shelf.generation)
        async for bucket in buckets_of(self._rows, queue, shelf.generation):
            now_ms = self._clock.now_ms()
            if bucket in shelf.buckets:
                await self._read(queue, shelf, bucket)
            elif not shelf.is_ready(want, now_ms) and await self._claim(queue, bucket, owners.get(bucket)):
                self._owed.get(queue, set()).discard(bucket)
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
        if bucket in shelf.ended:
            return
        now_ms = self._clock.now_ms()
        closed = is_closed(bucket, now_ms)
        async for page in sketches_of(self._rows, queue, bucket, shelf.buckets[bucket]):
            self.bring(queue, shelf, items_of(page))
            settled = [one.place.seq for one in page if one.place.arrived_ms <= now_ms - WRITE_MS_MAX]
            shelf.buckets[bucket] = max(shelf.buckets[bucket], *settled, -1)
        shelf.whole.add(bucket)
        if closed:
            shelf.ended.add(bucket)

    async def _give_back(self, queue: str) -> None:
        shelf = self.shelves.pop(queue)
        hidden = shelf.in_flight(self._clock.now_ms())
        if sum(map(len, self._given.values())) < GIVEN_MAX:
            self._given[queue] = [*self._given.get(queue, ()), *hidden][-GIVEN_MAX:]
        try:
            await self._rows.hold(queue, hidden)
        except CnsError as error:
            log.warning("redis_outage.visibility_save_failed", queue=queue, error=str(error))
        left = await self.claims.give_back(queue, shelf.buckets)
        if left:
            self._owed.setdefault(queue, set()).update(left)
