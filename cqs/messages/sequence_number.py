"""Sequence numbers of FIFO queues as text."""

from __future__ import annotations

_SEQUENCE_BASE = 10**19


def sequence_text(sequence: int) -> str:
    """Always twenty digits, as at AWS: comparing the texts compares the numbers."""
    return str(_SEQUENCE_BASE + sequence)
