"""Receipt handles of the embedded engine, and the numbers in them.

A number is the store's boot number and a counter within the boot, so it is never used twice, even after a crash that
lost the transaction which used it. A handle is (sequence of the message, number of the lease). It is stale once the
message has a higher lease number, and valid until then, also across restarts.
"""

from __future__ import annotations

import struct

_HANDLE = struct.Struct(">QQ")
_COUNTER_BITS = 40
NEWEST = (1 << 63) - 1
"""Higher than any lease number: what a handle counts as under `older_handles`."""


class NumberSequence:
    """Rising numbers, unique in one data directory: 2^40 per boot, 2^23 boots."""

    __slots__ = ("_next",)

    def __init__(self, boot: int) -> None:
        self._next = boot << _COUNTER_BITS

    def take(self) -> int:
        number = self._next
        self._next = number + 1
        return number

    @property
    def next(self) -> int:
        """Above every number taken in this data directory."""
        return self._next

    def rise_to(self, number: int) -> int:
        """Take no number below this one. Returns the number of starts that numbers of later starts must exceed."""
        self._next = max(self._next, number)
        return self._next >> _COUNTER_BITS


def make_handle(seq: int, lease: int) -> bytes:
    return _HANDLE.pack(seq, lease)


def parse_handle(handle: bytes) -> tuple[int, int] | None:
    """(sequence, lease), or None for bytes that are not a handle."""
    if len(handle) != _HANDLE.size:
        return None
    seq, lease = _HANDLE.unpack(handle)
    return (seq, lease) if seq < 1 << 63 and lease < 1 << 63 else None
