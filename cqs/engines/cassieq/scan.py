"""Counts and peeks: reads of all messages of a queue. Acknowledged ones cost nothing once their bucket was passed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from cqs.engines.cassieq.bucket import CassieqMessageRow
from cqs.engines.cassieq.hidden import BEGIN, PAGE, CassieqHiddenMessages
from cqs.engines.cassieq.ids import bucket_of, sequence_of
from cqs.engines.cassieq.known_queues import CassieqKnownQueue, CassieqKnownQueues
from cqs.engines.cassieq.monotons import Monotons
from cqs.engines.cassieq.rows import CassieqRows
from cqs.engines.contract import Counts, PeekedMessage, PeekPage, QueueRef

BUCKETS_AT_ONCE = 32
BUCKETS_MAX = 1_000
"""The most buckets that are read for counts. Messages of later ones are estimated by the allocated numbers."""


class Scanner:
    def __init__(
        self, rows: CassieqRows, monotons: Monotons, hidden: CassieqHiddenMessages, known_queues: CassieqKnownQueues
    ) -> None:
        self._rows = rows
        self._monotons = monotons
        self._hidden = hidden
        self._known_queues = known_queues

    async def counts(self, q: QueueRef, now_ms: int, *, oldest: bool) -> Counts:
        known = await self._known_queues.refresh(q)
        if known.dropped:
            return Counts()
        rows, beyond = await self._rows_of(known)
        live = [row for row in rows if not row.expired(q.retention_ms, now_ms)]
        hidden = [row for row in live if not row.visible(now_ms)]
        in_flight = sum(row.ever_delivered for row in hidden)
        born_at_ms = min((row.born_at_ms for row in live), default=0) if oldest else 0
        return Counts(len(live) - len(hidden) + beyond, in_flight, len(hidden) - in_flight, born_at_ms)

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        known = await self._known_queues.refresh(q)
        if known.dropped:
            return PeekPage()
        rows, _ = await self._rows_of(known)
        after = _parse_cursor(cursor)
        live = [row for row in rows if not row.expired(q.retention_ms, now_ms) and _order(row) > after]
        live.sort(key=_order)
        shown = live[:n]
        monotons: dict[int, list[int]] = {}
        for row in shown:
            monotons.setdefault(bucket_of(row.monoton, known.size), []).append(row.monoton)
        bodies = await self._rows.bodies(known.key, monotons) if shown else {}
        messages = tuple([_peeked(known, row, bodies[row.monoton]) for row in shown if row.monoton in bodies])
        return PeekPage(messages, "{}.{}".format(*_order(shown[-1])) if len(live) > n else "")

    async def _rows_of(self, known: CassieqKnownQueue) -> tuple[list[CassieqMessageRow], int]:
        """The messages, and an estimate of those that were not read."""
        await self._known_queues.place(known)
        found: dict[int, CassieqMessageRow] = {}
        next_monoton = await self._monotons.next(known.key)
        first, last = known.invisible, bucket_of(max(next_monoton - 1, 0), known.size)
        end = min(last + 1, first + BUCKETS_MAX)
        async for row in self._read(known, range(first, end)):
            found[row.monoton] = row
        behind = [number async for number in self._hidden_buckets(known)]
        async for row in self._read(known, sorted({*behind} - {*range(first, end)})):
            found[row.monoton] = row
        return list(found.values()), max(next_monoton - end * known.size, 0)

    async def _hidden_buckets(self, known: CassieqKnownQueue) -> AsyncIterator[int]:
        after = BEGIN
        while True:
            page = await self._hidden.page(known.key, after)
            for entry in page:
                yield bucket_of(entry.monoton, known.size)
            if len(page) < PAGE:
                return
            after = page[-1]

    async def _read(self, known: CassieqKnownQueue, numbers: Iterable[int]) -> AsyncIterator[CassieqMessageRow]:
        wanted = list(numbers)
        for at in range(0, len(wanted), BUCKETS_AT_ONCE):
            some = wanted[at : at + BUCKETS_AT_ONCE]
            for bucket in await asyncio.gather(*[self._rows.bucket(known.key, number) for number in some]):
                for row in bucket.live:
                    yield row


def _order(row: CassieqMessageRow) -> tuple[int, int]:
    return row.visible_at_ms, row.monoton


def _parse_cursor(cursor: str) -> tuple[int, int]:
    if not cursor:
        return -1, -1
    visible_at_ms, _, monoton = cursor.partition(".")
    return int(visible_at_ms), int(monoton)


def _peeked(known: CassieqKnownQueue, row: CassieqMessageRow, body: bytes) -> PeekedMessage:
    return PeekedMessage(
        row.id,
        body,
        sequence_of(known.generation, row.monoton),
        row.deliveries,
        row.first_at_ms,
        row.born_at_ms,
        row.visible_at_ms,
        row.tenant,
    )
