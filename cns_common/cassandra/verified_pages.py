"""Pages of an index whose entries are written before, and removed after, what they point to: some point to nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Entry = TypeVar("Entry")
Found = TypeVar("Found")


async def verified_page(
    read: Callable[[str, int], Awaitable[Sequence[Entry]]],
    check: Callable[[Sequence[Entry]], Awaitable[Sequence[Found]]],
    place_of: Callable[[Entry], str],
    after: str,
    n: int,
) -> list[Found]:
    """Up to `n` of what `check` finds behind the entries that `read` finds after a place: fewer are all there are."""
    found: list[Found] = []
    while len(found) < n:
        entries = await read(after, n)
        found += await check(entries)
        if len(entries) < n:
            break
        after = place_of(entries[-1])
    return found[:n]
