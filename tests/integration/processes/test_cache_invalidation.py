"""Changes announced between processes through a real Redis, and caches that expire without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cns_backend import cache_invalidation
from cns_backend.cache_invalidation import CacheInvalidation
from cns_common.cassandra.change_listeners import no_other_process
from lab.harness.own_redis import OwnRedis
from lab.harness.servers import fresh_prefix, redis_url
from lab.harness.waiting import PATIENCE_S, wait_until


@dataclass
class Store:
    """Stands for a store: the part that cache invalidation uses."""

    changed: list[Callable[[Any], None]] = field(default_factory=list)
    others_acknowledged: Callable[[], Awaitable[None]] = no_other_process

    def change(self, key: str | tuple[str, ...]) -> None:
        for callback in self.changed:
            callback(key)


class Process:
    def __init__(self, url: str, channel: str) -> None:
        self.topics, self.queues = Store(), Store()
        self.received: list[object] = []
        self.cache_clears = 0
        self.topics.changed.append(self.received.append)
        self.queues.changed.append(lambda key: self.received.append(tuple(key)))
        stores = {"topics": self.topics, "queues": self.queues}
        self.invalidation = CacheInvalidation(url, channel, stores, [self._clear_cache])  # type: ignore[arg-type]  # see Store
        self.invalidation.listen("clock", self.received.append)

    def _clear_cache(self) -> None:
        self.cache_clears += 1


@asynccontextmanager
async def start_process(url: str, channel: str) -> AsyncIterator[Process]:
    process = Process(url, channel)
    process.invalidation.start()
    yield process
    await process.invalidation.close()


async def test_a_change_reaches_the_other_processes_once() -> None:
    channel = fresh_prefix()
    async with start_process(redis_url(), channel) as one, start_process(redis_url(), channel) as other:
        # both are subscribed
        await asyncio.to_thread(wait_until, lambda: one.cache_clears > 0 and other.cache_clears > 0)
        one.topics.change("arn")
        one.queues.change(("account", "region", "name"))
        one.invalidation.announce("clock", 7)
        await asyncio.to_thread(wait_until, lambda: len(other.received) == 3)
        assert other.received == ["arn", ("account", "region", "name"), 7]
        other.topics.change("back")
        await asyncio.to_thread(wait_until, lambda: len(one.received) == 3)
        assert one.received == ["arn", ("account", "region", "name"), "back"]
        assert other.received[3:] == ["back"]


async def test_a_change_is_acknowledged_by_all_before_it_is_answered() -> None:
    channel = fresh_prefix()
    async with start_process(redis_url(), channel) as one, start_process(redis_url(), channel) as other:
        await asyncio.to_thread(wait_until, lambda: one.cache_clears > 0 and other.cache_clears > 0)
        for number in range(20):
            one.topics.change(str(number))
            await one.topics.others_acknowledged()
            assert other.received[-1:] == [str(number)]


async def test_a_redis_that_hangs_delays_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_invalidation, "ACK_TIMEOUT_S", 0.01)
    server = OwnRedis(tmp_path)
    server.start()
    try:
        async with start_process(server.url, "any") as process:
            await asyncio.to_thread(wait_until, lambda: process.cache_clears > 0)
            server.pause()
            process.topics.change("arn")
            await asyncio.wait_for(process.topics.others_acknowledged(), PATIENCE_S)
            server.resume()
    finally:
        server.kill()


async def test_announcements_are_sent_before_close() -> None:
    channel = fresh_prefix()
    async with start_process(redis_url(), channel) as listener:
        await asyncio.to_thread(wait_until, lambda: listener.cache_clears > 0)
        async with start_process(redis_url(), channel) as command:
            command.topics.change("arn")
        await asyncio.to_thread(wait_until, lambda: listener.received == ["arn"])


@pytest.mark.parametrize("url", ["", "redis://127.0.0.1:1/0"])
async def test_without_redis_caches_are_cleared_at_an_interval(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_invalidation, "CACHE_AGE_S", 0.01)
    async with start_process(url, "any") as process:
        process.topics.change("arn")
        await asyncio.to_thread(wait_until, lambda: process.cache_clears >= 3)
