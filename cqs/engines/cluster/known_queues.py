"""The queues this process has to do with: their generations, and the fills of their caches that are under way."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator

import structlog

from cns_common.clock import Clock
from cqs.engines.cluster.cache_contract import DROPPED, Cache
from cqs.engines.cluster.cache_failover import Caches
from cqs.engines.cluster.refill import Watch, fill
from cqs.engines.cluster.rows import Rows
from cqs.engines.contract import QueueRef

KNOWN_MAX = 20_000
LINE_AGE_MS = 5_000
"""How old a known generation may be. The cache tells of a purge at once; without it this bounds what is lost to one."""
USED_MS = 60_000
FILL_AGAIN_S = 0.25
FILL_END_S = 5.0
FILL_WAIT_S = 1.0
"""How long a receive waits for a fill before it answers with what is there."""

log = structlog.get_logger(__name__)


class Line:
    """A queue as this process knows it."""

    __slots__ = ("empty", "generation", "looked_at", "q", "read_ms", "used_ms", "walked_ms", "watch")

    def __init__(self, q: QueueRef, generation: int, read_ms: int) -> None:
        self.q = q
        self.generation = generation
        self.read_ms = read_ms
        self.used_ms = read_ms
        self.walked_ms = read_ms  # up to when its rows were compared with the cache
        self.empty: dict[str, int] = {}  # closed buckets that were seen empty, and when first
        self.looked_at = ""  # the closed bucket last seen so
        self.watch = Watch(generation)

    def heard(self, generation: int) -> None:
        """Of one, from whomever: they only rise, and a queue that was dropped stays so."""
        if DROPPED in (generation, self.generation):
            self.generation = DROPPED
        else:
            self.generation = max(generation, self.generation)


class Lines:
    def __init__(self, rows: Rows, caches: Caches, clock: Clock) -> None:
        self._rows = rows
        self._caches = caches
        self._clock = clock
        self._lines: OrderedDict[str, Line] = OrderedDict()
        self._turn = 0
        self._reads: dict[str, asyncio.Task[Line]] = {}
        self._fills: dict[str, asyncio.Task[None]] = {}

    def __iter__(self) -> Iterator[Line]:
        return iter(list(self._lines.values()))

    def turn(self, n: int) -> list[Line]:
        """So many, each in its turn."""
        lines = list(self._lines.values())
        begin = self._turn if self._turn < len(lines) else 0
        self._turn = begin + n
        return lines[begin : self._turn]

    def lately(self) -> list[Line]:
        """Those that the cache has to do with and this process used lately, the longest not compared with it first."""
        now_ms = self._clock.wall_ms()
        cached = [line for line in self if not line.q.fifo and line.generation != DROPPED]
        lately = [line for line in cached if now_ms - line.used_ms < USED_MS]
        return sorted(lately, key=lambda line: line.walked_ms)

    async def line(self, q: QueueRef) -> Line:
        now_ms = self._clock.wall_ms()
        line = self._lines.get(q.id)
        if line is None or (line.generation != DROPPED and now_ms - line.read_ms > LINE_AGE_MS):
            line = await asyncio.shield(self._reads.get(q.id) or self._read(q))
        line.q = q
        if now_ms - line.used_ms >= USED_MS:
            line.walked_ms = now_ms  # nobody here missed anything until now
        line.used_ms = now_ms
        return line

    def _read(self, q: QueueRef) -> asyncio.Task[Line]:
        """Once for all who ask."""
        read = self._reads[q.id] = asyncio.create_task(self._look(q))
        read.add_done_callback(lambda _: self._reads.pop(q.id))
        return read

    async def _look(self, q: QueueRef) -> Line:
        now_ms = self._clock.wall_ms()
        generation = await self._rows.generation(q.id)
        known = DROPPED if generation is None else generation
        line = self._lines.get(q.id)
        if line is None:
            line = self._lines[q.id] = Line(q, known, now_ms)
            if len(self._lines) > KNOWN_MAX:
                self._lines.popitem(last=False)
        line.heard(known)
        line.read_ms = now_ms
        return line

    def fill(self, line: Line) -> asyncio.Task[None]:
        """Fill the queue's cache, unless that is under way."""
        task = self._fills.get(line.q.id)
        if task is None:
            task = self._fills[line.q.id] = asyncio.create_task(self._fill(line))
            task.add_done_callback(lambda ended: self._filled(line.q.id, ended))
        return task

    def _filled(self, queue: str, task: asyncio.Task[None]) -> None:
        del self._fills[queue]
        if not task.cancelled() and (error := task.exception()):
            log.warning("queue.cache_fill_failed", queue=queue, error=str(error))  # the next who asks fills again

    async def filled(self, line: Line) -> None:
        """Wait for the fill, but not for long: what is in the cache can be received meanwhile."""
        done, _ = await asyncio.wait({self.fill(line)}, timeout=FILL_WAIT_S)
        for task in done:
            task.result()

    async def _fill(self, line: Line) -> None:
        generation = await self._rows.generation(line.q.id)
        line.heard(DROPPED if generation is None else generation)
        if generation is None:
            await self._caches.ask(lambda cache: cache.reset(line.q.id, DROPPED))
            return

        await self._caches.write_down(line.q.id)

        async def walk(cache: Cache) -> bool:
            return await fill(self._rows, cache, line.q.id, line.generation)

        while not await self._caches.ask(walk):  # noqa: ASYNC110  # the other filler is in another process
            await asyncio.sleep(FILL_AGAIN_S)

    async def close(self) -> None:
        """A fill that is left in the midst keeps others from filling until its lease is over."""
        fills = set(self._fills.values())
        if fills:
            _, left = await asyncio.wait(fills, timeout=FILL_END_S)
            for task in left:
                task.cancel()
            await asyncio.gather(*fills, return_exceptions=True)
