"""Finds the messages that a receive can take: those of the reader's bucket, of earlier buckets that are due, and hidden
ones that are due. While it reads, the reader leaves and seals buckets.

The conditional write that follows decides whether a message is taken, so a stale read only loses a race.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from cns_common.errors import CnsError, StoreUnavailable
from cqs.engines.cassieq.bucket import NEVER_MS, CassieqMessageRow, MessageBucket, may_leave
from cqs.engines.cassieq.hidden import BEGIN, PAGE, CassieqHiddenMessages, HiddenEntry
from cqs.engines.cassieq.ids import bucket_of
from cqs.engines.cassieq.known_queues import CassieqKnownQueue, CassieqKnownQueues
from cqs.engines.cassieq.monotons import Monotons
from cqs.engines.cassieq.pointers import Pointer, QueuePointers
from cqs.engines.cassieq.rows import CassieqRows

LEAVES_MAX = 100
"""The most buckets that one look may leave: a process that died may have allocated many numbers without using them."""
FULL_READ_MS = 60_000
LATE_ENTRY_MS = 60_000
"""To skip tombstones of hidden messages, a look begins at the first entry that was found, or this long ago. Once in
`FULL_READ_MS` it reads all entries."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class VisibleMessages:
    """The visible messages of a queue, as far as a receive needs them."""

    visible: dict[int, CassieqMessageRow] = field(default_factory=dict)
    entries: dict[int, list[HiddenEntry]] = field(default_factory=dict)
    """The entries of hidden messages that led to them, by monoton."""
    fresh_until_ms: int = NEVER_MS
    """A message that became visible after this time may be younger than some in later buckets, so it is not taken
    yet."""
    next_due_ms: int = NEVER_MS

    def due(self, ms: int) -> None:
        self.next_due_ms = min(self.next_due_ms, ms)

    def see(self, bucket: MessageBucket, now_ms: int) -> None:
        for row in bucket.rows:
            if row.visible(now_ms):
                self.visible[row.monoton] = row
            elif row.live:
                self.due(row.visible_at_ms)


