"""Reads messages without Redis: claims buckets of the queues that this process receives from, and reads their rows.

Claims move to the processes that receive. A process that releases a bucket saves in the rows until when its messages
are hidden, so messages are delivered twice only if a process dies with its claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.cluster.cache_contract import DROPPED, CachedMessage
from cqs.engines.cluster.no_redis.claims import BucketClaims
from cqs.engines.cluster.no_redis.visibility import LocalVisibility
from cqs.engines.cluster.refill import buckets_of, cached_messages, has_messages, headers_of, is_closed
from cqs.engines.cluster.rows import MessageRows

QUEUES_AT_ONCE = 16
READ_INTERVAL_MS = 100
READ_REST_FACTOR = 5
"""The pause between two reads of a queue's rows, as a multiple of the first one's duration."""
IDLE_MS = 2_000
"""After this time without a receive the claims of a queue are released."""
WRITE_MS_MAX = 40_000
"""A row whose write began this long ago exists or never will: all retries of the statement are over."""
RELEASED_HIDDEN_MAX = 50_000

Notify = Callable[[str, int, int | None], None]
log = structlog.get_logger(__name__)


class BucketReader:
    """`visibilities` has what this process hides, by queue. `waiting` returns the queues that have waiters; `notify` is
    called with (queue id, messages that became visible, next due time)."""

    def __init__(
        self, rows: MessageRows, claims: BucketClaims, clock: Clock, waiting: Callable[[], list[str]], notify: Notify
    ) -> None:
        self._rows = rows
        self.claims = claims
        self._clock = clock
        self._waiting = waiting
        self._notify = notify
        self.visibilities: dict[str, LocalVisibility] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unreleased: dict[str, set[str]] = {}  # claims whose release failed
        self._released_hidden: dict[str, list[CachedMessage]] = {}  # hidden at the release of their buckets
        self._claims_in_doubt = False  # whether other processes may have taken over claims of this one

    async def heartbeat(self) -> None:
        """Renew the heartbeat. If it was late, drop the claims of queues that other processes took over meanwhile."""
        self._claims_in_doubt = self._claims_in_doubt or not self.claims.certain
        await self.claims.heartbeat()
        if self._claims_in_doubt:
            for queue_id, visibility in list(self.visibilities.items()):
                if not await self.claims.owns(queue_id, visibility.generation, visibility.buckets):
                    log.warning("redis_outage.bucket_claims_lost", queue=queue_id)
                    await self._release(queue_id)
            self._claims_in_doubt = False

    async def step(self) -> None:
        """Read for waiters, release idle queues, retry failed releases. Call it regularly."""
        now_ms = self._clock.wall_ms()
        waited_for = self._waiting()
        due = [
            queue_id
            for queue_id in waited_for
            if queue_id not in self.visibilities or self.visibilities[queue_id].read_again_ms <= now_ms
        ]
        await self._each(due, self._read_for_waiters_at)
        idle = [queue_id for queue_id, visibility in self.visibilities.items() if now_ms - visibility.used_ms > IDLE_MS]
        await self._each([queue_id for queue_id in idle if queue_id not in waited_for], self._release)
        for queue_id, buckets in list(self._unreleased.items()):
            self._unreleased[queue_id] = await self.claims.release(queue_id, buckets)
            if not self._unreleased[queue_id]:
                del self._unreleased[queue_id]

    async def release_all(self) -> dict[str, list[CachedMessage]]:
        """Release all claims. Returns the hidden messages by queue."""
        await self._each(list(self.visibilities), self._release)
        given, self._released_hidden = self._released_hidden, {}
        now_ms = self._clock.now_ms()
        return {queue_id: [item for item in items if item.visible_at_ms > now_ms] for queue_id, items in given.items()}

    @staticmethod
    async def _each(queues: Sequence[str], work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        for at in range(0, len(queues), QUEUES_AT_ONCE):
            await asyncio.gather(*[work(queue_id) for queue_id in queues[at : at + QUEUES_AT_ONCE]])

    async def _read_for_waiters_at(self, queue_id: str) -> None:
        if queue_id in self._tasks:
            await self.wait_until_idle(queue_id)
        else:
            await self._run_exclusively(queue_id, self._read_for_waiters(queue_id))

    async def _release(self, queue_id: str) -> None:
        await self.wait_until_idle(queue_id)
        if queue_id in self.visibilities and queue_id not in self._tasks:
            await self._run_exclusively(queue_id, self._release_buckets(queue_id))

    async def read_queue(self, queue_id: str, want: int) -> None:
        if queue_id in self._tasks:
            await self.wait_until_idle(queue_id)  # the running read is for all callers
        else:
            await self._run_exclusively(queue_id, self._read_buckets(queue_id, want))

    async def wait_until_idle(self, queue_id: str) -> None:
        """Wait for the running read of the queue, during which buckets change hands."""
        task = self._tasks.get(queue_id)
        if task is not None:
            await asyncio.wait({task})

    def read_soon(self, queue_id: str) -> None:
        """A message came into a bucket that this process has not claimed: try to claim it for local waiters."""
        visibility = self.visibilities.get(queue_id)
        if visibility is not None:
            visibility.read_again_ms = 0
        if queue_id not in self._tasks and queue_id in self._waiting():
            self._start_task(queue_id, self._read_for_waiters(queue_id))

    def add_messages(self, queue_id: str, visibility: LocalVisibility, items: Sequence[CachedMessage]) -> int:
        now_ms = self._clock.now_ms()
        added = visibility.add(items, now_ms)
        later = [item.visible_at_ms for item in added if item.visible_at_ms > now_ms]
        if added:
            self._notify(queue_id, len(added) - len(later), min(later, default=None))
        return len(added)

    # -- reads and releases, one at a time per queue ------------------------------------------------------------------

    async def _run_exclusively(self, queue_id: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._start_task(queue_id, work)
        await asyncio.wait({task})
        task.result()

    def _start_task(self, queue_id: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._tasks[queue_id] = asyncio.create_task(work)
        task.add_done_callback(lambda ended: self._task_ended(queue_id, ended))
        return task

    def _task_ended(self, queue_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[queue_id]
        if not task.cancelled():
            task.exception()  # the caller gets the error, unless it does not wait any more

    async def _read_for_waiters(self, queue_id: str) -> None:
        try:
            await self._read_buckets(queue_id, 1)
        except CnsError as error:
            log.warning("redis_outage.read_failed", queue=queue_id, error=str(error))

    async def _read_buckets(self, queue_id: str, want: int) -> None:
        """Read new rows of the claimed buckets, and claim more buckets until `want` messages are visible."""
        begun_ms = self._clock.wall_ms()
        generation = await self._rows.generation(queue_id)
        visibility = self._visibility(queue_id, DROPPED if generation is None else generation)
        if visibility.generation == DROPPED:
            return
        owners = await self.claims.owners(queue_id, visibility.generation)
        async for bucket in buckets_of(self._rows, queue_id, visibility.generation):
            now_ms = self._clock.now_ms()
            if bucket in visibility.buckets:
                await self._read_bucket(queue_id, visibility, bucket)
            elif not visibility.has_visible(want, now_ms) and await self._claim(queue_id, bucket, owners.get(bucket)):
                self._unreleased.get(queue_id, set()).discard(bucket)
                visibility.buckets[bucket] = -1
                await self._read_bucket(queue_id, visibility, bucket)
        ended_ms = self._clock.wall_ms()
        visibility.read_again_ms = ended_ms + max(READ_INTERVAL_MS, READ_REST_FACTOR * (ended_ms - begun_ms))

    def _visibility(self, queue_id: str, generation: int) -> LocalVisibility:
        """The visibility for this generation. After a purge the old one is dropped with its claims: its buckets are
        garbage."""
        visibility = self.visibilities.get(queue_id)
        if visibility is None or DROPPED != visibility.generation != generation:
            visibility = self.visibilities[queue_id] = LocalVisibility(generation, self._clock.wall_ms())
        return visibility

    async def _claim(self, queue_id: str, bucket: str, owner: str | None) -> bool:
        return await has_messages(self._rows, queue_id, bucket) and await self.claims.claim(queue_id, bucket, owner)

    async def _read_bucket(self, queue_id: str, visibility: LocalVisibility, bucket: str) -> None:
        if bucket in visibility.finished:
            return
        now_ms = self._clock.now_ms()
        closed = is_closed(bucket, now_ms)
        async for page in headers_of(self._rows, queue_id, bucket, visibility.buckets[bucket]):
            self.add_messages(queue_id, visibility, cached_messages(page))
            settled = [one.location.seq for one in page if one.location.arrived_ms <= now_ms - WRITE_MS_MAX]
            visibility.buckets[bucket] = max(visibility.buckets[bucket], *settled, -1)
        visibility.read_to_end.add(bucket)
        if closed:
            visibility.finished.add(bucket)

    async def _release_buckets(self, queue_id: str) -> None:
        visibility = self.visibilities.pop(queue_id)
        hidden = visibility.in_flight(self._clock.now_ms())
        if sum(map(len, self._released_hidden.values())) < RELEASED_HIDDEN_MAX:
            self._released_hidden[queue_id] = [*self._released_hidden.get(queue_id, ()), *hidden][-RELEASED_HIDDEN_MAX:]
        try:
            await self._rows.keep_hidden(queue_id, hidden)
        except CnsError as error:
            log.warning("redis_outage.visibility_save_failed", queue=queue_id, error=str(error))
        left = await self.claims.release(queue_id, visibility.buckets)
        if left:
            self._unreleased.setdefault(queue_id, set()).update(left)
