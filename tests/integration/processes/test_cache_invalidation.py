"""Changes told between processes through a real Redis, and caches that forget without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cns_backend import cache_invalidation as announcements
from cns_backend.cache_invalidation import Announcements
from cns_common.cassandra.change_listeners import no_other_process
from tests.own_redis import OwnRedis
from tests.servers import fresh_prefix, redis_url
from tests.waiting import wait_until


@dataclass
class Store:
    """As much of a store as announcements use."""

    changed: list[Callable[[Any], None]] = field(default_factory=list)
    others_acknowledged: Callable[[], Awaitable[None]] = no_other_process

    def change(self, key: str | tuple[str, ...]) -> None:
        for callback in self.changed:
            callback(key)


class Process:
    def __init__(self, url: str, channel: str) -> None:
        self.topics, self.queues = Store(), Store()
        self.told: list[object] = []
        self.forgot = 0
        self.topics.changed.append(self.told.append)
        self.queues.changed.append(lambda key: self.told.append(tuple(key)))
        stores = {"topics": self.topics, "queues": self.queues}
        self.announcements = Announcements(url, channel, stores, [self._forget])  # type: ignore[arg-type]  # it has what is used
        self.announcements.listen("clock", self.told.append)

    def _forget(self) -> None:
        self.forgot += 1


@asynccontextmanager
async def started(url: str, channel: str) -> AsyncIterator[Process]:
    process = Process(url, channel)
    process.announcements.start()
    yield process
    await process.announcements.close()


async def test_what_one_changes_the_others_are_told_once() -> None:
    channel = fresh_prefix()
    async with started(redis_url(), channel) as one, started(redis_url(), channel) as other:
        await asyncio.to_thread(wait_until, lambda: one.forgot > 0 and other.forgot > 0, 10)  # they listen
        one.topics.change("arn")
        one.queues.change(("account", "region", "name"))
        one.announcements.announce("clock", 7)
        await asyncio.to_thread(wait_until, lambda: len(other.told) == 3, 10)
        assert other.told == ["arn", ("account", "region", "name"), 7]
        other.topics.change("back")
        await asyncio.to_thread(wait_until, lambda: len(one.told) == 3, 10)
        assert one.told == ["arn", ("account", "region", "name"), "back"]
        assert other.told[3:] == ["back"]


async def test_all_have_heard_of_a_change_before_it_is_answered() -> None:
    channel = fresh_prefix()
    async with started(redis_url(), channel) as one, started(redis_url(), channel) as other:
        await asyncio.to_thread(wait_until, lambda: one.forgot > 0 and other.forgot > 0, 10)
        for number in range(20):
            one.topics.change(str(number))
            await one.topics.others_acknowledged()
            assert other.told[-1:] == [str(number)]


async def test_a_redis_that_is_silent_holds_up_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "HEARD_S", 0.01)
    server = OwnRedis(tmp_path)
    server.start()
    try:
        async with started(server.url, "any") as process:
            await asyncio.to_thread(wait_until, lambda: process.forgot > 0, 10)
            server.pause()
            process.topics.change("arn")
            await asyncio.wait_for(process.topics.others_acknowledged(), 1)
            server.resume()
    finally:
        server.kill()


async def test_what_was_announced_is_told_before_the_end() -> None:
    channel = fresh_prefix()
    async with started(redis_url(), channel) as listener:
        await asyncio.to_thread(wait_until, lambda: listener.forgot > 0, 10)
        async with started(redis_url(), channel) as command:
            command.topics.change("arn")
        await asyncio.to_thread(wait_until, lambda: listener.told == ["arn"], 10)


@pytest.mark.parametrize("url", ["", "redis://127.0.0.1:1/0"])
async def test_without_redis_caches_are_forgotten_by_age(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "CACHE_AGE_S", 0.01)
    async with started(url, "any") as process:
        process.topics.change("arn")
        await asyncio.to_thread(wait_until, lambda: process.forgot >= 3, 10)
