"""Batches calls: items that arrive while requests are in flight make up the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

REQUESTS_IN_FLIGHT_MAX = 2
BYTES_MAX = 2 * 1024 * 1024
"""Bytes of bodies in one batch. Base64 and JSON escapes can double them; CQS reads up to 6.25 MiB. A larger item is
sent alone."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Weight(NamedTuple):
    entries: int
    size_bytes: int


class _Batch(Generic[Item, Answer]):
    """Collects items until its request is sent."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.entries = 0
        self.size_bytes = 0
        self.task: asyncio.Task[Sequence[Answer]] | None = None


class Batcher(Generic[Item, Answer]):
    """`send` returns an answer for each item, in order; each caller gets what it raises."""

    def __init__(
        self,
        send: Callable[[Sequence[Item]], Coroutine[Any, Any, Sequence[Answer]]],
        weigh: Callable[[Item], Weight],
        entries_max: int,
    ) -> None:
        self._send = send
        self._weigh = weigh
        self._entries_max = entries_max
        self._slots = asyncio.Semaphore(REQUESTS_IN_FLIGHT_MAX)
        self._collecting: _Batch[Item, Answer] | None = None

    async def call(self, item: Item) -> Answer:
        """Send `item` in a batch and return its answer. The batch is sent even if the caller is cancelled."""
        batch = self._batch_for(self._weigh(item))
        position = len(batch.items)
        batch.items.append(item)
        if batch.task is None:
            batch.task = asyncio.create_task(self._run(batch))
        answers = await asyncio.shield(batch.task)
        return answers[position]

    def _batch_for(self, weight: Weight) -> _Batch[Item, Answer]:
        batch = self._collecting
        if batch is None or not self._fits(batch, weight):
            batch = self._collecting = _Batch()
        batch.entries += weight.entries
        batch.size_bytes += weight.size_bytes
        return batch

    def _fits(self, batch: _Batch[Item, Answer], weight: Weight) -> bool:
        return batch.entries + weight.entries <= self._entries_max and batch.size_bytes + weight.size_bytes <= BYTES_MAX

    async def _run(self, batch: _Batch[Item, Answer]) -> Sequence[Answer]:
        async with self._slots:
            if self._collecting is batch:
                self._collecting = None
            return await self._send(batch.items)
