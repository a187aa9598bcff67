"""Identifiers: random UUID text and opaque hexadecimal names."""

from __future__ import annotations

import os

_VARIANT = str.maketrans("0123456789abcdef", "89ab89ab89ab89ab")
_POOL_BYTES = 32_768


class _RandomPool:
    """The kernel's random bytes, read many at a time: a system call per id would cost more than the id."""

    __slots__ = ("_hex", "_position")

    def __init__(self) -> None:
        self._hex = ""
        self._position = 0

    def take(self) -> str:
        """32 hexadecimal characters, which are not returned again."""
        at = self._position
        if at >= len(self._hex):
            self._hex = os.urandom(_POOL_BYTES).hex()
            at = 0
        self._position = at + 32
        return self._hex[at : at + 32]


_pool = _RandomPool()
os.register_at_fork(after_in_child=_pool.__init__)  # type: ignore[misc]  # a child must not repeat its parent's ids


def uuid_text() -> str:
    """A random UUID (version 4) as text."""
    h = _pool.take()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{h[16].translate(_VARIANT)}{h[17:20]}-{h[20:]}"


def hex_id() -> str:
    """32 random hexadecimal characters."""
    return _pool.take()
