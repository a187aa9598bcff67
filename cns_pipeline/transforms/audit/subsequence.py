"""The exact length of the longest increasing subsequence of a sequence that is read once (patience sorting).

It stores the smallest last value of the increasing subsequences of each length: at most 8 bytes for each value of the
sequence, and usually less, since a random sequence of n values has a longest subsequence of about 2 √n.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable


class IncreasingSubsequence:
    """Its `len()` is the length for the values so far. Values must be distinct."""

    __slots__ = ("_tails",)

    def __init__(self) -> None:
        self._tails = array("q")

    def __len__(self) -> int:
        return len(self._tails)

    def extend(self, values: Iterable[int]) -> None:
        """Takes O(log n) per value, and one comparison per value in ascending order."""
        tails = self._tails
        last = tails[-1] if tails else -1
        for value in values:
            if value > last:
                tails.append(value)
                last = value
            else:
                place = bisect_left(tails, value)
                tails[place] = value
                last = tails[-1]
