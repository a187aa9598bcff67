"""Sending: from drafts to the engine's entries, and from its answers to receipts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cns_common.clock import Clock
from cns_common.ids import uuid_text
from cqs.engines.contract import Entry, RejectedEntry
from cqs.messages.validation import ValidatedMessage
from cqs.queues.model import Body, encode_body
from cqs.queues.urls import no_such_queue
from cqs.queues.view import QueueView

_SEQUENCE_BASE = 10**19


class SentMessage(msgspec.Struct, frozen=True):
    """What a sender is told; the sequence is of FIFO queues only."""

    id: str
    sequence: str


def sequence_text(sequence: int) -> str:
    """Always twenty digits, as at AWS, so that comparing texts compares sequences."""
    return str(_SEQUENCE_BASE + sequence)


def dedup_key(view: QueueView, group: str, dedup: str) -> str:
    """A deduplication id widened to the queue's scope. No id contains a space."""
    return f"{group} {dedup}" if view.dedup_by_group else dedup


class MessageSender:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def send(self, view: QueueView, drafts: Sequence[ValidatedMessage], sender: str) -> list[SentMessage]:
        now_ms = self._clock.now_ms()
        entries = [_entry(view, draft, sender, now_ms) for draft in drafts]
        accepted = []
        for sent in await view.engine.send(view.ref, entries, now_ms):
            if isinstance(sent, RejectedEntry):
                raise no_such_queue()
            sequence = sequence_text(sent.sequence) if view.fifo else ""
            accepted.append(SentMessage(sent.id, sequence))
        return accepted


def _entry(view: QueueView, draft: ValidatedMessage, sender: str, now_ms: int) -> Entry:
    _, _, attributes, attributes_md5 = draft.attributes
    body = Body(draft.text, draft.md5, sender, now_ms, draft.dedup, attributes, attributes_md5, draft.trace)
    delay_ms = view.delay_ms if draft.delay_ms is None else draft.delay_ms
    dedup = dedup_key(view, draft.group, draft.dedup) if draft.dedup else ""
    return Entry(uuid_text(), encode_body(body), now_ms, now_ms + delay_ms, draft.group, dedup)
