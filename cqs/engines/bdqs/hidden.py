"""The hidden positions of one generation of a queue, as this process knows them, for counts.

Most of them are removed before their time, as messages are deleted within their timeouts: in each count Cassandra would
pass over all that were removed lately. What this process writes and removes is known at once, what others do by the
next reading.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence

from cqs.engines.bdqs.ids import Entry, Position, generation_of

HIDDEN_MAX = 10_000
"""With more hidden positions, a count asks Cassandra, which takes as long as they are many."""
FRESH_MS = 5_000
"""A count that finds an older reading has the next one made, and does not wait for it."""
KNOWN_MS_MAX = 60_000
"""A count waits for a new reading if the last one is older."""


class HiddenPositions:
    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._known: dict[Position, bool] | None = None  # whether its message was delivered, of each position
        self._changed: dict[Position, bool | None] | None = None  # since a reading began; None: removed
        self._read_at_ms: int | None = None
        self.reading = asyncio.Lock()

    def note(self, entries: Sequence[Entry], *, removed: bool = False) -> None:
        """This process wrote or removed positions."""
        for entry in entries:
            if generation_of(entry.slot) != self._generation:
                continue
            if self._changed is not None:
                self._changed[entry.position] = None if removed else entry.delivered
            if self._known is not None:
                self._keep({entry.position: None if removed else entry.delivered})

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
        """The first that is known."""
        return min(self._known or (), default=None)

    def _keep(self, changed: Mapping[Position, bool | None]) -> None:
        if self._known is None:
            return
        for position, delivered in changed.items():
            if delivered is None:
                self._known.pop(position, None)
            else:
                self._known[position] = delivered
        if len(self._known) > HIDDEN_MAX:  # nobody counts, or they are many
            self._known = self._read_at_ms = None
