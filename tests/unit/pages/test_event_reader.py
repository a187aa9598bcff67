"""Searches of events for pages: how many run at once, in all and for one account."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cns_common.configuration.settings import Settings
from cns_server.pages.sources import EventReader


async def test_an_account_with_many_searches_leaves_room_for_others(tmp_path: Path) -> None:
    reader = EventReader(Settings(data=tmp_path))
    begun: list[str] = []
    end = asyncio.Event()

    async def search(account: str) -> None:
        async with reader.room(account):
            begun.append(account)
            await end.wait()

    searches = [asyncio.create_task(search(account)) for account in ("a", "a", "a", "b", "c")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert begun == ["a", "b"]
    end.set()
    await asyncio.gather(*searches)
    assert sorted(begun) == ["a", "a", "a", "b", "c"]
