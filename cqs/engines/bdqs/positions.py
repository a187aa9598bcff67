"""Moves messages in the index: writes the new position, then the state that names it, then removes the old position.

If a process dies between these steps, the message has two positions: a receive finds it by one of them, and removes the
other. A position is removed only if a state with a greater stamp was written or read, or the message does not exist. So
the position with the greatest stamp of all states always exists, whatever clocks say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import structlog

from cns_common.clock import Clock
from cns_common.cluster.stopwatch import Stopwatch
from cns_common.errors import CnsError
from cqs.engines.bdqs.ids import IndexRow, MessageKey, Stamps, generation_of
from cqs.engines.bdqs.index import QueueIndex
from cqs.engines.bdqs.known_queues import BdqsKnownQueue
from cqs.engines.bdqs.message_state import MessageState
from cqs.engines.bdqs.messages import Messages, gather_few

log = structlog.get_logger(__name__)


class Move(NamedTuple):
    """A change from one state of a message to the next."""

    key: MessageKey
    born_at_ms: int
    old: MessageState
    new: MessageState

    @property
    def entry(self) -> IndexRow:
        """The new position."""
        return self.new.entry(self.key, self.born_at_ms)


class Positions:
    def __init__(self, index: QueueIndex, messages: Messages, stamps: Stamps, clock: Clock) -> None:
        self._index = index
        self._messages = messages
        self._stamps = stamps
        self._clock = clock

    def next_stamp(self, *above: str) -> str:
        return self._stamps.next(max(above, default=""))

    def choose_slot(self, queue: BdqsKnownQueue, key: MessageKey, due_ms: int) -> str:
        """A slot in the message's generation, which may be purged by now."""
        return self._index.choose_slot(queue.q.id, generation_of(key.bucket), due_ms, self._clock.now_ms())

    async def add(self, queue: BdqsKnownQueue, entries: Sequence[IndexRow], now_ms: int, began: Stopwatch) -> None:
        picker = queue.picker
        try:
            await self._index.add(queue.q.id, entries, queue.mode, began)
        finally:
            picker.note(entries, now_ms)

    async def set_states(self, queue: BdqsKnownQueue, moves: Sequence[Move]) -> list[Move]:
        """Write the new states. Returns the moves that were lost to another process."""
        if not queue.mode.conditional:
            await self._messages.set_states(queue.q.id, {move.key: move.new for move in moves}, queue.mode)
            return []
        replaced = await gather_few(
            [self._messages.replace_state(queue.q.id, move.key, move.old, move.new) for move in moves]
        )
        return [move for move, done in zip(moves, replaced, strict=True) if not done]

    async def superseded(
        self, queue: BdqsKnownQueue, moves: Sequence[Move]
    ) -> Mapping[MessageKey, MessageState | None]:
        """The states of messages that another process moved or deleted meanwhile."""
        states = await self._messages.states(queue.q.id, [move.key for move in moves], queue.mode.level)
        found = {move.key: states.get(move.key) for move in moves}
        mine = {move.key: move.new.stamp for move in moves}
        return {key: state for key, state in found.items() if state is None or state.stamp != mine[key]}

    async def remove(self, queue: BdqsKnownQueue, entries: Iterable[IndexRow]) -> None:
        """Remove outdated positions. If that fails, the receives that find them remove them."""
        some = list(dict.fromkeys(entries))
        if not some:
            return
        try:
            await self._index.remove(queue.q.id, some, queue.mode)
        except CnsError as error:
            log.info("queue.index_removal_failed", queue=queue.q.id, error=str(error))
        else:
            queue.picker.hidden.note_removed(some)
