"""Message numbers, the keys of queues, and pop receipts."""

from __future__ import annotations

import re
from typing import NamedTuple

GENERATION_SHIFT = 44
"""A message's sequence number is its queue's generation followed by its monoton in this many bits."""
TAG_DIGITS = 8

_HANDLE = re.compile(rb"([0-9a-f]{1,8})\.([0-9a-f]{1,11})\.([0-9a-f]{1,8})\.([0-9a-f]{8})\Z")


class PopReceipt(NamedTuple):
    """Names one delivery: `version` is its number. `tag` is random, so that no receipt can be guessed, and none names
    a message of another queue."""

    generation: int
    monoton: int
    version: int
    tag: str

    @property
    def handle(self) -> bytes:
        return f"{self.generation:x}.{self.monoton:x}.{self.version:x}.{self.tag}".encode()


def parse_handle(handle: bytes) -> PopReceipt | None:
    """None if it is not a handle of this engine."""
    found = _HANDLE.match(handle)
    if found is None:
        return None
    generation, monoton, version, tag = found.groups()
    return PopReceipt(int(generation, 16), int(monoton, 16), int(version, 16), tag.decode())


def queue_key(queue_id: str, generation: int) -> str:
    return f"{queue_id}:{generation}"


def bucket_of(monoton: int, bucket_size: int) -> int:
    return monoton // bucket_size


def sequence_of(generation: int, monoton: int) -> int:
    """Numbers start at 1."""
    return (generation << GENERATION_SHIFT) + monoton + 1
