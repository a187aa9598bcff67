"""Pages of an index table. An entry is written before its record and removed after it, so it may point to nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
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
