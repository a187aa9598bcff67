"""Chooses the locations of sent messages: one open bucket per queue, written by this process only, limited in size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from cns_common.bounded_cache import BoundedCache
from cqs.engines.cluster.ids import COUNTER_BITS, MessageLocation, bucket_name
from cqs.engines.cluster.schema import BUCKET_BYTES_MAX, BUCKET_ROWS_MAX, BUCKET_SPAN_MS

OPEN_MAX = 20_000
"""Queues with an open bucket in this process. A queue beyond gets a new bucket."""


class _OpenBucket:
    __slots__ = ("bytes", "generation", "listed", "name", "rows", "start_ms")

    def __init__(self, generation: int, start_ms: int, name: str) -> None:
        self.generation = generation
        self.start_ms = start_ms
        self.name = name
        self.rows = 0
        self.bytes = 0
        self.listed = False  # whether the bucket is in `cqs_buckets`, where readers find it


class OpenBuckets:
    def __init__(self, node: str) -> None:
        self._node = node
        self._numbers = count()
        self._next = 0  # sequence numbers rise within the process even if its clock does not
        self._open: BoundedCache[str, _OpenBucket] = BoundedCache(OPEN_MAX)

    def allocate(self, queue_id: str, generation: int, sizes: Sequence[int], now_ms: int) -> list[MessageLocation]:
        """A location for each message, in order, all in one bucket."""
        opened = self._open.get(queue_id)
        if opened is None or not self._has_room(opened, generation, sizes, now_ms):
            opened = _OpenBucket(generation, now_ms, bucket_name(generation, now_ms, self._node, next(self._numbers)))
            self._open.put(queue_id, opened)
        start = opened.start_ms << COUNTER_BITS
        first = max(now_ms << COUNTER_BITS, self._next) - start
        self._next = start + first + len(sizes)
        opened.rows += len(sizes)
        opened.bytes += sum(sizes)
        return [MessageLocation(opened.name, first + n) for n in range(len(sizes))]

    def is_listed(self, queue_id: str, bucket: str) -> bool:
        """Whether readers can find the bucket. If not, the caller must add it to `cqs_buckets`."""
        opened = self._open.get(queue_id)
        return opened is not None and opened.name == bucket and opened.listed

    def mark_listed(self, queue_id: str, bucket: str) -> None:
        opened = self._open.get(queue_id)
        if opened is not None and opened.name == bucket:
            opened.listed = True

    @staticmethod
    def _has_room(opened: _OpenBucket, generation: int, sizes: Sequence[int], now_ms: int) -> bool:
        return (
            opened.generation == generation
            and now_ms - opened.start_ms < BUCKET_SPAN_MS
            and opened.rows + len(sizes) <= BUCKET_ROWS_MAX
            and opened.bytes + sum(sizes) <= BUCKET_BYTES_MAX
        )
