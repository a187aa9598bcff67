"""Acknowledgements and changes under a pop receipt: conditional on its version, so an outdated receipt fails."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Sequence

from cqs.engines.cassieq.bucket import CassieqMessageRow
from cqs.engines.cassieq.bucket_writes import BucketWrites, RowWrite, acknowledge, hide, update_body
from cqs.engines.cassieq.hidden import CassieqHiddenMessages
from cqs.engines.cassieq.ids import PopReceipt, bucket_of, parse_handle
from cqs.engines.cassieq.known_queues import CassieqKnownQueue, CassieqKnownQueues
from cqs.engines.cassieq.rows import CassieqRows
from cqs.engines.contract import Change, Outcome, QueueRef
from cqs.engines.waiters import WaiterRegistry


class ReceiptState(enum.StrEnum):
    """The state of a pop receipt for debug views, in more detail than `Outcome`."""

    CURRENT = "current"
    LEASE_ENDED = "lease ended"
    """It is of the newest delivery, but the message is visible again."""
    EXPIRED = "expired"
    """The message was delivered again since."""
    SETTLED = "settled"
    NEVER_ISSUED = "never issued"


def outcome_of(receipt: PopReceipt, row: CassieqMessageRow | None) -> Outcome:
    """The outcome of a call whose receipt does not fit the row."""
    if row is None or not row.live or row.tag != receipt.tag or receipt.version > row.version:
        return Outcome.GONE
    return Outcome.STALE


def receipt_state(receipt: PopReceipt, row: CassieqMessageRow | None, now_ms: int) -> ReceiptState:
    if row is None or row.tag != receipt.tag or not 0 < receipt.version <= row.version:
        return ReceiptState.NEVER_ISSUED
    if not row.live:
        return ReceiptState.SETTLED
    if receipt.version < row.version:
        return ReceiptState.EXPIRED
    return ReceiptState.LEASE_ENDED if row.visible(now_ms) else ReceiptState.CURRENT


class CassieqSettler:
    def __init__(
        self,
        rows: CassieqRows,
        writes: BucketWrites,
        hidden: CassieqHiddenMessages,
        known_queues: CassieqKnownQueues,
        waiters: WaiterRegistry,
    ) -> None:
        self._rows = rows
        self._writes = writes
        self._hidden = hidden
        self._known_queues = known_queues
        self._waiters = waiters

    async def delete(self, q: QueueRef, handles: Sequence[bytes]) -> list[Outcome]:
        known = await self._known_queues.get_for(q, handles)
        outcomes = [Outcome.MALFORMED] * len(handles)
        by_bucket: dict[int, list[tuple[int, PopReceipt]]] = {}
        for at, handle in enumerate(handles):
            receipt = parse_handle(handle)
            if receipt is None:
                continue
            if receipt.generation != known.generation or not receipt.version:
                outcomes[at] = Outcome.GONE
            else:
                by_bucket.setdefault(bucket_of(receipt.monoton, known.size), []).append((at, receipt))

        async def acknowledge_all(bucket: int, some: Sequence[tuple[int, PopReceipt]]) -> None:
            writes = [
                acknowledge(receipt.monoton, receipt.version, receipt.tag, older=q.older_handles) for _, receipt in some
            ]
            for (at, receipt), result in zip(some, await self._writes.apply(known.key, bucket, writes), strict=True):
                outcomes[at] = Outcome.DONE if result.applied else outcome_of(receipt, result.row)

        await asyncio.gather(*[acknowledge_all(bucket, some) for bucket, some in by_bucket.items()])
        return outcomes

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        known = await self._known_queues.get_for(q, [change.handle for change in changes])
        return [await self._change(known, q, change, now_ms) for change in changes]  # in order, for one message

    async def _change(self, known: CassieqKnownQueue, q: QueueRef, change: Change, now_ms: int) -> Outcome:
        receipt = parse_handle(change.handle)
        if receipt is None:
            return Outcome.MALFORMED
        if receipt.generation != known.generation or not receipt.version:
            return Outcome.GONE
        bucket = bucket_of(receipt.monoton, known.size)
        rows = {row.monoton: row for row in (await self._rows.bucket(known.key, bucket)).rows}
        row = rows.get(receipt.monoton)
        write = _write_of(receipt, change, older=q.older_handles)
        if row is None or not write.fits(row):
            return outcome_of(receipt, row)
        if change.visible_at_ms is None and change.body is None:
            return Outcome.DONE
        due_ms = change.visible_at_ms
        if due_ms is not None and due_ms < row.visible_at_ms:  # other processes cached a later time
            await self._hidden.add(known.key, row.monoton, max(due_ms, now_ms))
        (result,) = await self._writes.apply(known.key, bucket, [write])
        if not result.applied:
            return outcome_of(receipt, result.row)
        if due_ms is not None:
            self._wake(known, q.id, bucket, due_ms, now_ms)
        return Outcome.DONE

    def _wake(self, known: CassieqKnownQueue, queue_id: str, bucket: int, due_ms: int, now_ms: int) -> None:
        known.delivered(bucket, due_ms)
        if queue_id not in self._waiters:
            return
        if due_ms <= now_ms:
            self._waiters.wake(queue_id, 1)
        else:
            self._waiters.wake_soonest(queue_id, due_ms)


def _write_of(receipt: PopReceipt, change: Change, *, older: bool) -> RowWrite:
    monoton, version, tag = receipt.monoton, receipt.version, receipt.tag
    if change.body is not None:
        return update_body(monoton, version, tag, change.body, change.visible_at_ms)
    return hide(monoton, version, tag, change.visible_at_ms or 0, older=older)
