"""What a process knows of the slots of a queue's index, so that its reads pass few removed positions.

A read begins at the *floor* of a slot: no position before it is known. This process knows all that it writes. Others
write positions that are due now, or a little earlier: so a read begins at least `LAG_MS` before the time of the last
one, and each slot is read from its start from time to time."""

from __future__ import annotations

from collections.abc import Sequence

from cqs.engines.bdqs import schema
from cqs.engines.bdqs.ids import IndexRow, Position, generation_of, lowest_position, slot_name, window_start

LAG_MS = 500
"""Longer than most writes take, and than the clocks of two processes may differ unnoticed."""
RECENT_MS = 90_000
DEEP_RECENT_MS = 5_000
DEEP_OLD_MS = 30_000
"""The intervals at which slots of recent windows, and of older ones, are read from their start."""


class SlotView:
    __slots__ = ("_deep_at", "_known_ms", "_noted", "_reads_to_ms", "empty", "floor", "name", "window_ms")

    def __init__(self, name: str) -> None:
        self.name = name
        self.window_ms = window_start(name)
        self.floor: Position | None = None
        self.empty = False
        self._deep_at: tuple[int, int] | None = None  # of the last read from the start: message time, monotonic
        self._known_ms = self._reads_to_ms = 0  # earlier positions are known, except late ones
        self._noted: Position | None = None

    def lower_bound(self) -> Position:
        """The lowest key of the slot at which this process knows of a position."""
        return self.floor or lowest_position(self.window_ms)

    def note(self, position: Position) -> None:
        """Record a position that this process wrote."""
        if self.empty or (self.floor is not None and position < self.floor):
            self.floor, self.empty = position, False
        self._noted = position if self._noted is None else min(position, self._noted)

    @property
    def read_to_ms(self) -> int:
        """The time of the latest read."""
        return self._known_ms + LAG_MS

    def wants_deep(self, now_ms: int, monotonic_ms: int) -> bool:
        recent = self.window_ms + schema.WINDOW_MS > now_ms - RECENT_MS
        interval_ms = DEEP_RECENT_MS if recent else DEEP_OLD_MS
        if self._deep_at is None:
            return True
        return now_ms - self._deep_at[0] >= interval_ms or monotonic_ms - self._deep_at[1] >= interval_ms

    def is_passed(self, now_ms: int, monotonic_ms: int) -> bool:
        """Whether a read of the slot would find nothing."""
        is_known = self.window_ms > now_ms or self.window_ms + schema.WINDOW_MS <= self._known_ms
        return self.empty and is_known and not self.wants_deep(now_ms, monotonic_ms)

    def begin_read(self, now_ms: int, monotonic_ms: int, *, deep: bool = True) -> Position | None:
        """The key from which to read; None: the start, for the first read, and if `deep` from time to time. Call
        `end_read` with what the read found."""
        self._noted = None
        known = lowest_position(self._known_ms)
        self._reads_to_ms = max(now_ms - LAG_MS, self._known_ms)
        if self._deep_at is None or (deep and self.wants_deep(now_ms, monotonic_ms)):
            self._deep_at = now_ms, monotonic_ms
            return None
        if self.window_ms > now_ms:
            return self.floor
        return known if self.floor is None else min(self.floor, known)

    def end_read(self, entries: list[IndexRow]) -> None:
        self._known_ms = self._reads_to_ms
        self.empty = not entries
        self.floor = entries[0].position if entries else None
        if self._noted is not None:  # written during the read, which may have missed it
            self.empty = False
            self.floor = self._noted if self.floor is None else min(self.floor, self._noted)

    def failed_read(self) -> None:
        self._deep_at = None

    def learn(self, other: SlotView) -> None:
        """Take over what another view's last read found, if it is no older."""
        if other._deep_at is not None and other._known_ms >= self._known_ms:
            self.floor, self.empty, self._known_ms = other.floor, other.empty, other._known_ms
            self._deep_at = self._deep_at or other._deep_at


class SlotViews:
    """The slots of one generation of a queue."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._views: dict[str, SlotView] = {}
        self.listed_now_ms = self.listed_monotonic_ms = -(10**15)

    def get(self, name: str) -> SlotView:
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = SlotView(name)
        return view

    def note(self, entries: Sequence[IndexRow], *, new: bool = True) -> None:
        """Record rows of the index. Ignored are rows of another generation, which were written during a purge, and,
        unless `new`, those of unknown slots."""
        for entry in entries:
            if generation_of(entry.slot) == self.generation and (new or entry.slot in self._views):
                self.get(entry.slot).note(entry.position)

    def learn(self, others: SlotViews) -> None:
        """Take over what the last reads of other views found in the slots that are known here."""
        for name, other in others._views.items():
            if (view := self._views.get(name)) is not None:
                view.learn(other)

    def replace_listed(self, names: Sequence[str], before: str) -> None:
        """Record the listed slots before a name. Views of other slots before it, which were retired, are dropped."""
        listed = set(names)
        for name in [one for one in self._views if one < before and one not in listed]:
            del self._views[name]
        for name in names:
            self.get(name)

    def are_empty(self, names: Sequence[str]) -> bool:
        """Whether reads of all these slots found nothing."""
        return all((view := self._views.get(name)) is not None and view.empty for name in names)

    def found_empty(self) -> set[str]:
        """The slots in which reads found nothing."""
        return {name for name, view in self._views.items() if view.empty}

    def lowest(self, now_ms: int) -> str:
        """A name before which no slot is listed. Not valid before the first listing."""
        oldest = slot_name(self.generation, max(now_ms - schema.RETIRE_MS, 0), 0)
        return min([oldest, *self._views])

    def due(self, now_ms: int, monotonic_ms: int) -> list[SlotView]:
        """The slots that may have visible positions, those with the lowest first. The slot of the present is among
        them: another process may have added it just now."""
        self.get(slot_name(self.generation, now_ms - now_ms % schema.WINDOW_MS, 0))
        views = [view for view in self._views.values() if view.window_ms <= now_ms]
        return sorted((view for view in views if not view.is_passed(now_ms, monotonic_ms)), key=SlotView.lower_bound)

    def present(self, now_ms: int) -> list[SlotView]:
        """The slots that may have both visible and hidden positions."""
        return [view for view in self._views.values() if view.window_ms <= now_ms < view.window_ms + schema.WINDOW_MS]

    def later(self, now_ms: int, monotonic_ms: int) -> list[SlotView]:
        """The slots that have only hidden positions, soonest first."""
        views = [view for view in self._views.values() if view.window_ms > now_ms]
        return sorted((view for view in views if not view.is_passed(now_ms, monotonic_ms)), key=lambda view: view.name)
