"""Moves leased messages from one queue to another, for dead letters and message move tasks."""

from __future__ import annotations

from collections.abc import Sequence

from cqs.engines.contract import Entry, Message, RejectedEntry, SentEntry, Settlement
from cqs.messages.counters import QueueCounters
from cqs.messages.queue_audit import MoveCause, QueueAudit
from cqs.queues.view import QueueView


class MessageTransfer:
    def __init__(self, counters: QueueCounters, audit: QueueAudit) -> None:
        self._counters = counters
        self._audit = audit

    async def move(
        self,
        source: QueueView,
        target: QueueView,
        messages: Sequence[Message],
        entries: Sequence[Entry],
        cause: MoveCause,
        now_ms: int,
    ) -> Sequence[SentEntry | RejectedEntry]:
        """Send `entries`, one for each of `messages`, to `target` and delete the messages that arrived from `source`.

        One transaction if one engine with `atomic_settle` has both queues. Otherwise a crash after the send leaves
        messages in both queues, which are moved again under the same ids once their leases end. Returns the results of
        the sends.
        """
        if source.audit or target.audit:
            self._audit.check()
        if source.audit:
            await self._audit.ended(source, messages, cause)
        answers = await self._move(source, target, messages, entries, now_ms)
        if target.audit:
            await self._audit.sent(target, entries, answers, now_ms)
        return answers

    async def _move(
        self, source: QueueView, target: QueueView, messages: Sequence[Message], entries: Sequence[Entry], now_ms: int
    ) -> Sequence[SentEntry | RejectedEntry]:
        if source.engine is target.engine and source.engine.capabilities.atomic_settle:
            deletes = tuple([(source.ref, message.handle) for message in messages])
            sends = tuple([(target.ref, entry) for entry in entries])
            settled = await source.engine.settle(Settlement(deletes, sends), now_ms)
            self._counters.add_moved(source, target, settled.sends, settled.deletes)
            return settled.sends
        sent = await target.engine.send(target.ref, entries, now_ms)
        arrived = [message.handle for message, one in zip(messages, sent, strict=True) if isinstance(one, SentEntry)]
        deleted = await source.engine.delete(source.ref, arrived, now_ms) if arrived else []
        self._counters.add_moved(source, target, sent, deleted)
        return sent
