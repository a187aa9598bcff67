"""Writes what happens to the messages of audited queues as events (ADR 0013).

`check` comes before a call changes anything. What a call gave out is written after its commit and before its answer;
why a message is gone is written before it goes. So a crash at any point leaves no answered call without its events, and
no message that disappeared without a reason.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Literal

from cns_common.clock import Clock
from cns_common.events.audit_events import (
    EndCause,
    MessageDeleted,
    MessageEnded,
    MessageReceived,
    MessageSent,
    QueueAudited,
)
from cns_common.events.audit_log import AuditLog
from cqs.engines.contract import Entry, Message, Outcome, RejectedEntry, SentEntry
from cqs.messages.receipt_handle import Receipt
from cqs.messages.sequence_number import sequence_text
from cqs.queues.model import decode_body
from cqs.queues.view import QueueView

MoveCause = Literal["dead_lettered", "moved"]
SETTLE_MS = 60_000
"""The time after a change of `Audit` in which a process may still act by its old value."""


class QueueAudit:
    """Call its methods for audited queues only. They raise StoreUnavailable or OutcomeUnknown."""

    def __init__(self, log: AuditLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    def check(self) -> None:
        """Raise StoreUnavailable while events cannot be written."""
        self._log.check()

    async def sent(
        self, view: QueueView, entries: Sequence[Entry], answers: Sequence[SentEntry | RejectedEntry], now_ms: int
    ) -> None:
        await self.sent_to_several([(view, *pair) for pair in zip(entries, answers, strict=True)], now_ms)

    async def sent_to_several(
        self, sends: Sequence[tuple[QueueView, Entry, SentEntry | RejectedEntry]], now_ms: int
    ) -> None:
        """Write the events of sends to audited queues that were one settlement."""
        events = [_sent(view, entry, answer, now_ms) for view, entry, answer in sends if isinstance(answer, SentEntry)]
        if events:
            await self._log.write(events)

    async def received(self, view: QueueView, messages: Sequence[Message]) -> None:
        now_ms = self._clock.now_ms()
        await self._log.write(
            [
                MessageReceived(
                    at_ms=now_ms,
                    queue=view.arn,
                    message_id=message.id,
                    group=message.group,
                    receive_count=message.deliveries,
                    checksum=_checksum(decode_body(message.body).text.encode()),
                )
                for message in messages
            ]
        )

    async def deleted(self, view: QueueView, receipts: Sequence[Receipt], outcomes: Sequence[Outcome]) -> None:
        """A receipt from before the audit began has no message id; its receive has no event either."""
        now_ms = self._clock.now_ms()
        events = [
            MessageDeleted(at_ms=now_ms, queue=view.arn, message_id=receipt.message_id, group=receipt.group)
            for receipt, outcome in zip(receipts, outcomes, strict=True)
            if outcome is Outcome.DONE and receipt.message_id
        ]
        if events:
            await self._log.write(events)

    async def ended(self, view: QueueView, messages: Sequence[Message], cause: EndCause) -> None:
        now_ms = self._clock.now_ms()
        await self._log.write(
            [
                MessageEnded(at_ms=now_ms, queue=view.arn, message_id=message.id, group=message.group, cause=cause)
                for message in messages
            ]
        )

    async def emptied(self, queue_arn: str, cause: EndCause) -> None:
        """All messages of the queue end. Call it before and after that."""
        await self._log.write([MessageEnded(at_ms=self._clock.now_ms(), queue=queue_arn, cause=cause)])

    async def switched(self, queue_arn: str, *, on: bool, settle_ms: int = SETTLE_MS) -> None:
        """Call it before the queue's record changes; `settle_ms` is 0 for a new queue."""
        self._log.check()
        now_ms = self._clock.now_ms()
        switched = (
            QueueAudited(at_ms=now_ms, queue=queue_arn, audit="on", complete_from_ms=now_ms + settle_ms)
            if on
            else QueueAudited(at_ms=now_ms, queue=queue_arn, audit="off")
        )
        await self._log.write([switched])


def _sent(view: QueueView, entry: Entry, answer: SentEntry, now_ms: int) -> MessageSent:
    body = decode_body(entry.body).text.encode()
    return MessageSent(
        at_ms=now_ms,
        queue=view.arn,
        message_id=answer.id,
        group=entry.group,
        size_bytes=len(body),
        checksum="" if answer.duplicate else _checksum(body),
        sequence_number=sequence_text(answer.sequence) if view.fifo else "",
        duplicate=answer.duplicate,
    )


def _checksum(body: bytes) -> str:
    return f"{zlib.crc32(body):08x}"
