"""Reads and writes the messages of queues for a move between engines: their rows, with what only Redis knows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from cns_common.errors import StoreUnavailable
from cqs.engines.cluster.cache_contract import CachedMessage, CacheUnavailable
from cqs.engines.cluster.fifo.transfer import FifoTransfer
from cqs.engines.cluster.ids import MessageLocation, QueueShard
from cqs.engines.cluster.refill import buckets_of, headers_of
from cqs.engines.cluster.rows import MessageRows, RowHeader
from cqs.engines.cluster.servers.router import CacheRouter
from cqs.engines.contract import Engine, QueueRef
from cqs.engines.moved_message import PAGE_ROWS, Arrival, FifoMemory, MovedMessage, Transfer


class ClusterTransfer(Transfer):
    def __init__(self, engine: Engine, rows: MessageRows, caches: CacheRouter, fifo: FifoTransfer) -> None:
        self._engine = engine
        self._rows = rows
        self._caches = caches
        self._fifo = fifo

    async def messages(self, q: QueueRef, *, cached: bool = True) -> AsyncIterator[list[MovedMessage]]:
        """Raises StoreUnavailable while Redis is away: receive counts, and until when messages are hidden, may be known
        there only."""
        pages = self._fifo.messages(q) if q.fifo else self._standard(q, cached=cached)
        async for page in pages:
            yield page

    async def _standard(self, q: QueueRef, *, cached: bool) -> AsyncIterator[list[MovedMessage]]:
        generation = await self._rows.generation(q.id)
        if generation is None:
            return
        async for bucket in buckets_of(self._rows, QueueShard(q.id), generation):
            async for headers in headers_of(self._rows, q.id, bucket):
                for at in range(0, len(headers), PAGE_ROWS):
                    yield await self._page(q, headers[at : at + PAGE_ROWS], cached=cached)

    async def _page(self, q: QueueRef, headers: list[RowHeader], *, cached: bool) -> list[MovedMessage]:
        locations = [one.location for one in headers]
        rows = await self._rows.read(q.id, locations)
        known = await self._states(q, locations) if cached else {}
        page: list[MovedMessage] = []
        for location in locations:
            row = rows.get(location)
            if row is None:
                continue  # removed for its age meanwhile
            state = known.get(location) or CachedMessage(location, row.visible_at_ms)
            page.append(
                MovedMessage(
                    row.id,
                    row.body,
                    row.born_at_ms,
                    state.visible_at_ms,
                    max(state.deliveries, row.deliveries),
                    state.first_at_ms or row.first_at_ms,
                    row.tenant or "",
                    0,
                )
            )
        return page

    async def _states(self, q: QueueRef, locations: Sequence[MessageLocation]) -> dict[MessageLocation, CachedMessage]:
        found: dict[MessageLocation, CachedMessage] = {}
        for shard, some in self._caches.by_shard(q.id, locations):
            cache = self._caches.at(shard)
            if cache.redis_is_lost:
                raise StoreUnavailable("Redis is away: only it knows the receive counts of messages")
            if cache.redis is not None:
                try:
                    states = await cache.redis.states(shard, some)
                except CacheUnavailable as error:
                    raise StoreUnavailable(f"Redis is away: {error}") from error
                found.update({state.location: state for state in states})
        return found

    async def memory(self, q: QueueRef, now_ms: int) -> FifoMemory:
        return await self._fifo.memory(q, now_ms)

    async def begin(self, q: QueueRef, memory: FifoMemory, now_ms: int) -> Arrival:
        await self._engine.purge(q, now_ms)
        generation = await self._rows.generation(q.id)
        if generation is None:
            raise StoreUnavailable(f"the queue {q.id} is dropped")
        return _ClusterArrival(self._rows.with_own_buckets(), self._caches, self._fifo, q, generation, memory, now_ms)


@dataclass(slots=True)
class _ClusterArrival(Arrival):
    """Buckets begin when their first message was sent: maintenance finds by them what has expired."""

    rows: MessageRows
    caches: CacheRouter
    fifo: FifoTransfer
    q: QueueRef
    generation: int
    memory: FifoMemory
    now_ms: int
    at_ms: int = 0
    located: list[tuple[MovedMessage, MessageLocation]] = field(default_factory=list)
    """FIFO messages, without their bodies."""

    async def add(self, messages: Sequence[MovedMessage]) -> list[MovedMessage]:
        if messages:
            self.at_ms = min(max(self.at_ms, messages[0].born_at_ms), self.now_ms)
            entries = [message.entry() for message in messages]
            locations = await self.rows.insert(self.q.id, self.generation, entries, self.at_ms)
            if self.q.fifo:
                bare = [replace(message, body=b"") for message in messages]
                self.located += zip(bare, locations, strict=True)
        return list(messages)

    async def finish(self) -> FifoMemory:
        """Redis is filled from the rows at the queue's first use."""
        await self.rows.close()
        if self.q.fifo:
            await self.fifo.store(self.q, self.generation, self.located, self.memory, self.now_ms)
        else:
            await self.caches.reset(self.q.id, self.generation)
        return self.memory
