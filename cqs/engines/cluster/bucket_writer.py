"""Where this process puts what is sent: one open bucket a queue, written by nobody else, bounded in rows and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from cns_common.bounded_cache import BoundedCache
from cqs.engines.cluster.ids import COUNTER_BITS, Place, bucket_name
from cqs.engines.cluster.schema import BUCKET_BYTES_MAX, BUCKET_ROWS_MAX, BUCKET_SPAN_MS

OPEN_MAX = 20_000
"""Queues this process knows an open bucket of; for another, it opens a new one."""


class _Open:
    __slots__ = ("bytes", "generation", "name", "rows", "start_ms", "stored")

    def __init__(self, generation: int, start_ms: int, name: str) -> None:
        self.generation = generation
        self.start_ms = start_ms
        self.name = name
        self.rows = 0
        self.bytes = 0
        self.stored = False  # whether readers can find it


class Buckets:
    def __init__(self, node: str) -> None:
        self._node = node
        self._turns = count()
        self._next = 0  # sequence numbers rise throughout the process, whatever its clock does
        self._open: BoundedCache[str, _Open] = BoundedCache(OPEN_MAX)

    def places(self, queue: str, generation: int, sizes: Sequence[int], now_ms: int) -> list[Place]:
        """A place for each message, all in one bucket, in their order."""
        opened = self._open.get(queue)
        if opened is None or not self._has_room(opened, generation, sizes, now_ms):
            opened = _Open(generation, now_ms, bucket_name(generation, now_ms, self._node, next(self._turns)))
            self._open.put(queue, opened)
        start = opened.start_ms << COUNTER_BITS
        first = max(now_ms << COUNTER_BITS, self._next) - start
        self._next = start + first + len(sizes)
        opened.rows += len(sizes)
        opened.bytes += sum(sizes)
        return [Place(opened.name, first + n) for n in range(len(sizes))]

    def is_stored(self, queue: str, bucket: str) -> bool:
        """False when readers may not find the bucket yet: then it must be added to the table."""
        opened = self._open.get(queue)
        return opened is not None and opened.name == bucket and opened.stored

    def stored(self, queue: str, bucket: str) -> None:
        opened = self._open.get(queue)
        if opened is not None and opened.name == bucket:
            opened.stored = True

    @staticmethod
    def _has_room(opened: _Open, generation: int, sizes: Sequence[int], now_ms: int) -> bool:
        return (
            opened.generation == generation
            and now_ms - opened.start_ms < BUCKET_SPAN_MS
            and opened.rows + len(sizes) <= BUCKET_ROWS_MAX
            and opened.bytes + sum(sizes) <= BUCKET_BYTES_MAX
        )
