"""Messages in the order of a FIFO queue: each in its group, and of each group the first by when it may be received."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from itertools import islice

import msgspec

from cqs.engines.cqs.fifo.hidden import Hidden

LOOK_BEYOND = 10
"""Of a group, so many times what is wanted are looked at: some of them may be gone."""


class Kept(msgspec.Struct, array_like=True):
    """A message that is in the queue."""

    seq: int
    id: str
    place: str
    group: str
    born_at_ms: int
    visible_at_ms: int
    deliveries: int
    first_at_ms: int
    lease: int = 0


class Order:
    def __init__(self, messages: Iterable[Kept] = (), now_ms: int = 0) -> None:
        self.kept: dict[int, Kept] = {}  # as their sequence numbers rise
        self.hidden = Hidden()
        self._groups: dict[str, deque[int]] = {}  # what is gone is passed over
        self._heads: list[tuple[int, int]] = []  # (due, sequence) of each group's first; what is so no more, too
        for kept in messages:
            self.add(kept, now_ms)

    def add(self, kept: Kept, now_ms: int) -> None:
        self.kept[kept.seq] = kept
        self._groups.setdefault(kept.group, deque()).append(kept.seq)
        self.show(kept, kept.visible_at_ms, now_ms)

    def remove(self, kept: Kept) -> None:
        del self.kept[kept.seq]
        self.hidden.remove(kept.seq)
        self.put_back(kept.group)

    def show(self, kept: Kept, visible_at_ms: int, now_ms: int) -> None:
        """It is visible from then on."""
        self.hide(kept, visible_at_ms, now_ms)
        if self._first(kept.group) == kept.seq:
            heapq.heappush(self._heads, (visible_at_ms, kept.seq))

    def hide(self, kept: Kept, visible_at_ms: int, now_ms: int) -> None:
        """As `show`, of a message whose group is put back afterwards."""
        kept.visible_at_ms = visible_at_ms
        self.hidden.remove(kept.seq)
        if visible_at_ms > now_ms:
            self.hidden.add(kept.seq, visible_at_ms, in_flight=kept.deliveries > 0)

    def take_due(self, now_ms: int) -> Kept | None:
        """The first message of a group, due longest. Its group is out until it is put back."""
        if not self.is_due(now_ms):
            return None
        _, seq = heapq.heappop(self._heads)
        while self._heads and self._heads[0][1] == seq:
            heapq.heappop(self._heads)  # the same, put there twice
        return self.kept[seq]

    def put_back(self, group: str) -> None:
        first = self._first(group)
        if first is None:
            self._groups.pop(group, None)
        else:
            heapq.heappush(self._heads, (self.kept[first].visible_at_ms, first))

    def visible_of(self, group: str, n: int, now_ms: int) -> list[Kept]:
        """A group's first messages up to one that is hidden; `n` of them, unless many in between are gone."""
        visible: list[Kept] = []
        for seq in islice(self._groups[group], LOOK_BEYOND * n):
            kept = self.kept.get(seq)
            if kept is None:
                continue
            if kept.visible_at_ms > now_ms or len(visible) == n:
                break
            visible.append(kept)
        return visible

    def is_due(self, now_ms: int) -> bool:
        due_ms = self.next_due_ms()
        return due_ms is not None and due_ms <= now_ms

    def next_due_ms(self) -> int | None:
        while self._heads and not self._is_first(*self._heads[0]):
            heapq.heappop(self._heads)
        return self._heads[0][0] if self._heads else None

    def first_and_behind(self) -> tuple[list[Kept], list[Kept]]:
        """The first of each group, soonest due first; and all that stand behind another, as they came."""
        firsts = {self._first(group) for group in list(self._groups)}
        first = [kept for kept in self.kept.values() if kept.seq in firsts]
        behind = [kept for kept in self.kept.values() if kept.seq not in firsts]
        return sorted(first, key=lambda kept: (kept.visible_at_ms, kept.seq)), behind

    def _first(self, group: str) -> int | None:
        seqs = self._groups.get(group)
        while seqs and seqs[0] not in self.kept:
            seqs.popleft()
        return seqs[0] if seqs else None

    def _is_first(self, due_ms: int, seq: int) -> bool:
        kept = self.kept.get(seq)
        return kept is not None and kept.visible_at_ms == due_ms and self._first(kept.group) == seq
