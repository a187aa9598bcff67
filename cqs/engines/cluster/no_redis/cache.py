"""The cache while Redis is unavailable: each process hides the messages of the buckets that it claims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import structlog

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cluster.cache_contract import (
    FILLED,
    Cache,
    CacheCounts,
    CachedMessage,
    LeaseRequest,
    LeaseResult,
    MaybeOutcome,
    MessageLease,
)
from cqs.engines.cluster.ids import DeliveryKey, MessageLocation, QueueShard, generation_of
from cqs.engines.cluster.no_redis.bucket_reader import BucketReader, Notify
from cqs.engines.cluster.no_redis.claims import HEARTBEAT_MS
from cqs.engines.cluster.no_redis.counts import FallbackCounts
from cqs.engines.cluster.no_redis.visibility import LocalVisibility
from cqs.engines.contract import Outcome

UNREPORTED_MAX = 50_000
"""The most sends and deletes that are reported to Redis when it returns. Beyond this, the reconciler finds the sent
messages, and Redis counts the deleted ones until a receive finds no row."""

log = structlog.get_logger(__name__)


class FallbackCache(Cache):
    """Until it is open it accepts messages and returns none."""

    def __init__(
        self, reader: BucketReader, fallback_counts: FallbackCounts, clock: Clock, notify: Notify, *, permanent: bool
    ) -> None:
        """`permanent`: there is no Redis that could return."""
        self._reader = reader
        self._fallback_counts = fallback_counts
        self._clock = clock
        self._notify = notify
        self._sent: dict[QueueShard, list[CachedMessage]] = {}
        self._deleted: dict[QueueShard, list[MessageLocation]] = {}
        self._unreported_room = 0 if permanent else UNREPORTED_MAX
        self._heartbeat_task: asyncio.Task[None] | None = None
        self.is_open = False
        self.duplicates = 0

    async def step(self) -> None:
        """Open the cache, or keep it running: call this regularly."""
        if self._heartbeat_task is None:
            await self._reader.heartbeat()
            self._heartbeat_task = asyncio.create_task(self._keep_heartbeat())
        self.is_open = True
        await self._reader.step()

    async def close(self) -> dict[QueueShard, list[CachedMessage]]:
        """Save what is hidden in the rows. Returns the messages for which that failed, by queue."""
        self.is_open = False
        unsaved = await self._reader.release_all()
        if self._heartbeat_task is not None:
            await cancel_and_wait([self._heartbeat_task])
            self._heartbeat_task = None
            with suppress(CnsError):  # it expires by itself
                await self._reader.claims.end_heartbeat()
        return unsaved

    async def release(self, shard: QueueShard) -> list[CachedMessage]:
        """As `close`, for one shard. Returns the messages for which that failed."""
        return await self._reader.release(shard)

    def hidden(self) -> dict[QueueShard, list[CachedMessage]]:
        """The messages that this process hides itself, by queue."""
        return self._reader.hidden()

    def trust(self, epoch: int) -> None:
        """Begin an epoch (`View`) without Redis."""
        self._reader.trust = epoch

    async def _keep_heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_MS / 1000)
            try:
                await self._reader.heartbeat()
            except CnsError as error:  # if this lasts, other processes take over the claims
                log.warning("redis_outage.heartbeat_failed", error=str(error))

    def take_unreported(self) -> tuple[dict[QueueShard, list[CachedMessage]], dict[QueueShard, list[MessageLocation]]]:
        """The sent and the deleted messages since Redis was lost, by queue."""
        news, self._sent, self._deleted, self._unreported_room = (self._sent, self._deleted), {}, {}, UNREPORTED_MAX
        return news

    def finish_delete(self, shard: QueueShard, locations: Sequence[MessageLocation]) -> None:
        self._end_delete(shard, locations)
        self._fallback_counts.forget(shard, locations)
        if self._unreported_room > 0:
            self._deleted.setdefault(shard, []).extend(locations)
            self._unreported_room -= len(locations)

    def _end_delete(self, shard: QueueShard, locations: Sequence[MessageLocation]) -> None:
        visibility = self._visibility(shard)
        if visibility is not None:
            for location in locations:
                visibility.end_delete(location)

    def _visibility(self, shard: QueueShard) -> LocalVisibility | None:
        return self._reader.visibilities.get(shard)

    # -- Cache --------------------------------------------------------------------------------------------------------

    async def add(self, shard: QueueShard, items: Sequence[CachedMessage], now_ms: int) -> int | None:
        visibility = self._visibility(shard)
        if visibility is not None and visibility.generation == DROPPED:
            return DROPPED
        if self._unreported_room > 0:
            self._sent.setdefault(shard, []).extend(items)
            self._unreported_room -= len(items)
        self._fallback_counts.forget(shard, [item.location for item in items])
        if self.is_open and (visibility is None or self._reader.add_messages(shard, visibility, items) < len(items)):
            self._reader.schedule_read(shard)
        generation = generation_of(items[0].location.bucket)
        return generation if visibility is None else max(generation, visibility.generation)

    async def undo_delete(self, shard: QueueShard, items: Sequence[CachedMessage], now_ms: int) -> None:
        self._end_delete(shard, [item.location for item in items])
        await self.add_missing(shard, items, now_ms)

    async def lease(self, shard: QueueShard, request: LeaseRequest) -> LeaseResult | None:
        if not self.is_open or not self._reader.claims.is_certain:
            return LeaseResult()
        visibility = self._visibility(shard)
        if visibility is None or not (
            self._clock.monotonic_ms() < visibility.read_again_ms
            or visibility.has_visible(request.want, request.now_ms)
        ):
            await self._reader.read_queue(shard, request.want)
            visibility = self._visibility(shard)
        if visibility is None or not self.is_open or not self._reader.claims.is_certain:
            return LeaseResult()
        if visibility.generation == DROPPED:
            return LeaseResult(dropped=True)
        visibility.used_ms = self._clock.monotonic_ms()
        return visibility.lease(request)

    async def undo_lease(self, shard: QueueShard, leases: Sequence[MessageLease], now_ms: int) -> None:
        visibility = self._visibility(shard)
        if visibility is not None:
            for lease in leases:
                visibility.undo_lease(lease, now_ms)
            self._notify(shard.queue_id, len(leases), None)

    async def begin_delete(self, shard: QueueShard, keys: Sequence[DeliveryKey], now_ms: int) -> list[MaybeOutcome]:
        self._fallback_counts.forget(shard, [key.location for key in keys])
        visibility = self._visibility(shard)
        return [self._release(visibility, key) for key in keys]

    def _release(self, visibility: LocalVisibility | None, key: DeliveryKey) -> MaybeOutcome:
        outcome = self._judge(visibility, key)
        if visibility is None or outcome is None:
            return None
        if outcome is Outcome.STALE and key.epoch != visibility.epoch:
            outcome = Outcome.DONE
        if outcome is Outcome.DONE:
            visibility.begin_delete(key.location, self._clock.now_ms())
        return outcome

    async def check(self, shard: QueueShard, key: DeliveryKey) -> MaybeOutcome:
        return self._judge(self._visibility(shard), key)

    async def set_visible_at(
        self, shard: QueueShard, key: DeliveryKey, visible_at_ms: int, now_ms: int
    ) -> MaybeOutcome:
        visibility = self._visibility(shard)
        outcome = self._judge(visibility, key)
        if outcome is Outcome.STALE and key.any_lease:  # of an earlier epoch: `_judge` counted a duplicate delivery
            outcome = Outcome.DONE
        if visibility is not None and outcome is Outcome.DONE:
            visibility.set_visible_at(key.location, visible_at_ms)
            self._notify(shard.queue_id, int(visible_at_ms <= now_ms), visible_at_ms)
        return outcome

    def _judge(self, visibility: LocalVisibility | None, key: DeliveryKey) -> MaybeOutcome:
        if visibility is None:
            return None
        outcome = visibility.judge(key)
        self.duplicates += outcome is Outcome.STALE and key.epoch != visibility.epoch
        return outcome

    async def postpone(self, shard: QueueShard, items: Sequence[CachedMessage]) -> None:
        visibility = self._visibility(shard)
        if visibility is not None:
            for item in items:
                visibility.postpone(item.location, item.visible_at_ms)

    async def forget(self, shard: QueueShard, locations: Sequence[MessageLocation]) -> None:
        visibility = self._visibility(shard)
        if visibility is not None:
            for location in locations:
                visibility.remove(location)

    async def counts(self, shard: QueueShard, now_ms: int, *, require_filled: bool) -> CacheCounts | None:
        await self._reader.wait_until_idle(shard)
        return await self._fallback_counts.counts(shard, now_ms)

    async def page(
        self, shard: QueueShard, after: tuple[int, str], n: int, *, require_filled: bool
    ) -> list[CachedMessage] | None:
        await self._reader.wait_until_idle(shard)
        return await self._fallback_counts.page(shard, after, n)

    async def begin_epoch(self, shard: QueueShard, generation: int, filler: str) -> int:
        """Nothing needs to be filled: the reader reads the rows."""
        return FILLED

    async def fill_page(self, shard: QueueShard, filler: str, items: Sequence[CachedMessage]) -> bool:
        return False

    async def end_fill(self, shard: QueueShard, filler: str) -> None:
        """Nothing was filled."""

    async def add_missing(self, shard: QueueShard, items: Sequence[CachedMessage], now_ms: int) -> int:
        visibility = self._visibility(shard)
        return 0 if visibility is None else self._reader.add_messages(shard, visibility, items)

    async def keep_hidden(self, shard: QueueShard, items: Sequence[CachedMessage]) -> None:
        """Nothing to do: messages leased here are hidden here."""

    async def reset(self, shard: QueueShard, generation: int) -> None:
        self._reader.visibilities[shard] = LocalVisibility(generation, self._clock.monotonic_ms(), self._reader.trust)
        self._notify(shard.queue_id, 1_000_000, None)
