"""Receipt handles of the embedded engine, and the numbers they are made of.

A number is the store's boot number and a counter within the boot, so none is ever used twice: not after a crash that
lost the transaction it was given out in, either. A handle is (sequence of the message, number of the lease); it is
stale as soon as its message carries a higher lease, and good until then, across restarts.
"""

from __future__ import annotations

import struct

_HANDLE = struct.Struct(">QQ")
_COUNTER_BITS = 40
NEWEST = (1 << 63) - 1
"""No lease of a message is newer: what a handle counts as where older ones are good, too."""


class NumberSequence:
    """Rising numbers, unique for ever in one data directory. 2^40 a boot, 2^23 boots."""

    __slots__ = ("_next",)

    def __init__(self, boot: int) -> None:
        self._next = boot << _COUNTER_BITS

    def take(self) -> int:
        number = self._next
        self._next = number + 1
        return number


def make_handle(seq: int, lease: int) -> bytes:
    return _HANDLE.pack(seq, lease)


def parse_handle(handle: bytes) -> tuple[int, int] | None:
    """(sequence, lease), or None when these bytes are no handle."""
    if len(handle) != _HANDLE.size:
        return None
    seq, lease = _HANDLE.unpack(handle)
    return (seq, lease) if seq < 1 << 63 and lease < 1 << 63 else None
