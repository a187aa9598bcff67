"""Deletes and changes messages by their handles, in any process: all that a handle needs is in Cassandra.

A delete removes the message's row, then its positions; a receive removes a position without a row. So a deleted message
does not return, in whatever order concurrent statements arrive.
"""

from __future__ import annotations

from collections.abc import Sequence

from cns_common.cluster.stopwatch import Stopwatch
from cns_common.errors import StoreUnavailable
from cqs.engines.bdqs.deliveries import BdqsDeliveries
from cqs.engines.bdqs.ids import DeliveryHandle, IndexRow, MessageKey, generation_of, parse_handle
from cqs.engines.bdqs.key_locks import KeyLocks
from cqs.engines.bdqs.known_queues import BdqsKnownQueue
from cqs.engines.bdqs.message_state import MessageState, sent_state
from cqs.engines.bdqs.messages import Messages, gather_few
from cqs.engines.bdqs.positions import Move, Positions
from cqs.engines.contract import Change, Outcome

TRIES_MAX = 20
"""The most attempts of one delete or change: each fails if another process changes the state at the same time."""


class BdqsSettler:
    def __init__(self, messages: Messages, positions: Positions, deliveries: BdqsDeliveries) -> None:
        self._messages = messages
        self._positions = positions
        self._deliveries = deliveries
        self._locks: KeyLocks[tuple[str, MessageKey]] = KeyLocks()
        """Calls of this process about one message run one after the other: of several deletes one is DONE."""

    async def delete(self, queue: BdqsKnownQueue, handles: Sequence[bytes]) -> list[Outcome]:
        parsed = [parse_handle(handle) for handle in handles]
        keys = {one.message for one in parsed if one is not None}
        async with self._locks.hold([(queue.q.id, key) for key in keys]):
            return await self._delete(queue, parsed)

    async def _delete(self, queue: BdqsKnownQueue, handles: Sequence[DeliveryHandle | None]) -> list[Outcome]:
        states = await self._states(queue, [one for one in handles if one is not None])
        left = dict(states)
        outcomes: list[Outcome] = []
        entries: list[IndexRow] = []
        settled: dict[MessageKey, DeliveryHandle] = {}
        for handle in handles:
            outcome = self._judge(queue, handle, left.get(handle.message) if handle else None)
            outcomes.append(outcome)
            if handle is not None and outcome is Outcome.DONE:
                state = left.pop(handle.message)
                settled[handle.message] = handle
                entries.append(state.entry(handle.message, 0))
            if handle is not None and outcome is Outcome.DONE and handle.lease != states[handle.message].lease:
                entries.append(handle.entry)
        if queue.mode.conditional:
            lost = await self._delete_conditionally(queue, {key: states[key] for key in settled}, settled)
            outcomes = [
                lost.get(handle.message, outcome) if handle and settled.get(handle.message) is handle else outcome
                for handle, outcome in zip(handles, outcomes, strict=True)
            ]
            entries = [entry for entry in entries if entry.message not in lost]
        elif settled:
            await self._messages.delete(queue.q.id, {key: states[key] for key in settled}, queue.mode)
        entries += await self._left_behind(queue, handles, states)
        await self._positions.remove(queue, entries)
        return outcomes

    async def _delete_conditionally(
        self, queue: BdqsKnownQueue, states: dict[MessageKey, MessageState], handles: dict[MessageKey, DeliveryHandle]
    ) -> dict[MessageKey, Outcome]:
        """Returns the outcomes of those that were not deleted."""

        async def delete(key: MessageKey, state: MessageState) -> Outcome:
            for _ in range(TRIES_MAX):
                if await self._messages.delete_if(queue.q.id, key, state):
                    return Outcome.DONE
                now = (await self._messages.states(queue.q.id, [key], queue.mode.level)).get(key)
                outcome = self._judge(queue, handles[key], now)
                if now is None or outcome is not Outcome.DONE:
                    return outcome
                state = now
            raise StoreUnavailable("the message is changed again and again")

        outcomes = await gather_few([delete(key, state) for key, state in states.items()])
        return {key: one for key, one in zip(states, outcomes, strict=True) if one is not Outcome.DONE}

    async def _left_behind(
        self,
        queue: BdqsKnownQueue,
        handles: Sequence[DeliveryHandle | None],
        states: dict[MessageKey, MessageState],
    ) -> list[IndexRow]:
        """The positions of handles whose message does not exist: the process that deleted it may have died before it
        removed them. A message that is missing only on the replica read is deleted, if any handle may delete it."""
        gone = [one for one in handles if one is not None and one.message not in states]
        current = [one for one in gone if generation_of(one.message.bucket) == queue.generation]
        if current and not queue.mode.sees_deletes and queue.q.older_handles:
            unread = {one.message: sent_state(one.lease, one.due_ms, one.slot, 1, 0) for one in current}
            await self._messages.delete(queue.q.id, unread, queue.mode)
        missing = await self._messages.confirmed_missing(queue.q.id, [one.message for one in gone], queue.mode)
        return [one.entry for one in gone if one.message in missing]

    async def change(
        self, queue: BdqsKnownQueue, change: Change, now_ms: int, began: Stopwatch
    ) -> tuple[Outcome, bool]:
        """The outcome, and whether the message may be visible sooner than before."""
        handle = parse_handle(change.handle)
        if handle is None:
            return Outcome.MALFORMED, False
        async with self._locks.hold([(queue.q.id, handle.message)]):
            for _ in range(TRIES_MAX):
                state = (await self._states(queue, [handle])).get(handle.message)
                older = queue.q.older_handles and change.body is None
                outcome = self._judge(queue, handle, state, older_handles=older)
                if state is None or outcome is not Outcome.DONE:
                    return outcome, False
                if change.visible_at_ms is None and change.body is None:
                    return Outcome.DONE, False
                if await self._change(queue, handle.message, state, change, now_ms, began):
                    return Outcome.DONE, change.visible_at_ms is not None
        raise StoreUnavailable("the message is changed again and again")

    async def _change(
        self, queue: BdqsKnownQueue, key: MessageKey, old: MessageState, change: Change, now_ms: int, began: Stopwatch
    ) -> bool:
        """Returns False if another process changed the state meanwhile, so that nothing was changed."""
        due_ms = old.due_ms if change.visible_at_ms is None else change.visible_at_ms
        slot = self._positions.choose_slot(queue, key, due_ms)
        new = old._replace(stamp=self._positions.next_stamp(old.stamp), due_ms=due_ms, slot=slot)
        move = Move(key, 0, old, new)
        await self._positions.add(queue, [move.entry], now_ms, began)
        if change.body is not None:
            changed = await self._messages.set_body(queue.q.id, key, old, new, change.body, queue.mode)
        else:
            changed = not await self._positions.set_states(queue, [move])
        await self._positions.remove(queue, [old.entry(key, 0) if changed else move.entry])
        return changed

    async def _states(self, queue: BdqsKnownQueue, handles: Sequence[DeliveryHandle]) -> dict[MessageKey, MessageState]:
        """Read the states of those of the messages that exist."""
        keys = {one.message for one in handles if generation_of(one.message.bucket) == queue.generation}
        return await self._messages.states(queue.q.id, keys, queue.mode.level) if keys else {}

    def _judge(
        self,
        queue: BdqsKnownQueue,
        handle: DeliveryHandle | None,
        state: MessageState | None,
        *,
        older_handles: bool | None = None,
    ) -> Outcome:
        if handle is None:
            return Outcome.MALFORMED
        if state is None:
            return Outcome.GONE
        if handle.lease == state.lease:
            return Outcome.DONE
        if handle.taken_from == state.taken_from:
            self._deliveries.duplicates += 1
        older = queue.q.older_handles if older_handles is None else older_handles
        return Outcome.DONE if older else Outcome.STALE
