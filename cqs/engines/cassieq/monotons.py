"""Allocates monotonic message numbers by conditional writes. A number is allocated once, whether it is used or not.

The original allocates one number per conditional write. Here the messages that wait during a write share the next one
(`IdRange` limits its numbers; 1 is as the original). No number is kept in stock: one that is used late would be behind
a seal.
"""

from __future__ import annotations

import asyncio
import random
from typing import NamedTuple

from cns_common.bounded_cache import BoundedCache
from cns_common.cassandra.session import Cassandra, Row
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cqs.engines.cassieq import schema

KNOWN_MAX = 20_000
TRIES_MAX = 50
TRY_WITHIN_S = 6.0
BACKOFF_S = 0.01
BACKOFF_S_MAX = 0.2


class _WaitingRange(NamedTuple):
    numbers: list[int]
    n: int
    range_max: int
    bucket_size: int
    done: asyncio.Future[list[int]]


class Monotons:
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra
        self._known: BoundedCache[str, int] = BoundedCache(KNOWN_MAX)
        self._waiting: dict[str, list[_WaitingRange]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.writes = 0
        self.lost_races = 0

    async def next(self, key: str) -> int:
        """The next free number. It may have been read before this call, and then be too low."""
        value, _ = await self.extent(key)
        return value

    async def extent(self, key: str) -> tuple[int, int]:
        """The next number, and the queue's bucket size."""
        rows = await self._cassandra.run(schema.READ_MONOTON, key)
        return (int(rows[0][0] or 0), int(rows[0][1] or 1)) if rows else (0, 1)

    async def take(self, key: str, n: int, range_max: int, bucket_size: int) -> list[int]:
        """Allocate `n` rising numbers. The first call for a key stores its `bucket_size`."""
        loop = asyncio.get_running_loop()
        waiting = _WaitingRange([], n, range_max, bucket_size, loop.create_future())
        if key in self._waiting:
            self._waiting[key].append(waiting)
        else:
            self._waiting[key] = [waiting]
            task = loop.create_task(self._run(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await waiting.done

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, key: str) -> None:
        while waiting := [one for one in self._waiting[key] if not one.done.done()]:
            self._waiting[key] = waiting
            range_max = waiting[0].range_max
            n = min(sum(one.n - len(one.numbers) for one in waiting), range_max)
            try:
                first = await self._reserve(key, n, waiting[0].bucket_size)
            except Exception as error:  # noqa: BLE001  # the callers raise it
                for one in waiting:
                    if not one.done.done():
                        one.done.set_exception(error)
                continue
            _distribute(waiting, first, n)
        del self._waiting[key]

    async def _reserve(self, key: str, n: int, bucket_size: int) -> int:
        """Take `n` numbers. Returns the first of them."""
        value = self._known.get(key)
        if value is None:
            value = await self.next(key)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + TRY_WITHIN_S
        for number in range(TRIES_MAX):
            if number:
                pause_s = min(BACKOFF_S * number, BACKOFF_S_MAX)
                await asyncio.sleep(random.uniform(0, pause_s))  # noqa: S311  # spreads tries
                if loop.time() > until_s:
                    break
            self.writes += 1
            try:
                rows = await self._try(key, value, n, bucket_size)
            except OutcomeUnknown:
                continue  # if it was applied, the next try finds that: the numbers stay unused
            if rows[0][0]:
                self._known.put(key, value + n)
                return value
            self.lost_races += 1
            value = int(rows[0][1] or 0)
        raise StoreUnavailable("the queue's next message number is taken again and again")

    async def _try(self, key: str, value: int, n: int, bucket_size: int) -> list[Row]:
        if value:
            return await self._cassandra.run(schema.NEXT_MONOTON, value + n, key, value)
        return await self._cassandra.run(schema.FIRST_MONOTON, n, bucket_size, key)


def _distribute(waiting: list[_WaitingRange], first: int, n: int) -> None:
    end = first + n
    for one in waiting:
        while first < end and len(one.numbers) < one.n:
            one.numbers.append(first)
            first += 1
        if len(one.numbers) == one.n and not one.done.done():
            one.done.set_result(one.numbers)
