"""Work that waits for the store's next transaction, sorted by its kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class Work(Generic[Item]):
    """One caller's item, and the future that its answer goes to."""

    __slots__ = ("future", "item")

    def __init__(self, item: Item, future: asyncio.Future[Any]) -> None:
        self.item = item
        self.future = future

    def answer(self, result: object) -> None:
        """Answer at once, before the commit: for results that need not be durable."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Stage(Generic[Item]):
    """One kind of work.

    `submitted` is called for each item, and makes the future of its answer. `run` gets all items of a loop turn and
    returns the answers to give once they are committed. `grows` says which items make the store larger: those are
    refused while the disk is full.
    """

    __slots__ = ("_run", "_submitted", "grows", "waiting")

    def __init__(
        self,
        submitted: Callable[[], asyncio.Future[Any]],
        run: Callable[[list[Work[Item]]], list[tuple[Work[Item], object]]],
        grows: Callable[[Item], bool],
    ) -> None:
        self._submitted = submitted
        self._run = run
        self.grows = grows
        self.waiting: list[Work[Item]] = []

    def submit(self, item: Item) -> asyncio.Future[Any]:
        future = self._submitted()
        self.waiting.append(Work(item, future))
        return future

    def run(self) -> list[tuple[Work[Item], object]]:
        batch, self.waiting = self.waiting, []
        try:
            return self._run(batch)
        except BaseException:
            self.waiting = batch  # the flush fails it together with all other waiting work
            raise
