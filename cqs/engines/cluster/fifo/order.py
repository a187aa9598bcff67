"""Messages in the order of a FIFO queue: each in its group, and of each group the first by when it may be received."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice

import msgspec

from cqs.engines.cluster.fifo.counts import Hidden

GARBAGE_MIN = 64
"""A heap is made anew when more than half of it, and more than this, is what is so no more."""


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
        self._groups: dict[str, OrderedDict[int, None]] = {}  # whose first is found, and any removed, at once
        self._heads: list[tuple[int, int]] = []  # (due, sequence) of each group's first; what is so no more, too
        for kept in messages:
            self.add(kept, now_ms)

    def add(self, kept: Kept, now_ms: int) -> None:
        self.kept[kept.seq] = kept
        self._groups.setdefault(kept.group, OrderedDict())[kept.seq] = None
        self.show(kept, kept.visible_at_ms, now_ms)

    def remove(self, kept: Kept) -> None:
        del self.kept[kept.seq]
        self.hidden.remove(kept.seq)
        group = self._groups[kept.group]
        del group[kept.seq]
        if not group:
            del self._groups[kept.group]
        self.put_back(kept.group)

    def show(self, kept: Kept, visible_at_ms: int, now_ms: int) -> None:
        """It is visible from then on."""
        self.hide(kept, visible_at_ms, now_ms)
        if self._first(kept.group) == kept.seq:
            self.put_back(kept.group)

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
            return
        heapq.heappush(self._heads, (self.kept[first].visible_at_ms, first))
        if len(self._heads) > 2 * len(self._groups) + GARBAGE_MIN:
            firsts = [next(iter(seqs)) for seqs in self._groups.values()]
            self._heads = [(self.kept[seq].visible_at_ms, seq) for seq in firsts]
            heapq.heapify(self._heads)

    def visible_of(self, group: str, n: int, now_ms: int) -> list[Kept]:
        """A group's first `n` messages, up to one that is hidden."""
        visible: list[Kept] = []
        for seq in islice(self._groups[group], n):
            kept = self.kept[seq]
            if kept.visible_at_ms > now_ms:
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
        firsts = {next(iter(seqs)) for seqs in self._groups.values()}
        first = [kept for kept in self.kept.values() if kept.seq in firsts]
        behind = [kept for kept in self.kept.values() if kept.seq not in firsts]
        return sorted(first, key=lambda kept: (kept.visible_at_ms, kept.seq)), behind

    def _first(self, group: str) -> int | None:
        seqs = self._groups.get(group)
        return next(iter(seqs)) if seqs else None

    def _is_first(self, due_ms: int, seq: int) -> bool:
        kept = self.kept.get(seq)
        return kept is not None and kept.visible_at_ms == due_ms and self._first(kept.group) == seq
