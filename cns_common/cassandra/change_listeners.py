"""How a store of the cluster form tells of a change: its own process at once, the others before it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")


async def no_other_process() -> None:
    """There is no other process that keeps what this store holds."""


class ChangeNotifier(Generic[Key]):
    """A part of such a store. `changed` also passes the key on to the others, which `others_acknowledged` waits for."""

    def __init__(self) -> None:
        self.changed: list[Callable[[Key], None]] = []
        self.others_acknowledged: Callable[[], Awaitable[None]] = no_other_process

    async def _notify(self, key: Key) -> None:
        for callback in self.changed:
            callback(key)
        await self.others_acknowledged()
