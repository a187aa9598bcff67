"""Calls that go together: what comes while requests are under way makes up the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

REQUESTS_IN_FLIGHT_MAX = 2
BYTES_MAX = 2 * 1024 * 1024
"""Of bodies in one request, before base64 or the escapes of JSON make them up to twice as long: CQS reads 6.25 MiB. An
item that is larger goes alone."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Weight(NamedTuple):
    entries: int
    size_bytes: int


class _Batch(Generic[Item, Answer]):
    """Gathers items until its turn comes."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.entries = 0
        self.size_bytes = 0
        self.task: asyncio.Task[Sequence[Answer]] | None = None


class Batcher(Generic[Item, Answer]):
    """`send` has an answer for each item, in their order; what it raises, all of them get."""

    def __init__(
        self,
        send: Callable[[Sequence[Item]], Coroutine[Any, Any, Sequence[Answer]]],
        weigh: Callable[[Item], Weight],
        entries_max: int,
    ) -> None:
        self._send = send
        self._weigh = weigh
        self._entries_max = entries_max
        self._turns = asyncio.Semaphore(REQUESTS_IN_FLIGHT_MAX)
        self._gathering: _Batch[Item, Answer] | None = None

    async def call(self, item: Item) -> Answer:
        """Goes on by itself when the caller is cancelled, like a call that was sent."""
        request = self._request_for(self._weigh(item))
        position = len(request.items)
        request.items.append(item)
        if request.task is None:
            request.task = asyncio.create_task(self._run(request))
        answers = await asyncio.shield(request.task)
        return answers[position]

    def _request_for(self, weight: Weight) -> _Batch[Item, Answer]:
        request = self._gathering
        if request is None or not self._fits(request, weight):
            request = self._gathering = _Batch()
        request.entries += weight.entries
        request.size_bytes += weight.size_bytes
        return request

    def _fits(self, request: _Batch[Item, Answer], weight: Weight) -> bool:
        return (
            request.entries + weight.entries <= self._entries_max
            and request.size_bytes + weight.size_bytes <= BYTES_MAX
        )

    async def _run(self, request: _Batch[Item, Answer]) -> Sequence[Answer]:
        async with self._turns:
            if self._gathering is request:
                self._gathering = None
            return await self._send(request.items)
