"""The size of a text in bytes."""

from __future__ import annotations


def utf8_bytes(text: str) -> int:
    """Bytes in UTF-8, without encoding a text of ASCII. What UTF-8 lacks counts as its replacement."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
