"""Counts of messages in flight and delayed, kept up to date."""

from __future__ import annotations

import heapq

GARBAGE_MIN = 64
"""The heap is rebuilt when it has this many stale entries more than valid ones."""


class HiddenMessages:
    """The hidden messages, and when each becomes visible."""

    __slots__ = ("_heap", "_until", "delayed", "in_flight")

    def __init__(self) -> None:
        self._until: dict[int, tuple[int, bool]] = {}  # by sequence: (visible at, whether it is in flight)
        self._heap: list[tuple[int, int]] = []  # (visible at, sequence); stale entries are skipped
        self.in_flight = 0
        self.delayed = 0

    def add(self, seq: int, until_ms: int, *, in_flight: bool) -> None:
        self._until[seq] = (until_ms, in_flight)
        heapq.heappush(self._heap, (until_ms, seq))
        if len(self._heap) > 2 * len(self._until) + GARBAGE_MIN:
            self._heap = [(until, each) for each, (until, _) in self._until.items()]
            heapq.heapify(self._heap)
        self._count(in_flight, 1)

    def remove(self, seq: int) -> None:
        known = self._until.pop(seq, None)
        if known is not None:
            self._count(known[1], -1)

    def expire(self, now_ms: int) -> None:
        """Remove the messages that are visible by now."""
        while self._heap and self._heap[0][0] <= now_ms:
            until_ms, seq = heapq.heappop(self._heap)
            known = self._until.get(seq)
            if known is not None and known[0] == until_ms:
                self.remove(seq)

    def counts(self, now_ms: int) -> tuple[int, int]:
        """(in flight, delayed) at a time after the last command. Visits only the messages that become visible until
        then."""
        in_flight, delayed = self.in_flight, self.delayed
        ended: set[int] = set()
        at = [0]
        while at:
            n = at.pop()
            if n < len(self._heap) and self._heap[n][0] <= now_ms:
                at += (2 * n + 1, 2 * n + 2)
                until_ms, seq = self._heap[n]
                known = self._until.get(seq)
                if known is not None and known[0] == until_ms and seq not in ended:
                    ended.add(seq)
                    in_flight -= known[1]
                    delayed -= not known[1]
        return in_flight, delayed

    def _count(self, in_flight: bool, n: int) -> None:
        if in_flight:
            self.in_flight += n
        else:
            self.delayed += n
