"""The cache while Redis is unavailable: each process hides the messages of the buckets that it claims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from cns_common.clock import Clock
from cns_common.errors import CnsError
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cluster.cache_contract import (
    DROPPED,
    FILLED,
    CacheCounts,
    CachedMessage,
    LeaseRequest,
    LeaseResult,
    MaybeOutcome,
)
from cqs.engines.cluster.ids import DeliveryKey, MessageLocation, generation_of
from cqs.engines.cluster.no_redis.bucket_reader import BucketReader, Notify
from cqs.engines.cluster.no_redis.counts import FallbackCounts
from cqs.engines.cluster.no_redis.visibility import LocalVisibility
from cqs.engines.contract import Outcome

HEARTBEAT_INTERVAL_S = 1.0
POLL_INTERVAL_S = 0.1
UNREPORTED_MAX = 50_000
"""Sends and deletes that are reported to Redis when it returns. Beyond this, the reconciler finds the sent messages;
the deleted ones are counted until a receive meets them."""

log = structlog.get_logger(__name__)


class FallbackCache:
    """See `Cache`. While it is not open it accepts messages and returns none."""

    def __init__(
        self, reader: BucketReader, fallback_counts: FallbackCounts, clock: Clock, notify: Notify, *, permanent: bool
    ) -> None:
        """`permanent`: there is no Redis that could return."""
        self._reader = reader
        self._fallback_counts = fallback_counts
        self._clock = clock
        self._notify = notify
        self._sent: dict[str, list[CachedMessage]] = {}
        self._deleted: dict[str, list[MessageLocation]] = {}
        self._unreported_room = 0 if permanent else UNREPORTED_MAX
        self._heartbeat_task: asyncio.Task[None] | None = None
        self.is_open = False
        self.duplicates = 0

    async def step(self) -> None:
        """Open it, or continue: call this regularly."""
        if self._heartbeat_task is None:
            await self._reader.heartbeat()
            self._heartbeat_task = asyncio.create_task(self._keep_heartbeat())
        self.is_open = True
        await self._reader.step()

    async def close(self) -> dict[str, list[CachedMessage]]:
        """Returns the hidden messages by queue, which it also saves in their rows."""
        self.is_open = False
        hidden = await self._reader.release_all()
        if self._heartbeat_task is not None:
            await cancel_and_wait([self._heartbeat_task])
            self._heartbeat_task = None
        return hidden

    async def _keep_heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)
            try:
                await self._reader.heartbeat()
            except CnsError as error:  # if this lasts, other processes take over the claims
                log.warning("redis_outage.heartbeat_failed", error=str(error))

    async def end_heartbeat(self) -> None:
        """Tell other processes that this one hides nothing any more."""
        await self._reader.claims.end_heartbeat()

    async def wait_until_others_ended(self) -> None:
        """Wait until no other process hides messages itself."""
        while await self._reader.claims.others_alive():  # noqa: ASYNC110  # they are other processes
            await asyncio.sleep(POLL_INTERVAL_S)

    def take_unreported(self) -> tuple[dict[str, list[CachedMessage]], dict[str, list[MessageLocation]]]:
        """The sent and the deleted messages since Redis was lost, by queue."""
        news, self._sent, self._deleted, self._unreported_room = (self._sent, self._deleted), {}, {}, UNREPORTED_MAX
        return news

    def finish_delete(self, queue_id: str, locations: Sequence[MessageLocation]) -> None:
        if self._unreported_room > 0:
            self._deleted.setdefault(queue_id, []).extend(locations)
            self._unreported_room -= len(locations)

    def _visibility(self, queue_id: str) -> LocalVisibility | None:
        return self._reader.visibilities.get(queue_id)

    # -- Cache --------------------------------------------------------------------------------------------------------

    async def add(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> int | None:
        visibility = self._visibility(queue_id)
        if visibility is not None and visibility.generation == DROPPED:
            return DROPPED
        if self._unreported_room > 0:
            self._sent.setdefault(queue_id, []).extend(items)
            self._unreported_room -= len(items)
        self._fallback_counts.forget(queue_id)
        if self.is_open and (visibility is None or self._reader.add_messages(queue_id, visibility, items) < len(items)):
            self._reader.read_soon(queue_id)
        generation = generation_of(items[0].location.bucket)
        return generation if visibility is None else max(generation, visibility.generation)

    async def undo_delete(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> None:
        await self.add_missing(queue_id, items, now_ms)

    async def lease(self, queue_id: str, request: LeaseRequest) -> LeaseResult | None:
        if not self.is_open or not self._reader.claims.certain:
            return LeaseResult()
        visibility = self._visibility(queue_id)
        if visibility is None or not (
            self._clock.wall_ms() < visibility.read_again_ms or visibility.has_visible(request.want, request.now_ms)
        ):
            await self._reader.read_queue(queue_id, request.want)
            visibility = self._visibility(queue_id)
        if visibility is None or not self.is_open or not self._reader.claims.certain:
            return LeaseResult()
        if visibility.generation == DROPPED:
            return LeaseResult(dropped=True)
        visibility.used_ms = self._clock.wall_ms()
        return visibility.lease(request)

    async def begin_delete(self, queue_id: str, keys: Sequence[DeliveryKey]) -> list[MaybeOutcome]:
        self._fallback_counts.forget(queue_id)
        visibility = self._visibility(queue_id)
        return [self._release(visibility, key) for key in keys]

    def _release(self, visibility: LocalVisibility | None, key: DeliveryKey) -> MaybeOutcome:
        outcome = self._judge(visibility, key)
        if visibility is None or outcome is None:
            return None
        if outcome is Outcome.STALE and key.epoch != visibility.epoch:
            outcome = Outcome.DONE
        if outcome is Outcome.DONE:
            visibility.remove(key.location)
        return outcome

    async def check(self, queue_id: str, key: DeliveryKey) -> MaybeOutcome:
        return self._judge(self._visibility(queue_id), key)

    async def set_visible_at(self, queue_id: str, key: DeliveryKey, visible_at_ms: int, now_ms: int) -> MaybeOutcome:
        visibility = self._visibility(queue_id)
        outcome = self._judge(visibility, key)
        if outcome is Outcome.STALE and key.any_lease:  # of an earlier epoch: `_judge` counted a duplicate delivery
            outcome = Outcome.DONE
        if visibility is not None and outcome is Outcome.DONE:
            visibility.set_visible_at(key.location, visible_at_ms)
            self._notify(queue_id, int(visible_at_ms <= now_ms), visible_at_ms)
        return outcome

    def _judge(self, visibility: LocalVisibility | None, key: DeliveryKey) -> MaybeOutcome:
        if visibility is None:
            return None
        outcome = visibility.judge(key)
        self.duplicates += outcome is Outcome.STALE and key.epoch != visibility.epoch
        return outcome

    async def postpone(self, queue_id: str, items: Sequence[CachedMessage]) -> None:
        visibility = self._visibility(queue_id)
        if visibility is not None:
            for item in items:
                visibility.postpone(item.location, item.visible_at_ms)

    async def forget(self, queue_id: str, locations: Sequence[MessageLocation]) -> None:
        visibility = self._visibility(queue_id)
        if visibility is not None:
            for location in locations:
                visibility.remove(location)

    async def counts(self, queue_id: str, now_ms: int, *, require_filled: bool) -> CacheCounts | None:
        await self._reader.wait_until_idle(queue_id)
        return await self._fallback_counts.counts(queue_id, now_ms)

    async def page(
        self, queue_id: str, after: tuple[int, str], n: int, *, require_filled: bool
    ) -> list[CachedMessage] | None:
        await self._reader.wait_until_idle(queue_id)
        return await self._fallback_counts.page(queue_id, after, n)

    async def begin_epoch(self, queue_id: str, generation: int, filler: str) -> int:
        """Nothing needs to be filled: the reader reads the rows."""
        return FILLED

    async def fill_page(self, queue_id: str, filler: str, items: Sequence[CachedMessage]) -> bool:
        return False

    async def end_fill(self, queue_id: str, filler: str) -> None:
        """Nothing was filled."""

    async def add_missing(self, queue_id: str, items: Sequence[CachedMessage], now_ms: int) -> int:
        visibility = self._visibility(queue_id)
        return 0 if visibility is None else self._reader.add_messages(queue_id, visibility, items)

    async def keep_hidden(self, queue_id: str, items: Sequence[CachedMessage]) -> None:
        """Nothing to do: messages leased here are hidden here."""

    async def reset(self, queue_id: str, generation: int) -> None:
        self._fallback_counts.forget(queue_id)
        self._reader.visibilities[queue_id] = LocalVisibility(generation, self._clock.wall_ms())
        self._notify(queue_id, 1_000_000, None)
