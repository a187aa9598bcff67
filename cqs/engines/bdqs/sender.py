"""Sends messages: writes the row, then its position. So a position without a row is that of a deleted message."""

from __future__ import annotations

from collections.abc import Sequence

from cns_common.cluster.stopwatch import Stopwatch
from cqs.engines.bdqs.ids import MessageKey
from cqs.engines.bdqs.known_queues import BdqsKnownQueue
from cqs.engines.bdqs.message_state import sent_state
from cqs.engines.bdqs.messages import Buckets, Messages
from cqs.engines.bdqs.positions import Positions
from cqs.engines.contract import Entry as SentMessage


class BdqsSender:
    def __init__(self, messages: Messages, positions: Positions, buckets: Buckets) -> None:
        self._messages = messages
        self._positions = positions
        self._buckets = buckets

    async def send(
        self, queue: BdqsKnownQueue, generation: int, entries: Sequence[SentMessage], now_ms: int, began: Stopwatch
    ) -> list[MessageKey]:
        """Two writes, one after the other, and a third in parallel if the slot is new."""
        mode = queue.mode
        rows = []
        for one in entries:
            key = self._buckets.next_key(queue.q.id, generation, len(one.body), now_ms, alone=mode.conditional)
            slot = self._positions.choose_slot(queue, key, one.visible_at_ms)
            stamp = self._positions.next_stamp()
            state = sent_state(stamp, one.visible_at_ms, slot, one.deliveries, one.first_received_ms)
            rows.append((key, one, state))
        await self._messages.insert(queue.q.id, rows, mode)
        positions = [state.entry(key, one.born_at_ms) for key, one, state in rows]
        await self._positions.add(queue, positions, now_ms, began)
        return [key for key, _, _ in rows]
