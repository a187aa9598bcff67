"""Statistics of a queue: messages pushed and popped since it was created or purged, and how many per second.

Each pipe has the number of messages that were pushed to it; those that still wait in it were not popped. A removed pipe
adds its number to the totals once. So both sums are exact while nothing changes, without a counter that poppers share.
The reaper stores the sums, and with them those of the hour; reading them is one look-up.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from itertools import pairwise

from cns_common.cassandra.session import Row, Statement
from cns_common.durations import HOUR_MS
from cqs.engines.pipes import schema
from cqs.engines.pipes.rows import ListedPipe, PipeRows
from cqs.engines.pipes.scan import PIPES_AT_ONCE, PipeScan
from cqs.engines.views import HourStatistics, QueueStatistics

RATE_WINDOW_S = 60.0
"""Rates are averages that roll over about this time."""
INTERVAL_MS = 1_000
"""The least time between two writes of the sums."""
PIPE_INTERVAL_MS = 60
"""The same for each pipe of a queue: counting one costs Cassandra some milliseconds, so all processes together spend at
most a twentieth of a core on a deep queue."""


def next_statistics(before: QueueStatistics | None, at_ms: int, pushed: int, popped: int) -> QueueStatistics:
    """The sums at this time, and the rates after them."""
    if before is None or at_ms <= before.at_ms:
        return QueueStatistics(at_ms, pushed, popped)
    seconds = (at_ms - before.at_ms) / 1_000
    weight = 1.0 - math.exp(-seconds / RATE_WINDOW_S)

    def rolled(rate: float, more: int) -> float:
        return rate + (max(more, 0) / seconds - rate) * weight

    return QueueStatistics(
        at_ms,
        pushed,
        popped,
        rolled(before.pushed_per_s, pushed - before.pushed),
        rolled(before.popped_per_s, popped - before.popped),
    )


def hours_between(rows: Sequence[Row]) -> list[HourStatistics]:
    """The messages of each hour, from rows of sums (hour, pushed, popped), the newest first.

    The oldest row is only the start of the next hour: either nothing is known from before it, or it is the row of zeros
    before a queue's first hour. Sums by two processes whose clocks differ may be in the wrong order for a while: such
    an hour counts none."""
    return [
        HourStatistics(hour, max(pushed - pushed_before, 0), max(popped - popped_before, 0), pushed - popped)
        for (hour, pushed, popped), (_, pushed_before, popped_before) in pairwise(rows)
    ]


class StatisticsKeeper:
    def __init__(self, rows: PipeRows, scan: PipeScan) -> None:
        self._rows = rows
        self._run = rows.cassandra.run
        self._run_conditional = rows.cassandra.run_conditional
        self._scan = scan

    async def read(self, queue_id: str, generation: int) -> QueueStatistics | None:
        """The statistics that were written down last; None if none were."""
        rows = await self._run(schema.READ_STATISTICS, queue_id, generation)
        return QueueStatistics(*rows[0]) if rows else None

    async def read_hours(self, queue_id: str, generation: int) -> list[HourStatistics]:
        return hours_between(await self._run(schema.READ_HOURS, queue_id, generation))

    async def write_down(self, queue_id: str, generation: int, pipes: int, now_ms: int) -> None:
        """Count, and write down the sums, unless any process did so lately. `pipes` is how many the queue has."""
        before = await self.read(queue_id, generation)
        if before is not None and now_ms - before.at_ms < max(INTERVAL_MS, pipes * PIPE_INTERVAL_MS):
            return
        pushed, last = await self._totals(queue_id, generation)
        left = 0
        async for page in self._rows.pipes(queue_id, generation):
            for at in range(0, len(page), PIPES_AT_ONCE):
                some = [pipe for pipe in page[at : at + PIPES_AT_ONCE] if pipe.name != last]
                for of_pipe, never_popped in await asyncio.gather(
                    *[self._counts(queue_id, pipe, now_ms) for pipe in some]
                ):
                    pushed += max(of_pipe, never_popped)
                    left += never_popped
        now = next_statistics(before, now_ms, pushed, pushed - left)
        await self._write(queue_id, generation, now, is_first=before is None)

    async def _write(self, queue_id: str, generation: int, now: QueueStatistics, *, is_first: bool) -> None:
        """One batch into two tables with the same partition key."""
        key, hour_ms = (queue_id, generation), now.at_ms - now.at_ms % HOUR_MS
        writes: list[tuple[Statement, Sequence[object]]] = [
            (schema.WRITE_STATISTICS, (*key, *now)),
            (schema.WRITE_HOUR, (*key, hour_ms, now.pushed, now.popped)),
        ]
        if is_first:
            writes.append((schema.WRITE_HOUR, (*key, hour_ms - HOUR_MS, 0, 0)))
        await self._rows.cassandra.run_batch(writes, logged=False)

    async def _counts(self, queue_id: str, pipe: ListedPipe, now_ms: int) -> tuple[int, int]:
        """(pushed, never popped). The latter are counted first, so that a push in between does not count as a pop."""
        counted = await self._scan.count(queue_id, pipe, now_ms)
        return await self._pushed(queue_id, pipe.name), counted.never_popped

    async def _pushed(self, queue_id: str, pipe: str) -> int:
        rows = await self._run(schema.READ_PUSHED, queue_id, pipe)
        return int(rows[0][0]) if rows else 0

    async def _totals(self, queue_id: str, generation: int) -> tuple[int, str]:
        """(pushed to removed pipes, the pipe that was added last)"""
        rows = await self._run(schema.READ_TOTALS, queue_id, generation)
        return (rows[0][0], rows[0][1]) if rows else (0, "")

    async def roll_up(self, queue_id: str, generation: int, pipe: str) -> None:
        """Add the count of an empty pipe to the totals, once: safe to repeat. The caller removes the pipe then.

        The totals name the pipe that was added last. It is removed before another one is added, so none is added twice.
        """
        pushed = await self._pushed(queue_id, pipe)
        while True:
            rows = await self._run(schema.READ_TOTALS, queue_id, generation)
            if not rows:
                if await self._run_conditional(schema.FIRST_TOTALS, queue_id, generation, pushed, pipe):
                    return
                continue
            total, last, version = rows[0]
            if last == pipe or not await self._run(schema.FIND_PIPE, queue_id, pipe):
                return  # added before; then it is removed before another one is added
            if await self._run(schema.FIND_PIPE, queue_id, last):
                await self._rows.clear(queue_id, last)
            values = (total + pushed, pipe, version + 1, queue_id, generation, version)
            if await self._run_conditional(schema.ADD_TO_TOTALS, *values):
                return
