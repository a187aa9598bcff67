"""Moves leased messages from one queue to another, for dead letters and message move tasks."""

from __future__ import annotations

from collections.abc import Sequence

from cqs.engines.contract import Entry, Message, RejectedEntry, SentEntry, Settlement
from cqs.queues.view import QueueView


async def transfer(
    source: QueueView, target: QueueView, messages: Sequence[Message], entries: Sequence[Entry], now_ms: int
) -> Sequence[SentEntry | RejectedEntry]:
    """Send `entries`, one for each of `messages`, to `target` and delete the messages that arrived from `source`.

    One transaction if one engine with `atomic_settle` has both queues. Otherwise a crash after the send leaves messages
    in both queues, which are moved again under the same ids once their leases end. Returns the results of the sends.
    """
    if source.engine is target.engine and source.engine.capabilities.atomic_settle:
        deletes = tuple([(source.ref, message.handle) for message in messages])
        sends = tuple([(target.ref, entry) for entry in entries])
        return (await source.engine.settle(Settlement(deletes, sends), now_ms)).sends
    sent = await target.engine.send(target.ref, entries, now_ms)
    arrived = [message.handle for message, one in zip(messages, sent, strict=True) if isinstance(one, SentEntry)]
    if arrived:
        await source.engine.delete(source.ref, arrived, now_ms)
    return sent