class Reader:
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

    async def look(self, known: CassieqKnownQueue, now_ms: int) -> VisibleMessages:
        """Read what is visible. Check the generation afterwards: the queue may have been purged meanwhile."""
        await self._known_queues.place(known)
        view = VisibleMessages()
        await asyncio.gather(self._read_forward(known, view, now_ms), self._read_hidden(known, view, now_ms))
        await self._read_due_buckets(known, view, now_ms)  # those that were just left, too
        return view

    # -- the reader pointer -------------------------------------------------------------------------------------------

    async def _read_forward(self, known: CassieqKnownQueue, view: VisibleMessages, now_ms: int) -> None:
        """Read the reader's bucket. Leave it, and the next ones, while that is allowed."""
        for _ in range(LEAVES_MAX):
            bucket = await self._rows.bucket(known.key, known.reader)
            if bucket.sealed_at_ms is not None:  # by another process, or by a reader that died
                await self._leave(known, bucket)
                continue
            if not may_leave(bucket, known.size, NEVER_MS, now_ms):
                self._see_current(known, view, bucket, now_ms)
                return
            end = (bucket.number + 1) * known.size
            if known.next_monoton < end:
                known.next_monoton = max(known.next_monoton, await self._monotons.next(known.key))
            if not may_leave(bucket, known.size, known.next_monoton, now_ms):
                self._see_current(known, view, bucket, now_ms)
                return
            await self._rows.seal(known.key, bucket.number, now_ms)
            await self._leave(
                known, await self._rows.bucket(known.key, bucket.number)
            )  # includes what was written before the seal

    def _see_current(self, known: CassieqKnownQueue, view: VisibleMessages, bucket: MessageBucket, now_ms: int) -> None:
        view.see(bucket, now_ms)
        if known.next_monoton > (bucket.number + 1) * known.size:
            shown = [row.visible_at_ms for row in bucket.rows if row.visible(now_ms)]
            view.fresh_until_ms = max(shown, default=NEVER_MS)

    async def _leave(self, known: CassieqKnownQueue, sealed: MessageBucket) -> None:
        """Go on after a sealed bucket was read: any send that the read missed finds the seal and writes again."""
        known.leave(sealed.number, sealed.due_ms())
        with suppress(CnsError):  # the next process that finds the seal moves the pointer
            await self._pointers.advance(known.key, Pointer.READER, sealed.number, sealed.number + 1)

    # -- behind the reader --------------------------------------------------------------------------------------------

    async def _read_due_buckets(self, known: CassieqKnownQueue, view: VisibleMessages, now_ms: int) -> None:
        due = [bucket for bucket, due_ms in known.due.items() if due_ms <= now_ms]
        for bucket in await self._rows.buckets(known.key, due) if due else ():
            if bucket.number in known.due:
                known.due[bucket.number] = bucket.due_ms()
            view.see(bucket, now_ms)
        for due_ms in known.due.values():
            if due_ms > now_ms:
                view.due(due_ms)

    async def _read_hidden(self, known: CassieqKnownQueue, view: VisibleMessages, now_ms: int) -> None:
        """Read a page of the entries that are due, and their messages."""
        after, page = await self._first_entries(known, now_ms)
        first_ms = page[0].due_ms if page else NEVER_MS
        known.hidden_from = max(after, HiddenEntry(min(first_ms - 1, now_ms - LATE_ENTRY_MS), -1, ""))
        due = [entry for entry in page if entry.due_ms <= now_ms]
        if len(due) < len(page):
            view.due(page[len(due)].due_ms)
        elif len(page) == PAGE:
            view.due(now_ms)
        numbers = {bucket_of(entry.monoton, known.size) for entry in due}
        buckets = {one.number: one for one in await self._rows.buckets(known.key, numbers)} if due else {}
        rows = {row.monoton: row for bucket in buckets.values() for row in bucket.rows}
        for entry in due:
            row = rows.get(entry.monoton)
            if row is None or not row.live:
                await self._forget(known, entry, buckets[bucket_of(entry.monoton, known.size)])
            elif row.visible(now_ms):
                view.visible[row.monoton] = row
                view.entries.setdefault(row.monoton, []).append(entry)
            else:
                view.due(row.visible_at_ms)
                await self._hidden.add(known.key, row.monoton, row.visible_at_ms)
                await self._hidden.remove(known.key, entry)

    async def _first_entries(self, known: CassieqKnownQueue, now_ms: int) -> tuple[HiddenEntry, list[HiddenEntry]]:
        """The place after which entries were read, and a page of them."""
        after, recent = known.hidden_from, HiddenEntry(now_ms - LATE_ENTRY_MS, -1, "")
        if now_ms - known.hidden_read_ms >= FULL_READ_MS:
            known.hidden_read_ms = now_ms
            try:
                page = await self._hidden.page(known.key, BEGIN)
            except StoreUnavailable as error:  # too many were removed lately: earlier entries wait for a later look
                log.warning("queue.hidden_messages_read_failed", queue=known.q.id, error=str(error))
                after = max(after, recent)
            else:
                await self._hidden.forget_removed(
                    known.key, min([recent.due_ms, *(entry.due_ms for entry in page[:1])])
                )
                return BEGIN, page
        return after, await self._hidden.page(known.key, after)

    async def _forget(self, known: CassieqKnownQueue, entry: HiddenEntry, bucket: MessageBucket) -> None:
        """Remove the entry of an acknowledged message, and its bucket if it was the last one of a finalized bucket."""
        is_done = bucket.rows and not bucket.live
        if is_done and bucket.number < await self._pointers.read(known.key, Pointer.REPAIR):
            await self._rows.remove_rows(known.key, bucket.number)
        await self._hidden.remove(known.key, entry)
