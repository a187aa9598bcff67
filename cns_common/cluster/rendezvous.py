"""Rendezvous hashing: each process computes alone where a key belongs."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b


def rendezvous(names: Iterable[str], key: str) -> str:
    """The name with the greatest weight for the key. When a name comes or goes, only its own keys move."""
    return max(names, key=lambda name: (blake2b(f"{name}/{key}".encode(), digest_size=8).digest(), name))
