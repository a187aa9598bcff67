"""The queues that this process uses: generation, pointers, and when the buckets behind the reader are due."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from cns_common.clock import Clock
from cqs.engines.cassandra.generations import DROPPED, GenerationReads, QueueGenerations
from cqs.engines.cassandra.standard_engine import UsedQueues
from cqs.engines.cassieq.bucket import CassieqMessageRow
from cqs.engines.cassieq.hidden import BEGIN
from cqs.engines.cassieq.ids import parse_handle, queue_key
from cqs.engines.cassieq.options import bucket_size
from cqs.engines.cassieq.pointers import Pointer, QueuePointers
from cqs.engines.contract import QueueRef

KNOWN_MAX = 20_000
RECORDED_MAX = 10_000
READ_AGE_MS_MAX = 5_000
"""A generation older than this is read again. Sends and receives read it each time, beside their work."""
USED_AGE_MS_MAX = 3_600_000
"""Pointers not used for this long are read again: seals expire, so a seal alone does not tell where to read."""


class CassieqKnownQueue:
    """A queue's generation as this process knows it."""

    def __init__(self, q: QueueRef, generation: int, read_ms: int) -> None:
        self.q = q
        self.generation = generation
        self.key = queue_key(q.id, generation)
        self.size = bucket_size(q)
        self.read_ms = self.used_ms = read_ms
        self.reader = 0
        self.invisible = 0
        """The invisibility pointer."""
        self.next_monoton = 0
        """The lowest free number, as far as this process knows."""
        self.due: dict[int, int] = {}
        """For each bucket between the invisibility pointer and the reader, a time before which none of its messages
        becomes visible, except those with an entry in the table of hidden messages. 0: the bucket was not read yet."""
        self.hidden_from = BEGIN
        """Entries of hidden messages before this one were removed."""
        self.hidden_read_ms = 0
        self.placed = False
        """Whether the pointers were read."""

        self._recorded: set[int] = set()

    @property
    def dropped(self) -> bool:
        return self.generation == DROPPED

    def leave(self, bucket: int, due_ms: int) -> None:
        """Note that the reader goes on to the next bucket."""
        self.due[bucket] = due_ms
        self.reader = max(self.reader, bucket + 1)

    def pass_buckets(self, invisible: int) -> None:
        """Note that the invisibility pointer stands at this bucket."""
        self.invisible = max(self.invisible, invisible)
        for bucket in [bucket for bucket in self.due if bucket < self.invisible]:
            del self.due[bucket]

    def delivered(self, bucket: int, due_ms: int) -> None:
        """Note that a message of the bucket is hidden until `due_ms`; 0: another process took it."""
        if bucket in self.due:
            self.due[bucket] = min(self.due[bucket], due_ms)

    def to_record(self, rows: Sequence[CassieqMessageRow]) -> list[CassieqMessageRow]:
        """Return the expired messages that this process has not recorded yet: several tasks may find the same one."""
        new = [row for row in rows if row.monoton not in self._recorded]
        if len(self._recorded) > RECORDED_MAX:
            self._recorded.clear()
        self._recorded.update(row.monoton for row in new)
        return new


class CassieqKnownQueues(UsedQueues):
    def __init__(self, generations: QueueGenerations, pointers: QueuePointers, clock: Clock) -> None:
        self._reads = GenerationReads(generations.read)
        self._pointers = pointers
        self._clock = clock
        self._known: OrderedDict[str, CassieqKnownQueue] = OrderedDict()

    def __iter__(self) -> Iterator[CassieqKnownQueue]:
        return iter(list(self._known.values()))

    async def get(self, q: QueueRef) -> CassieqKnownQueue:
        now_ms = self._clock.wall_ms()
        known = self._known.get(q.id)
        if known is None or (not known.dropped and now_ms - known.read_ms > READ_AGE_MS_MAX):
            known = await self.refresh(q)
        if now_ms - known.used_ms > USED_AGE_MS_MAX:
            known.placed = False
        known.q = q
        known.used_ms = now_ms
        return known

    async def place(self, known: CassieqKnownQueue) -> None:
        """Read the pointers, if need be."""
        if known.placed:
            return
        reader, invisible = await asyncio.gather(
            self._pointers.read(known.key, Pointer.READER), self._pointers.read(known.key, Pointer.INVISIBILITY)
        )
        known.reader, known.invisible = reader, min(invisible, reader)
        known.due = dict.fromkeys(range(known.invisible, reader), 0)
        known.placed = True

    async def refresh(self, q: QueueRef) -> CassieqKnownQueue:
        """Read the generation now."""
        return self._observe(q, await self._reads.read(q))

    async def get_for(self, q: QueueRef, handles: Iterable[bytes]) -> CassieqKnownQueue:
        """The queue, for these handles: one of a newer generation means that another process purged."""
        known = await self.get(q)
        parsed = [parse_handle(handle) for handle in handles]
        newest = max((one.generation for one in parsed if one is not None), default=0)
        return await self.refresh(q) if not known.dropped and newest > known.generation else known

    async def observe_generation(self, q: QueueRef, generation: int) -> None:
        """Record that this process purged or dropped the queue."""
        self._observe(q, generation)

    def find(self, queue_id: str) -> CassieqKnownQueue | None:
        return self._known.get(queue_id)

    def _observe(self, q: QueueRef, generation: int) -> CassieqKnownQueue:
        """Generations only rise; DROPPED is final."""
        now_ms = self._clock.wall_ms()
        known = self._known.get(q.id)
        if known is None or (not known.dropped and (generation == DROPPED or generation > known.generation)):
            known = self._known[q.id] = CassieqKnownQueue(q, generation, now_ms)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        known.read_ms = now_ms
        return known
