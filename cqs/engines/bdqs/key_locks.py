"""Locks by key, within this process. A lock exists while a task holds it or waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar


class _Comparable(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


Key = TypeVar("Key", bound=_Comparable)


class KeyLocks(Generic[Key]):
    def __init__(self) -> None:
        self._locks: dict[Key, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, keys: Iterable[Key]) -> AsyncIterator[None]:
        """Hold the locks of all these keys. They are taken in order, so that two holders never wait for each other."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):
                lock, users = self._locks.get(key, (asyncio.Lock(), 0))
                self._locks[key] = lock, users + 1
                stack.callback(self._leave, key)
                await stack.enter_async_context(lock)
            yield

    def _leave(self, key: Key) -> None:
        lock, users = self._locks[key]
        if users == 1:
            del self._locks[key]
        else:
            self._locks[key] = lock, users - 1
