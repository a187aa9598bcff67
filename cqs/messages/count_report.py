"""Reports what `QueueCounters` counted, as events and metrics, with the depth of each queue that was used."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.events.schema import EventSink, QueueCounted
from cns_common.metrics.catalogue import QUEUE_DEPTH, QUEUE_OLDEST_SECONDS
from cns_common.metrics.model import Sample
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.contract import Counts
from cqs.messages.counters import QueueCount, QueueCounters
from cqs.queues.cache import QueueCache
from cqs.queues.names import QueueKey
from cqs.queues.urls import key_of_arn
from cqs.queues.view import QueueView

COUNTS_INTERVAL_S = 60.0
"""From one report of a process to the next."""
DEPTHS_AT_ONCE = 50
DEPTHS_TIMEOUT_S = 5.0
"""For all queues of a report. A queue whose depth was not read by then is reported without it."""
LOOKED_UP_AT_ONCE = 20
"""Queues that a report looks up, in turn: the announcement that one was deleted may have been lost."""
DEPTHS_KEPT_MAX = 10_000
"""Queues whose depth is known for metrics: those that were reported last."""


class _Depth(NamedTuple):
    counts: Counts
    age_s: int  # of the oldest message; 0 for none


class QueueCountReporter:
    """Its owner calls `report` once a minute, and at its end."""

    def __init__(self, counters: QueueCounters, cache: QueueCache, events: EventSink, clock: Clock) -> None:
        self._counters = counters
        self._cache = cache
        self._events = events
        self._clock = clock
        self._since_ms = clock.now_ms()
        self._depths: dict[str, _Depth] = {}  # by ARN, as last reported; those reported last are at the end
        self._changed: set[QueueKey] = set()
        self._to_look_up: list[str] = []
        cache.changed.append(self._changed.add)

    async def report(self) -> None:
        """Emit one event for each queue that was used. While the store is away, without depths."""
        views = self._counters.views()
        depths = await self._read_depths(views) if views else {}
        self._emit(self._counters.take([view.arn for view in views]), depths)  # no await: nothing is lost in between
        with suppress(TimeoutError, StoreUnavailable, OutcomeUnknown):  # the next report tries again
            async with asyncio.timeout(DEPTHS_TIMEOUT_S):
                await self._forget_deleted()

    async def _read_depths(self, views: Sequence[QueueView]) -> dict[str, Counts]:
        """The depths, by ARN, that are read in time. A queue that takes long keeps only its own place."""
        now_ms, places = self._clock.now_ms(), asyncio.Semaphore(DEPTHS_AT_ONCE)

        async def read(view: QueueView) -> Counts | None:
            with suppress(StoreUnavailable, OutcomeUnknown):
                async with places:
                    return await view.engine.counts(view.ref, now_ms, oldest=True)
            return None

        reading = {view.arn: asyncio.create_task(read(view)) for view in views}
        _, late = await asyncio.wait(reading.values(), timeout=DEPTHS_TIMEOUT_S)
        await cancel_and_wait(late)
        read_in_time = {arn: task.result() for arn, task in reading.items() if task not in late}
        return {arn: counts for arn, counts in read_in_time.items() if counts is not None}

    def _emit(self, taken: list[QueueCount], depths: dict[str, Counts]) -> None:
        now_ms, since_ms = self._clock.now_ms(), self._since_ms
        self._since_ms = now_ms
        for count in taken:
            arn = count.view.arn
            depth = depths.get(arn)
            self._events.emit(_event(count, depth, since_ms, now_ms))
            if depth is not None:
                self._depths.pop(arn, None)
                self._depths[arn] = _Depth(depth, max(_age_s(depth, now_ms), 0))
        while len(self._depths) > DEPTHS_KEPT_MAX:
            del self._depths[next(iter(self._depths))]

    async def _forget_deleted(self) -> None:
        """Forget the depths of deleted queues: of those that were announced, and by looking up some in turn."""
        changed = {*self._changed}
        self._changed.clear()
        self._to_look_up = self._to_look_up or list(self._depths)
        some, self._to_look_up = self._to_look_up[:LOOKED_UP_AT_ONCE], self._to_look_up[LOOKED_UP_AT_ONCE:]
        for arn in [*some, *[arn for arn in self._depths if key_of_arn(arn) in changed]]:
            key = key_of_arn(arn)
            if key is None or await self._cache.find(key) is None:
                self._depths.pop(arn, None)

    def samples(self) -> list[Sample]:
        """Counters since the process started; depths as of the last report."""
        shown: dict[str, list[_Depth]] = {}
        for arn, depth in self._depths.items():
            shown.setdefault(self._counters.label(arn), []).append(depth)
        return [
            *self._counters.samples(),
            *[
                QUEUE_DEPTH.sample(sum(getattr(depth.counts, state) for depth in depths), queue=label, state=state)
                for label, depths in shown.items()
                for state in ("visible", "in_flight", "delayed")
            ],
            *[
                QUEUE_OLDEST_SECONDS.sample(max(depth.age_s for depth in depths), queue=label)
                for label, depths in shown.items()
            ],
        ]


def _event(count: QueueCount, depth: Counts | None, since_ms: int, now_ms: int) -> QueueCounted:
    return QueueCounted(
        at_ms=now_ms,
        since_ms=since_ms,
        queue=count.view.arn,
        sent=count.sent,
        received=count.received,
        deleted=count.deleted,
        moved_in=count.moved_in,
        moved_out=count.moved_out,
        visible=-1 if depth is None else depth.visible,
        in_flight=-1 if depth is None else depth.in_flight,
        delayed=-1 if depth is None else depth.delayed,
        oldest_age_s=-1 if depth is None else _age_s(depth, now_ms),
    )


def _age_s(depth: Counts, now_ms: int) -> int:
    """The age of the oldest message; -1 for none."""
    return max(now_ms - depth.oldest_born_at_ms, 0) // 1000 if depth.oldest_born_at_ms else -1
