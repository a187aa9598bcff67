"""Looking at a queue's messages without receiving them: nothing changes, no count rises, nothing is hidden."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.clock import Clock
from cqs.engines.contract import PeekedMessage
from cqs.queues.view import QueueView

PAGE_MESSAGES = 500
MESSAGES_MAX = 100_000
BODIES_BYTES_MAX = 64 * 1_048_576
"""Of one look, which is held in memory as a whole. What is beyond is not shown."""


class MessageStatus(NamedTuple):
    """A message and its state: visible unless in flight (`hidden`), behind one in flight (`held`) or delayed."""

    message: PeekedMessage
    hidden: bool
    held: bool
    delayed: bool


class QueuePeeker:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def look(self, view: QueueView) -> list[MessageStatus]:
        """Every message, soonest due first; of a FIFO queue in the order they were sent."""
        now_ms = self._clock.now_ms()
        messages = await self._all(view, now_ms)
        if view.fifo:
            messages.sort(key=lambda message: message.sequence)
        locked = {one.group for one in messages if view.fifo and _in_flight(one, now_ms)}
        return [
            MessageStatus(
                message,
                hidden=(hidden := _in_flight(message, now_ms)),
                held=not hidden and message.group in locked,
                delayed=message.visible_at_ms > now_ms and not hidden,
            )
            for message in messages
        ]

    async def _all(self, view: QueueView, now_ms: int) -> list[PeekedMessage]:
        born_after_ms = now_ms - view.ref.retention_ms
        messages: dict[str, PeekedMessage] = {}  # by id: one that moves between two pages is seen twice
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
