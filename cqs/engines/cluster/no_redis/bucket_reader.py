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
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cluster.cache_contract import CachedMessage
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.no_redis.claims import BucketClaims
from cqs.engines.cluster.no_redis.visibility import LocalVisibility
from cqs.engines.cluster.refill import cached_messages, has_messages, headers_of, listed_buckets_of
from cqs.engines.cluster.rows import ListedBucket, MessageRows

QUEUES_AT_ONCE = 16
READ_INTERVAL_MS = 100
READ_REST_FACTOR = 5
"""The pause between two reads of a queue's rows, as a multiple of the first one's duration."""
IDLE_MS = 2_000
"""After this time without a receive the claims of a queue are released."""
WRITE_MS_MAX = 40_000
"""This long after a row was read, no row can appear before it: all retries of writes have ended."""

Notify = Callable[[str, int, int | None], None]
log = structlog.get_logger(__name__)


class BucketReader:
    """`visibilities` has what this process hides, by shard. `waiting` returns the shards whose queues have waiters;
    `notify` is called with (queue id, messages that became visible, next due time)."""

    def __init__(
        self,
        rows: MessageRows,
        claims: BucketClaims,
        clock: Clock,
        waiting: Callable[[], list[QueueShard]],
        notify: Notify,
    ) -> None:
        self._rows = rows
        self.claims = claims
        self._clock = clock
        self._waiting = waiting
        self._notify = notify
        self.visibilities: dict[QueueShard, LocalVisibility] = {}
        self._tasks: dict[QueueShard, asyncio.Task[None]] = {}
        self._unreleased: dict[QueueShard, set[str]] = {}  # claims whose release failed
        # hidden when their buckets were released, and not saved
        self._unsaved: dict[QueueShard, list[CachedMessage]] = {}
        self.trust = 0
        """The number of the processes' epoch (`View`)."""
        self._claims_may_be_lost = False  # whether other processes may have taken over claims of this one

    async def heartbeat(self) -> None:
        """Renew the heartbeat. If it was late, drop the claims of queues that other processes took over meanwhile."""
        self._claims_may_be_lost = not await self.claims.heartbeat() or self._claims_may_be_lost
        if self._claims_may_be_lost:
            for shard, visibility in list(self.visibilities.items()):
                if not await self.claims.owns(shard.queue_id, visibility.generation, visibility.buckets):
                    log.warning("redis_outage.bucket_claims_lost", queue=shard.queue_id)
                    await self._release(shard)
            self._claims_may_be_lost = False

    async def step(self) -> None:
        """Read for waiters, release idle queues, retry failed releases, return messages whose delete was interrupted.
        Call it regularly."""
        now_ms = self._clock.monotonic_ms()
        for shard, visibility in self.visibilities.items():
            if restored := visibility.restore_undeleted(self._clock.now_ms()):
                self._notify(shard.queue_id, restored, None)
        waited_for = self._waiting()
        due = [
            shard
            for shard in waited_for
            if shard not in self.visibilities or self.visibilities[shard].read_again_ms <= now_ms
        ]
        await self._each(due, self._read_for_waiters_at)
        idle = [shard for shard, visibility in self.visibilities.items() if now_ms - visibility.used_ms > IDLE_MS]
        await self._each([shard for shard in idle if shard not in waited_for], self._release_idle)
        for shard, buckets in list(self._unreleased.items()):
            self._unreleased[shard] = await self.claims.release(shard.queue_id, buckets)
            if not self._unreleased[shard]:
                del self._unreleased[shard]

    async def release_all(self) -> dict[QueueShard, list[CachedMessage]]:
        """Release all claims. Returns the hidden messages that could not be saved, by queue."""
        await self._each(list(self.visibilities), self._release)
        unsaved, self._unsaved = self._unsaved, {}
        return unsaved

    async def release(self, shard: QueueShard) -> list[CachedMessage]:
        """Release the claims of one shard. Returns the hidden messages that could not be saved."""
        await self._release(shard)
        return self._unsaved.pop(shard, [])

    def hidden(self) -> dict[QueueShard, list[CachedMessage]]:
        """The messages that this process hides, by queue."""
        now_ms = self._clock.now_ms()
        return {shard: visibility.in_flight(now_ms) for shard, visibility in self.visibilities.items()}

    @staticmethod
    async def _each(shards: Sequence[QueueShard], work: Callable[[QueueShard], Coroutine[Any, Any, None]]) -> None:
        for at in range(0, len(shards), QUEUES_AT_ONCE):
            await asyncio.gather(*[work(shard) for shard in shards[at : at + QUEUES_AT_ONCE]])

    async def _read_for_waiters_at(self, shard: QueueShard) -> None:
        if shard in self._tasks:
            await self.wait_until_idle(shard)
        else:
            await self._run_exclusively(shard, self._read_for_waiters(shard))

    async def _release(self, shard: QueueShard) -> None:
        await self._release_with(shard, self._release_buckets)

    async def _release_idle(self, shard: QueueShard) -> None:
        await self._release_with(shard, self._release_saved_buckets)

    async def _release_with(
        self, shard: QueueShard, release: Callable[[QueueShard], Coroutine[Any, Any, None]]
    ) -> None:
        await self.wait_until_idle(shard)
        if shard in self.visibilities and shard not in self._tasks:
            await self._run_exclusively(shard, release(shard))

    async def read_queue(self, shard: QueueShard, want: int) -> None:
        if shard in self._tasks:
            await self.wait_until_idle(shard)  # the running read is for all callers
        else:
            await self._run_exclusively(shard, self._read_buckets(shard, want))

    async def wait_until_idle(self, shard: QueueShard) -> None:
        """Wait for the running read of the queue, during which buckets change hands."""
        task = self._tasks.get(shard)
        if task is not None:
            await asyncio.wait({task})

    def schedule_read(self, shard: QueueShard) -> None:
        """Read for local waiters: a message was added to a bucket that this process has not claimed."""
        visibility = self.visibilities.get(shard)
        if visibility is not None:
            visibility.read_again_ms = 0
        if shard not in self._tasks and shard in self._waiting():
            self._start_task(shard, self._read_for_waiters(shard))

    def add_messages(self, shard: QueueShard, visibility: LocalVisibility, items: Sequence[CachedMessage]) -> int:
        now_ms = self._clock.now_ms()
        added = visibility.add(items, now_ms)
        later = [item.visible_at_ms for item in added if item.visible_at_ms > now_ms]
        if added:
            self._notify(shard.queue_id, len(added) - len(later), min(later, default=None))
        return len(added)

    # -- reads and releases, one at a time per queue ------------------------------------------------------------------

    async def _run_exclusively(self, shard: QueueShard, work: Coroutine[Any, Any, None]) -> None:
        task = self._start_task(shard, work)
        await asyncio.wait({task})
        task.result()

    def _start_task(self, shard: QueueShard, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._tasks[shard] = asyncio.create_task(work)
        task.add_done_callback(lambda ended: self._task_ended(shard, ended))
        return task

    def _task_ended(self, shard: QueueShard, task: asyncio.Task[None]) -> None:
        del self._tasks[shard]
        if not task.cancelled():
            task.exception()  # the caller gets the error, unless it does not wait any more

    async def _read_for_waiters(self, shard: QueueShard) -> None:
        try:
            await self._read_buckets(shard, 1)
        except CnsError as error:
            log.warning("redis_outage.read_failed", queue=shard.queue_id, error=str(error))

    async def _read_buckets(self, shard: QueueShard, want: int) -> None:
        """Read new rows of the claimed buckets, and claim more buckets until `want` messages are visible."""
        begun_ms = self._clock.monotonic_ms()
        generation = await self._rows.generation(shard.queue_id)
        visibility = self._visibility(shard, DROPPED if generation is None else generation)
        if visibility.generation == DROPPED:
            return
        owners = await self.claims.owners(shard.queue_id, visibility.generation)
        async for listed in listed_buckets_of(self._rows, shard, visibility.generation):
            now_ms, bucket = self._clock.now_ms(), listed.name
            if bucket in visibility.buckets:
                await self._read_bucket(shard, visibility, listed)
            elif not visibility.has_visible(want, now_ms) and await self._claim(shard, bucket, owners.get(bucket)):
                self._unreleased.get(shard, set()).discard(bucket)
                visibility.begin_bucket(bucket)
                await self._read_bucket(shard, visibility, listed)
        ended_ms = self._clock.monotonic_ms()
        visibility.read_again_ms = ended_ms + max(READ_INTERVAL_MS, READ_REST_FACTOR * (ended_ms - begun_ms))

    def _visibility(self, shard: QueueShard, generation: int) -> LocalVisibility:
        """The visibility for this generation. After a purge the old one is dropped with its claims: its buckets are
        garbage."""
        visibility = self.visibilities.get(shard)
        if visibility is None or DROPPED != visibility.generation != generation:
            visibility = self.visibilities[shard] = LocalVisibility(generation, self._clock.monotonic_ms(), self.trust)
        return visibility

    async def _claim(self, shard: QueueShard, bucket: str, owner: str | None) -> bool:
        return await has_messages(self._rows, shard.queue_id, bucket) and await self.claims.claim(
            shard.queue_id, bucket, owner
        )

    async def _read_bucket(self, shard: QueueShard, visibility: LocalVisibility, listed: ListedBucket) -> None:
        bucket = listed.name
        if bucket in visibility.finished:
            return
        begun_ms, last = self._clock.monotonic_ms(), visibility.buckets[bucket]
        async for page in headers_of(self._rows, shard.queue_id, bucket, last):
            self.add_messages(shard, visibility, cached_messages(page, self._clock.now_ms()))
            last = max(last, *[one.location.seq for one in page], -1)
        visibility.note_read(bucket, last, begun_ms, begun_ms - WRITE_MS_MAX)
        visibility.read_to_end.add(bucket)
        if listed.sealed:
            visibility.finished.add(bucket)

    async def _release_saved_buckets(self, shard: QueueShard) -> None:
        """Release the buckets whose hidden messages are saved. Other claims are kept, since the next process to claim
        those buckets would deliver the messages; the next step tries again."""
        visibility = self.visibilities.pop(shard)
        if await self._save_hidden(shard, visibility.in_flight(self._clock.now_ms())):
            await self._release_claims(shard, visibility)
        else:
            self.visibilities.setdefault(shard, visibility)  # unless a purge began another one

    async def _release_buckets(self, shard: QueueShard) -> None:
        visibility = self.visibilities.pop(shard)
        hidden = visibility.in_flight(self._clock.now_ms())
        if not await self._save_hidden(shard, hidden):
            self._unsaved.setdefault(shard, []).extend(hidden)
        await self._release_claims(shard, visibility)

    async def _save_hidden(self, shard: QueueShard, hidden: Sequence[CachedMessage]) -> bool:
        try:
            await self._rows.keep_hidden(shard.queue_id, hidden)
        except CnsError as error:
            log.warning("redis_outage.visibility_save_failed", queue=shard.queue_id, error=str(error))
            return False
        return True

    async def _release_claims(self, shard: QueueShard, visibility: LocalVisibility) -> None:
        left = await self.claims.release(shard.queue_id, visibility.buckets)
        if left:
            self._unreleased.setdefault(shard, set()).update(left)
