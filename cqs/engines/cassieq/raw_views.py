"""Read-only views of the stored rows of a queue, uninterpreted, for debugging."""

from __future__ import annotations

import asyncio

from cqs.engines.cassieq.bucket import CassieqMessageRow, MessageBucket
from cqs.engines.cassieq.hidden import BEGIN, CassieqHiddenMessages, HiddenEntry
from cqs.engines.cassieq.ids import bucket_of, parse_handle
from cqs.engines.cassieq.known_queues import CassieqKnownQueue, CassieqKnownQueues
from cqs.engines.cassieq.monotons import Monotons
from cqs.engines.cassieq.pointers import Pointer, QueuePointers
from cqs.engines.cassieq.rows import CassieqRows
from cqs.engines.cassieq.settling import ReceiptState, receipt_state
from cqs.engines.contract import QueueRef
from cqs.engines.views import BucketView, RawBucket, RawMessage, RawPointers


class RawViews(BucketView):
    def __init__(
        self,
        rows: CassieqRows,
        pointers: QueuePointers,
        monotons: Monotons,
        hidden: CassieqHiddenMessages,
        known_queues: CassieqKnownQueues,
    ) -> None:
        self._rows = rows
        self._pointers = pointers
        self._monotons = monotons
        self._hidden = hidden
        self._known_queues = known_queues

    async def monoton(self, q: QueueRef) -> int:
        """The next message number."""
        return await self._monotons.next((await self._known(q)).key)

    async def pointers(self, q: QueueRef) -> RawPointers:
        known = await self._known(q)
        reader, repair, invisibility = await asyncio.gather(
            *[
                self._pointers.read(known.key, pointer)
                for pointer in (Pointer.READER, Pointer.REPAIR, Pointer.INVISIBILITY)
            ]
        )
        return RawPointers(reader, repair, invisibility, known.size)

    async def current_bucket(self, q: QueueRef, *, only_unacked: bool = False) -> RawBucket:
        """The bucket that consumers read."""
        known = await self._known(q)
        number = await self._pointers.read(known.key, Pointer.READER)
        return await self.bucket(q, number, only_unacked=only_unacked)

    async def bucket(self, q: QueueRef, number: int, *, only_unacked: bool = False) -> RawBucket:
        known = await self._known(q)
        return _raw_bucket(await self._rows.bucket(known.key, number), only_unacked=only_unacked)

    async def sealed_at_ms(self, q: QueueRef, number: int) -> int | None:
        return (await self.bucket(q, number)).sealed_at_ms

    async def message(self, q: QueueRef, monoton: int) -> RawMessage | None:
        found = await self._find(await self._known(q), monoton)
        return _raw_message(found) if found is not None else None

    async def body(self, q: QueueRef, monoton: int) -> bytes | None:
        known = await self._known(q)
        return (await self._rows.bodies(known.key, {bucket_of(monoton, known.size): [monoton]})).get(monoton)

    async def hidden(self, q: QueueRef, n: int) -> list[HiddenEntry]:
        """Up to `n` of the entries of hidden messages behind the invisibility pointer."""
        return await self._hidden.page((await self._known(q)).key, BEGIN, n)

    async def receipt(self, q: QueueRef, handle: bytes, now_ms: int) -> ReceiptState:
        """Return the state of a pop receipt. An expired one differs from one that was never issued."""
        known = await self._known(q)
        receipt = parse_handle(handle)
        if receipt is None or receipt.generation > known.generation:
            return ReceiptState.NEVER_ISSUED
        if receipt.generation < known.generation:
            return ReceiptState.SETTLED  # its message was purged
        return receipt_state(receipt, await self._find(known, receipt.monoton), now_ms)

    async def _known(self, q: QueueRef) -> CassieqKnownQueue:
        return await self._known_queues.refresh(q)

    async def _find(self, known: CassieqKnownQueue, monoton: int) -> CassieqMessageRow | None:
        bucket = await self._rows.bucket(known.key, bucket_of(monoton, known.size))
        return next((row for row in bucket.rows if row.monoton == monoton), None)


def _raw_bucket(bucket: MessageBucket, *, only_unacked: bool) -> RawBucket:
    rows = [row for row in bucket.rows if row.live or not only_unacked]
    return RawBucket(bucket.number, bucket.sealed_at_ms, tuple([_raw_message(row) for row in rows]))


def _raw_message(row: CassieqMessageRow) -> RawMessage:
    return RawMessage(
        row.monoton,
        row.id,
        row.tag,
        row.version,
        row.acked,
        row.deliveries,
        row.visible_at_ms,
        row.born_at_ms,
        row.first_at_ms,
        row.moved_to,
    )
