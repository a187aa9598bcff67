"""The size of a text in bytes."""

from __future__ import annotations


def utf8_bytes(text: str) -> int:
    """Bytes in UTF-8, without encoding a text of ASCII. A lone surrogate counts as its replacement character."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
