"""Sends validated messages to an engine."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cns_common.clock import Clock
from cns_common.ids import uuid_text
from cqs.engines.contract import Entry, RejectedEntry, SentEntry
from cqs.messages.counters import QueueCounters
from cqs.messages.queue_audit import QueueAudit
from cqs.messages.sequence_number import sequence_text
from cqs.messages.validation import ValidatedMessage
from cqs.queues.model import Body, encode_body
from cqs.queues.urls import no_such_queue
from cqs.queues.view import QueueView


class SentMessage(msgspec.Struct, frozen=True):
    """The part of a sent message that its sender gets. `sequence` is '' on standard queues."""

    id: str
    sequence: str


def dedup_key(view: QueueView, group: str, dedup: str) -> str:
    """The deduplication id widened to the queue's scope. Ids contain no spaces."""
    return f"{group} {dedup}" if view.dedup_by_group else dedup


class MessageSender:
    def __init__(self, clock: Clock, counters: QueueCounters, audit: QueueAudit) -> None:
        self._clock = clock
        self._counters = counters
        self._audit = audit

    async def send(self, view: QueueView, messages: Sequence[ValidatedMessage], sender: str) -> list[SentMessage]:
        now_ms = self._clock.now_ms()
        entries = self.entries(view, messages, sender, now_ms)
        answers = await view.engine.send(view.ref, entries, now_ms)
        self._counters.add_sent(view, answers)
        if view.audit:
            await self._audit.sent(view, entries, answers, now_ms)
        accepted = []
        for sent in answers:
            if isinstance(sent, RejectedEntry):
                raise no_such_queue()
            sequence = sequence_text(sent.sequence) if view.fifo else ""
            accepted.append(SentMessage(sent.id, sequence))
        return accepted

    def entries(self, view: QueueView, messages: Sequence[ValidatedMessage], sender: str, now_ms: int) -> list[Entry]:
        """The messages as the engine takes them. Raises StoreUnavailable while an audited queue's events cannot be
        written."""
        if view.audit:
            self._audit.check()
        return [_entry(view, message, sender, now_ms) for message in messages]

    async def record(self, sends: Sequence[tuple[QueueView, Entry, SentEntry | RejectedEntry]], now_ms: int) -> None:
        """Count sends that were one settlement, and write the events of audited queues, before the sender is
        answered."""
        for view, _, answer in sends:
            self._counters.add_sent(view, [answer])
        audited = [each for each in sends if each[0].audit]
        if audited:
            await self._audit.sent_to_several(audited, now_ms)


def _entry(view: QueueView, message: ValidatedMessage, sender: str, now_ms: int) -> Entry:
    _, _, attributes, attributes_md5 = message.attributes
    body = Body(message.text, message.md5, sender, now_ms, message.dedup, attributes, attributes_md5, message.trace)
    delay_ms = view.delay_ms if message.delay_ms is None else message.delay_ms
    dedup = dedup_key(view, message.group, message.dedup) if message.dedup else ""
    return Entry(uuid_text(), encode_body(body), now_ms, now_ms + delay_ms, message.group, dedup)
