"""Pages of an index table. An entry is written before its record and removed after it, so it may point to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

Entry = TypeVar("Entry")
Found = TypeVar("Found")


async def verified_page(
    read: Callable[[str, int], Awaitable[Sequence[Entry]]],
    check: Callable[[Sequence[Entry]], Awaitable[Sequence[Found]]],
    key_of: Callable[[Entry], str],
    after: str,
    n: int,
) -> list[Found]:
    """Up to `n` records: `read` gives the entries after a key, `check` the records of those that exist. Fewer than `n`
    mean that there are no more."""
    found: list[Found] = []
    while len(found) < n:
        entries = await read(after, n)
        found += await check(entries)
        if len(entries) < n:
            break
        after = key_of(entries[-1])
    return found[:n]


async def page_of_ids(
    read: Callable[[str, int], Awaitable[Sequence[str]]],
    find: Callable[[Sequence[str]], Awaitable[Mapping[str, Found]]],
    remove: Callable[[str], Awaitable[None]],
    after: str,
    n: int,
) -> list[Found]:
    """As `verified_page`, of an index whose entries are ids: `find` gives the records that exist, by id, and `remove`
    removes the entry of one that does not."""

    async def check(ids: Sequence[str]) -> list[Found]:
        found = await find(ids)
        await asyncio.gather(*[remove(one) for one in ids if one not in found])
        return [found[one] for one in ids if one in found]

    return await verified_page(read, check, str, after, n)
