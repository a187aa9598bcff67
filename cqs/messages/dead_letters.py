"""Moves spent messages to the dead-letter queue."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cqs.engines.contract import Entry, Message
from cqs.messages.send import dedup_key
from cqs.messages.transfer import MessageTransfer
from cqs.queues.cache import QueueCache
from cqs.queues.model import decode_body, encode_body
from cqs.queues.view import QueueView


class DeadLetters:
    def __init__(self, cache: QueueCache, transfer: MessageTransfer) -> None:
        self._cache = cache
        self._transfer = transfer

    async def target(self, source: QueueView) -> QueueView | None:
        """The queue's dead-letter queue. None if it has none or it was deleted: then the queue keeps its messages."""
        return None if source.dead_letter_key is None else await self._cache.find(source.dead_letter_key)

    async def move(self, source: QueueView, target: QueueView, spent: Sequence[Message], now_ms: int) -> None:
        """Move leased messages. If the target is dropped meanwhile, they are received again once their leases end."""
        entries = [_dead_letter(source, target, message, now_ms) for message in spent]
        await self._transfer.move(source, target, spent, entries, "dead_lettered", now_ms)


def _dead_letter(source: QueueView, target: QueueView, message: Message, now_ms: int) -> Entry:
    """The same message with its count of deliveries. In a FIFO queue its retention starts anew, and its id is the
    deduplication id; in a standard queue retention counts from the first send."""
    body = decode_body(message.body)
    dedup = message.id if target.fifo else ""
    moved = msgspec.structs.replace(body, source_arn=source.arn, dedup=dedup)
    return Entry(
        message.id,
        encode_body(moved),
        now_ms if target.fifo else message.born_at_ms,
        now_ms,
        message.group,
        dedup_key(target, message.group, dedup) if dedup else "",
        message.deliveries,
        message.first_received_ms,
    )
