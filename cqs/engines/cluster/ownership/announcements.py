"""Announcements between processes over Redis, beside the hints of queues. Each may be lost."""

from __future__ import annotations

from collections.abc import Callable

MARK = "~"
"""No queue's id begins with it."""
ALIVE, LEFT, USED, MASS_DELETE = "~alive/", "~left/", "~used/", "~emptied/"


class Announcements:
    """`hint` publishes a text, which each process, this one too, passes to `received`."""

    def __init__(self, hint: Callable[[str], None]) -> None:
        self._hint = hint
        self.on_process: Callable[[str, bool], None] = lambda _node, _alive: None
        self.on_use: Callable[[int], None] = lambda _slice: None
        self.on_mass_delete: Callable[[str], None] = lambda _queue: None

    def process(self, node: str, alive: bool) -> None:
        """Announce that the process has renewed its lease, or has left."""
        self._hint((ALIVE if alive else LEFT) + node)

    def use(self, number: int) -> None:
        """Announce a new user of a queue in the slice."""
        self._hint(f"{USED}{number}")

    def mass_delete(self, queue_id: str) -> None:
        """Announce that many messages of the queue were deleted: some of its buckets may be empty."""
        self.on_mass_delete(queue_id)  # at once, if this process is the owner
        self._hint(MASS_DELETE + queue_id)

    def received(self, text: str) -> None:
        for mark in (ALIVE, LEFT):
            if text.startswith(mark):
                self.on_process(text.removeprefix(mark), mark == ALIVE)
        if text.startswith(USED):
            self.on_use(int(text.removeprefix(USED)))
        if text.startswith(MASS_DELETE):
            self.on_mass_delete(text.removeprefix(MASS_DELETE))
