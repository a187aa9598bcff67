"""A process's cache of the hidden positions of one generation of a queue, for counts.

Most messages are deleted within their visibility timeout, so a count in Cassandra would scan the tombstones of all
positions removed lately. Writes of this process enter the cache at once, those of others at the next reading.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence

from cqs.engines.bdqs.ids import IndexRow, Position, generation_of

HIDDEN_MAX = 10_000
"""With more hidden positions, each count is made by Cassandra, in a time that grows with their number."""
NOTES_TO_PRUNE = 1_000
"""The cache is pruned after this many writes. If still more positions than `HIDDEN_MAX` are hidden, it is dropped."""
FRESH_MS = 5_000
"""A count that finds an older reading starts a new one and does not wait for it."""
KNOWN_MS_MAX = 60_000
"""A count waits for a new reading if the last one is older."""


class HiddenPositions:
    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._known: dict[Position, bool] | None = None  # position → whether its message was delivered
        self._changed: dict[Position, bool | None] | None = None  # changes since a reading began; None: removed
        self._read_at_ms: int | None = None
        self._notes = 0  # writes since the last pruning
        self.reading = asyncio.Lock()

    def note(self, entries: Sequence[IndexRow], now_ms: int) -> None:
        """Add positions that this process wrote."""
        self._note({one.position: one.delivered for one in self._own(entries) if one.position.due_ms > now_ms})
        self._notes += len(entries)
        if self._notes >= NOTES_TO_PRUNE:
            self._notes = 0
            if sum(self.count(now_ms) or ()) > HIDDEN_MAX:  # nobody counts, or they are many
                self._known = self._read_at_ms = None

    def note_removed(self, entries: Sequence[IndexRow]) -> None:
        """Leave out positions that this process removed."""
        self._note({one.position: None for one in self._own(entries)})

    def _own(self, entries: Sequence[IndexRow]) -> list[IndexRow]:
        """Return the entries of this generation."""
        return [one for one in entries if generation_of(one.slot) == self._generation]

    def _note(self, changed: Mapping[Position, bool | None]) -> None:
        if self._changed is not None:
            self._changed.update(changed)
        self._keep(changed)

    def age_ms(self, monotonic_ms: int) -> int:
        """The age of the last reading."""
        return sys.maxsize if self._read_at_ms is None else monotonic_ms - self._read_at_ms

    def begin_reading(self) -> None:
        self._changed = {}

    def end_reading(self, found: Mapping[Position, bool] | None, monotonic_ms: int) -> None:
        """`found` is None if there are too many, or the reading failed."""
        changed, self._changed = self._changed or {}, None
        self._read_at_ms = monotonic_ms
        self._known = None if found is None else dict(found)
        self._keep(changed)

    def count(self, now_ms: int) -> tuple[int, int] | None:
        """(in flight, delayed); None if it is not known."""
        if self._known is None:
            return None
        self._known = {one: delivered for one, delivered in self._known.items() if one.due_ms > now_ms}
        in_flight = sum(self._known.values())
        return in_flight, len(self._known) - in_flight

    def first(self) -> Position | None:
        """The earliest known position."""
        return min(self._known or (), default=None)

    def _keep(self, changed: Mapping[Position, bool | None]) -> None:
        if self._known is None:
            return
        for position, delivered in changed.items():
            if delivered is None:
                self._known.pop(position, None)
            else:
                self._known[position] = delivered
