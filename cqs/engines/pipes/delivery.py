"""Pops messages that a popper reserved: moves them from waiting to pending, reads their bodies, makes deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from cns_common.cassandra.session import Statement
from cns_common.clock import Clock
from cns_common.errors import CnsError
from cqs.engines.contract import SPENT_HIDE_MS, Message, QueueRef
from cqs.engines.pipes import schema
from cqs.engines.pipes.conditional_writes import ConditionalWrites
from cqs.engines.pipes.names import PipeDelivery, PipeLocation, make_handle, new_lease
from cqs.engines.pipes.ownership import Ownership
from cqs.engines.pipes.rows import PipeMessageRow, PipeRows
from cqs.engines.pipes.selection import SelectedMessage
from cqs.engines.pipes.view import Item, PipeView

RETRY_MS = 1_000
"""The delay before a message without a payload is popped again: its push has not ended."""

_Part = tuple[Statement, Sequence[object]]


class PopRequest(NamedTuple):
    q: QueueRef
    visible_at_ms: int
    now_ms: int


class _Pop(NamedTuple):
    """One message's delivery."""

    item: Item
    lease: int
    due_ms: int
    deliveries: int
    first_at_ms: int
    is_spent: bool


class PipeDeliveryBuilder:
    """Makes deliveries. `leased` returns the view that has the lease on a pipe: the pipe's own, or the whole
    queue's."""

    def __init__(
        self,
        writes: ConditionalWrites,
        rows: PipeRows,
        ownership: Ownership,
        leased: Callable[[PipeView], PipeView],
        clock: Clock,
    ) -> None:
        self._writes = writes
        self._rows = rows
        self._ownership = ownership
        self._leased = leased
        self._clock = clock

    async def pop(self, request: PopRequest, taken: Sequence[SelectedMessage]) -> tuple[list[Message], list[Message]]:
        """Returns the messages and the spent ones, in the order given."""
        by_view: dict[PipeView, list[_Pop]] = {}
        for view, item in taken:
            by_view.setdefault(view, []).append(_pop_of(item, request))
        popped = await asyncio.gather(
            *[self._pop(request, view, pops) for view, pops in by_view.items()], return_exceptions=True
        )
        made: dict[Item, tuple[Message, bool]] = {}
        failures = [one for one in popped if isinstance(one, BaseException)]
        for one in popped:
            if not isinstance(one, BaseException):
                made |= one
        if failures and not made:
            raise failures[0]
        messages = [made[item] for _, item in taken if item in made]
        return [one for one, is_spent in messages if not is_spent], [one for one, is_spent in messages if is_spent]

    async def _pop(self, request: PopRequest, view: PipeView, pops: Sequence[_Pop]) -> dict[Item, tuple[Message, bool]]:
        """The deliveries from one pipe. Those that were not made are undone and read again."""
        first = [pop for pop in pops if pop.item.waits and view.holds(pop.item)]
        again = [pop for pop in pops if not pop.item.waits]
        queue_id, fence = request.q.id, self._leased(view).fence
        try:
            _, applied, rows, bodies = await asyncio.gather(
                self._pop_waiting(queue_id, view, first, fence),
                self._pop_pending(queue_id, view, again),
                self._rows.messages(queue_id, view.name, [pop.item.place for pop in pops]),
                self._rows.new_bodies(queue_id, view.name, [pop.item.place for pop in again]),
            )
        except BaseException:
            await self._undo(queue_id, view, first, again, fence)
            raise
        done = again if applied else []
        if not applied:  # another popper took one of them
            _read_again(view, again)
        if first and await self._ownership.has_owned(self._leased(view), fence):
            done = first + done
        elif first:
            await self._undo(queue_id, view, first, [], fence)
        for pop in done:
            pop.item.deliveries, pop.item.first_at_ms = pop.deliveries, pop.first_at_ms
            view.popped(pop.item, pop.lease, pop.due_ms)
        await self._retry_soon(request, view, [pop for pop in done if pop.item.place not in rows])
        return {
            pop.item: (_message(view, pop, rows[pop.item.place], bodies.get(pop.item.place)), pop.is_spent)
            for pop in done
            if pop.item.place in rows
        }

    async def _pop_waiting(self, queue_id: str, view: PipeView, pops: Sequence[_Pop], fence: int) -> None:
        if not pops:
            return
        pop_us = self._ownership.next_pop_us(fence)
        parts: list[_Part] = []
        for pop in pops:
            key = (queue_id, view.name, pop.item.place)
            values = (pop.lease, pop.due_ms, pop.item.born_at_ms, pop.deliveries, pop.first_at_ms)
            parts += [(schema.POP_PENDING, (*key, *values, pop_us)), (schema.POP_WAITING, (pop_us, *key))]
        await self._rows.cassandra.run_batch(parts, logged=False)

    async def _pop_pending(self, queue_id: str, view: PipeView, pops: Sequence[_Pop]) -> bool:
        """Returns whether none of them was deleted, changed or delivered meanwhile: all are popped, or none is."""
        if not pops:
            return True
        parts: list[_Part] = []
        for pop in pops:
            item = pop.item
            values = (pop.lease, pop.due_ms, pop.deliveries, pop.first_at_ms)
            parts.append((schema.POP_AGAIN, (*values, queue_id, view.name, item.place, item.lease, item.due_ms)))
        return await self._writes.run(queue_id, view.name, parts)

    async def _undo(
        self, queue_id: str, view: PipeView, first: Sequence[_Pop], again: Sequence[_Pop], fence: int
    ) -> None:
        """Make messages visible again: the lease ended before their pop did, or the store failed. The deliveries do not
        count.

        A message that waited is popped once more, to be visible soon. The timestamp of this write is above that of the
        undone pop, even if that arrives later, and below those of the next owner's pops.
        """
        until_ms = self._clock.now_ms() + schema.UNDONE_MS
        try:
            with suppress(CnsError):  # they are hidden until their timeout
                await asyncio.gather(
                    self._pop_waiting(queue_id, view, [_undone(pop, until_ms) for pop in first], fence),
                    self._undo_pending(queue_id, view, again),
                )
        finally:
            _read_again(view, [*first, *again])

    async def _undo_pending(self, queue_id: str, view: PipeView, pops: Sequence[_Pop]) -> None:
        parts: list[_Part] = []
        for pop in pops:
            item = pop.item
            values = (item.lease, item.due_ms, item.deliveries, item.first_at_ms)
            parts.append((schema.UNDO_POP_AGAIN, (*values, queue_id, view.name, item.place, pop.lease, pop.due_ms)))
        if parts and not await self._writes.run(queue_id, view.name, parts) and len(parts) > 1:
            for part in parts:  # one of them was deleted or delivered since
                await self._writes.run(queue_id, view.name, [part])

    async def _retry_soon(self, request: PopRequest, view: PipeView, pops: Sequence[_Pop]) -> None:
        """Pop these messages again soon: their payloads were deleted or, while the pipe is open, are not written
        yet."""
        if not pops:
            return
        view.miss()
        with suppress(CnsError):  # the messages are pending: they are tried again later
            if view.is_finished:
                await self._rows.delete(request.q.id, [PipeLocation(view.name, pop.item.place) for pop in pops])
            for pop in pops:
                key, due_ms = (request.q.id, view.name, pop.item.place), request.now_ms + RETRY_MS
                hidden = await self._writes.run(*key[:2], [(schema.HIDE, (due_ms, *key, pop.lease))])
                if hidden:
                    view.hide(pop.item.place, due_ms)
                else:
                    view.remove(pop.item.place)


def _pop_of(item: Item, request: PopRequest) -> _Pop:
    spent = 0 < request.q.max_receives <= item.deliveries
    return _Pop(
        item,
        new_lease(),
        request.now_ms + SPENT_HIDE_MS if spent else request.visible_at_ms,
        item.deliveries + (not spent),
        item.first_at_ms or request.now_ms,
        spent,
    )


def _undone(pop: _Pop, until_ms: int) -> _Pop:
    return pop._replace(lease=0, due_ms=until_ms, deliveries=pop.item.deliveries, first_at_ms=pop.item.first_at_ms)


def _read_again(view: PipeView, pops: Sequence[_Pop]) -> None:
    for pop in pops:
        view.read_again(pop.item)


def _message(view: PipeView, pop: _Pop, row: PipeMessageRow, new_body: bytes | None) -> Message:
    return Message(
        row.id,
        make_handle(PipeDelivery(PipeLocation(view.name, pop.item.place), pop.lease)),
        row.body if new_body is None else new_body,
        row.sequence,
        pop.deliveries,
        pop.first_at_ms,
        pop.item.born_at_ms,
        row.tenant or "",
    )
