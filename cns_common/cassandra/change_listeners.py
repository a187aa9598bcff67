"""Change notification of the cluster's stores: this process at once, the others before the write returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")


async def no_other_process() -> None:
    """No other process caches this store's records."""


class ChangeNotifier(Generic[Key]):
    """A mixin of such a store. One of the `changed` callbacks sends the key to the other processes;
    `others_acknowledged` waits until they have dropped what they cached."""

    def __init__(self) -> None:
        self.changed: list[Callable[[Key], None]] = []
        self.others_acknowledged: Callable[[], Awaitable[None]] = no_other_process

    async def _notify(self, key: Key) -> None:
        for callback in self.changed:
            callback(key)
        await self.others_acknowledged()
