"""Shows a queue's messages without receiving them: no visibility or count changes."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.clock import Clock
from cqs.engines.contract import PeekedMessage
from cqs.queues.view import QueueView

PAGE_MESSAGES = 500
MESSAGES_MAX = 100_000
BODIES_BYTES_MAX = 64 * 1_048_576
"""The most of one peek, which is all in memory. Messages beyond it are not shown."""


class MessageStatus(NamedTuple):
    """A message and its state: in flight, `blocked` by a message in flight of its FIFO group, delayed, or else
    visible."""

    message: PeekedMessage
    in_flight: bool
    blocked: bool
    delayed: bool


class QueuePeeker:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def peek(self, view: QueueView) -> list[MessageStatus]:
        """All messages: soonest due first, of a FIFO queue in the order of their sends."""
        now_ms = self._clock.now_ms()
        messages = await self._read_all(view, now_ms)
        if view.fifo:
            messages.sort(key=lambda message: message.sequence)
        locked = {one.group for one in messages if view.fifo and _in_flight(one, now_ms)}
        return [
            MessageStatus(
                message,
                in_flight=(in_flight := _in_flight(message, now_ms)),
                blocked=not in_flight and message.group in locked,
                delayed=message.visible_at_ms > now_ms and not in_flight,
            )
            for message in messages
        ]

    async def _read_all(self, view: QueueView, now_ms: int) -> list[PeekedMessage]:
        born_after_ms = now_ms - view.ref.retention_ms
        messages: dict[str, PeekedMessage] = {}  # by id: a message that changes between two pages is read twice
        size, cursor = 0, ""
        while len(messages) < MESSAGES_MAX and size < BODIES_BYTES_MAX:
            page = await view.engine.peek(view.ref, cursor, PAGE_MESSAGES, now_ms)
            messages |= {message.id: message for message in page.messages if message.born_at_ms > born_after_ms}
            size += sum([len(message.body) for message in page.messages])
            cursor = page.cursor
            if not cursor:
                break
        return list(messages.values())


def _in_flight(message: PeekedMessage, now_ms: int) -> bool:
    return message.deliveries > 0 and message.visible_at_ms > now_ms
