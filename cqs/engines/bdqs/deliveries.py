"""Gives messages to a receive: moves each picked message to the time at which it is visible again.

Statements for one message: 1 read of the index, 1 of the row, 1 write of the new position, 1 of the state, then, in
parallel, 1 read of the state and 1 removal of the old position. Ten messages of one bucket and slot cost as many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from cns_common.cluster.stopwatch import Stopwatch
from cns_common.errors import CnsError
from cqs.engines.bdqs.expired import BdqsExpiredMessages
from cqs.engines.bdqs.ids import DeliveryHandle, IndexRow, MessageKey
from cqs.engines.bdqs.known_queues import BdqsKnownQueue
from cqs.engines.bdqs.message_state import MessageState
from cqs.engines.bdqs.messages import BdqsMessageRow, Messages
from cqs.engines.bdqs.picker import Candidate
from cqs.engines.bdqs.positions import Move, Positions
from cqs.engines.contract import SPENT_HIDE_MS, Message


@dataclass(slots=True)
class TakeResult:
    """The outcome of an attempt to take the picked messages."""

    messages: list[Message] = field(default_factory=list)
    spent: list[Message] = field(default_factory=list)
    lost_races: int = 0
    expired: int = 0
    again: bool = False
    """Whether some picked messages were not given, so that another pick may find more."""


class BdqsDeliveries:
    def __init__(self, messages: Messages, positions: Positions, expired: BdqsExpiredMessages) -> None:
        self._messages = messages
        self._positions = positions
        self._expired = expired
        self.duplicates = 0
        """Deliveries that this process found to be duplicates: another process delivered the message at the same
        time."""
        self.lost_races = 0

    async def take(
        self, queue: BdqsKnownQueue, picked: Sequence[Candidate], visible_at_ms: int, now_ms: int, began: Stopwatch
    ) -> TakeResult:
        taken = TakeResult()
        rows = await self._messages.read(queue.q.id, [one.entry.message for one in picked], queue.mode)
        valid = await self._sort_out(queue, picked, rows, taken, now_ms)
        if not valid:
            return taken
        moves = [self._move(queue, one, rows[one.entry.message], visible_at_ms, now_ms) for one in valid]
        await self._positions.add(queue, [move.entry for move in moves], now_ms, began)
        try:
            lost = await self._positions.set_states(queue, moves)
        except CnsError:
            await self._give_back(queue, moves, now_ms, began)
            raise
        if lost:
            await self._positions.remove(queue, [move.entry for move in lost])
        left = {move.key for move in lost}
        old = [entry for one in valid if one.entry.message not in left for entry in (one.entry, *one.older)]
        kept = [move for move in moves if move.key not in left]
        left |= await self._settle_races(queue, kept, old)
        taken.lost_races += len(left)
        taken.again = taken.again or bool(left)
        for move in moves:
            if move.key not in left:
                is_spent = move.new.deliveries == move.old.deliveries
                (taken.spent if is_spent else taken.messages).append(_message(move, rows[move.key]))
        self.lost_races += taken.lost_races
        return taken

    async def _sort_out(
        self,
        queue: BdqsKnownQueue,
        picked: Sequence[Candidate],
        rows: dict[MessageKey, BdqsMessageRow],
        taken: TakeResult,
        now_ms: int,
    ) -> list[Candidate]:
        """Return the picked messages that may be delivered. Remove positions that are not their message's newest,
        positions whose message does not exist, and expired messages."""
        valid: list[Candidate] = []
        useless: list[IndexRow] = []
        current = {
            one.entry.message: row
            for one in picked
            if (row := rows.get(one.entry.message)) and one.entry.position.stamp >= row.state.stamp
        }
        expired = await self._expired.among(queue, current, now_ms)
        for one in picked:
            row = rows.get(one.entry.message)
            if row is None:
                continue
            if one.entry.message not in current:
                taken.lost_races += 1
                useless += [one.entry, *one.older]
            elif one.entry.message in expired:
                useless += [one.entry, *one.older]
            else:
                valid.append(one)
        missing = [one for one in picked if one.entry.message not in rows]
        gone = await self._messages.confirmed_missing(queue.q.id, [one.entry.message for one in missing], queue.mode)
        useless += [entry for one in missing if one.entry.message in gone for entry in (one.entry, *one.older)]
        taken.expired = len(expired)
        if expired:
            await self._expired.remove(queue, expired, now_ms)
        await self._positions.remove(queue, useless)
        taken.again = len(valid) < len(picked)
        return valid

    def _move(
        self, queue: BdqsKnownQueue, one: Candidate, row: BdqsMessageRow, visible_at_ms: int, now_ms: int
    ) -> Move:
        old, q = row.state, queue.q
        is_spent = bool(q.max_receives) and old.deliveries >= q.max_receives
        due_ms = now_ms + SPENT_HIDE_MS if is_spent else visible_at_ms
        stamp = self._positions.next_stamp(old.stamp, one.entry.position.stamp)
        new = MessageState(
            stamp,
            stamp,
            old.stamp,
            due_ms,
            self._positions.choose_slot(queue, one.entry.message, due_ms),
            old.deliveries if is_spent else old.deliveries + 1,
            old.first_received_ms or now_ms,
        )
        return Move(one.entry.message, row.born_at_ms, old, new)

    async def _settle_races(
        self, queue: BdqsKnownQueue, moves: Sequence[Move], old: Sequence[IndexRow]
    ) -> set[MessageKey]:
        """Remove the old positions, and learn which messages another process took or deleted at the same time. Of two
        receivers that both learn of the race, the one with the greater stamp keeps the message."""
        if not moves:
            return set()
        if queue.mode.conditional:
            await self._positions.remove(queue, old)
            return set()
        superseded, _ = await asyncio.gather(
            self._positions.superseded(queue, moves), self._positions.remove(queue, old), return_exceptions=True
        )
        if isinstance(superseded, CnsError):
            return set()  # it is unknown whether another process took it, too
        if isinstance(superseded, BaseException):
            raise superseded
        if not queue.mode.sees_deletes:
            self.duplicates += sum(
                state is not None and state.taken_from == move.new.taken_from
                for move in moves
                if (state := superseded.get(move.key)) is not None
            )
            return set()
        await self._positions.remove(queue, [move.entry for move in moves if move.key in superseded])
        return set(superseded)

    async def _give_back(self, queue: BdqsKnownQueue, moves: Sequence[Move], now_ms: int, began: Stopwatch) -> None:
        """After an error: messages taken by this receive become visible again, and the deliveries do not count."""
        back = [
            move._replace(
                old=move.new,
                new=move.old._replace(
                    stamp=self._positions.next_stamp(move.new.stamp),
                    due_ms=now_ms,
                    slot=self._positions.choose_slot(queue, move.key, now_ms),
                ),
            )
            for move in moves
        ]
        try:
            await self._positions.add(queue, [move.entry for move in back], now_ms, began)
            await self._positions.set_states(queue, back)
        except CnsError:
            return  # they are visible again after their timeout


def _message(move: Move, row: BdqsMessageRow) -> Message:
    state = move.new
    handle = DeliveryHandle(state.lease, state.taken_from, state.due_ms, state.slot, move.key)
    return Message(
        row.id,
        handle.encode(),
        row.body,
        move.key.seq,
        state.deliveries,
        state.first_received_ms,
        row.born_at_ms,
        row.tenant,
    )
