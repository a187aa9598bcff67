"""The pusher: one open pipe per queue, written by this process only. A push reads nothing and locks nothing.

The pusher holds a lease on its pipe: a column that expires by Cassandra's clock. Others finish the pipe only without a
lease. A push is acknowledged only while the lease is valid, so no acknowledged message is added to a finished pipe.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from cns_common.cassandra.session import Statement
from cns_common.clock import Clock
from cns_common.cluster.lease import Lease, LeaseTimes
from cns_common.errors import CnsError, StoreUnavailable
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.contract import Entry
from cqs.engines.pipes import schema
from cqs.engines.pipes.names import PipeLocation, pipe_name
from cqs.engines.pipes.rows import PipeRows

OPEN_MAX = 20_000
"""The most queues with an open pipe in this process. Each further queue gets a new pipe."""
ENDS_MAX = 5
"""Pipes finished by others that one push may meet before it fails."""
COUNTER_BITS = 20
_TIMES = LeaseTimes(schema.PUSHER_LEASE_CERTAIN_MS, schema.PUSHER_LEASE_RENEW_MS)


class PushedMessage(NamedTuple):
    location: PipeLocation
    sequence: int


class OpenPipe:
    """The pipe into which this process pushes now, or pushed until a moment ago."""

    def __init__(self, queue_id: str, generation: int, start_ms: int, name: str, lease: Lease) -> None:
        self.queue_id = queue_id
        self.generation = generation
        self.start_ms = start_ms
        self.name = name
        self.lease = lease
        self.places = 0
        self.bytes = 0
        self.pushed = 0
        self.listed = False  # whether poppers find it
        self.ended = False  # another process has finished it
        self.superseded = False  # no further push begins here
        self.pushes = 0  # that have not ended
        self.changes = 0  # of `pushed`
        self.extending: asyncio.Task[None] | None = None

    def has_room(self, generation: int, pipe_size: int, sizes: Sequence[int], now_ms: int) -> bool:
        fits = self.places + len(sizes) <= pipe_size and self.bytes + sum(sizes) <= schema.PIPE_BYTES_MAX
        return (
            not self.ended
            and self.generation == generation
            and now_ms - self.start_ms < schema.PIPE_PUSH_MS_MAX
            and (fits or not self.places)
        )


class Pusher:
    def __init__(self, rows: PipeRows, clock: Clock, node: str) -> None:
        self._cassandra = rows.cassandra
        self._rows = rows
        self._clock = clock
        self._node = node
        self._numbers = count()
        self._next_sequence = 0  # rises within the process even if its clock does not
        self._open: OrderedDict[str, OpenPipe] = OrderedDict()
        self._finishes: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Finish the pipes, so that no popper has to wait for the end of their leases."""
        for opened in self._open.values():
            self._supersede(opened)
        if self._finishes:
            await asyncio.wait(self._finishes, timeout=schema.OWNER_LEASE_S)
        await cancel_and_wait(self._finishes)

    async def push(
        self, queue_id: str, generation: int, pipe_size: int, entries: Sequence[Entry], now_ms: int
    ) -> list[PushedMessage]:
        """One write, and another in parallel if the pipe is new. Batches beyond the size of a pipe go into several."""
        pushed: list[PushedMessage] = []
        for at in range(0, len(entries), pipe_size):
            pushed += await self._push(queue_id, generation, pipe_size, entries[at : at + pipe_size], now_ms)
        return pushed

    async def _push(
        self, queue_id: str, generation: int, pipe_size: int, entries: Sequence[Entry], now_ms: int
    ) -> list[PushedMessage]:
        sizes = [len(entry.body) for entry in entries]
        for _ in range(ENDS_MAX):
            opened = self._opened(queue_id, generation, pipe_size, sizes, now_ms)
            pushed = self._begin(opened, sizes, now_ms)
            is_done = False
            try:
                is_done = await self._write(opened, pushed, entries, now_ms)
            finally:
                self._end(opened, 0 if is_done else len(entries))
            if is_done:
                return pushed
            with suppress(CnsError):  # a copy that is left may be delivered, too
                await self._rows.delete(queue_id, [one.location for one in pushed])
        raise StoreUnavailable("the queue's pipes are finished again and again")

    def _opened(self, queue_id: str, generation: int, pipe_size: int, sizes: Sequence[int], now_ms: int) -> OpenPipe:
        before = self._open.get(queue_id)
        if before is not None and before.has_room(generation, pipe_size, sizes, now_ms):
            return before
        name = pipe_name(generation, now_ms, self._node, next(self._numbers))
        opened = OpenPipe(queue_id, generation, now_ms, name, Lease(self._clock, _TIMES))
        self._open[queue_id] = opened
        if before is not None:
            self._supersede(before)
        if len(self._open) > OPEN_MAX:
            self._supersede(self._open.popitem(last=False)[1])
        return opened

    def _begin(self, opened: OpenPipe, sizes: Sequence[int], now_ms: int) -> list[PushedMessage]:
        first, n = opened.places, len(sizes)
        sequence = max(now_ms << COUNTER_BITS, self._next_sequence)
        self._next_sequence = sequence + n
        opened.places += n
        opened.bytes += sum(sizes)
        opened.pushed += n
        opened.pushes += 1
        return [PushedMessage(PipeLocation(opened.name, first + i), sequence + i) for i in range(n)]

    def _end(self, opened: OpenPipe, failed: int) -> None:
        opened.pushed -= failed
        opened.pushes -= 1
        self._finish_if_left(opened)

    async def _write(
        self, opened: OpenPipe, pushed: Sequence[PushedMessage], entries: Sequence[Entry], now_ms: int
    ) -> bool:
        """Returns False if others finished the pipe, perhaps before the messages were written."""
        opened.changes += 1
        inserts = [
            insert
            for one, entry in zip(pushed, entries, strict=True)
            for insert in _inserts(opened, one, entry, now_ms)
        ]
        inserts.append((schema.PUSHED, (opened.changes, opened.pushed, opened.queue_id, opened.name)))
        writing = self._cassandra.run_batch(inserts, logged=False)
        if not opened.lease.is_due:
            await writing
        else:
            extending = self._extend(opened)
            if opened.lease.is_certain:
                await writing
            else:
                await asyncio.gather(asyncio.shield(extending), writing)
        while not opened.ended and not opened.lease.is_certain:  # the write took long, or the process was stopped
            await asyncio.shield(self._extend(opened))
        return not opened.ended

    def _extend(self, opened: OpenPipe) -> asyncio.Task[None]:
        """Extend the lease once for all pushes; without success the pipe has ended."""
        if opened.extending is None:
            opened.extending = asyncio.create_task(self._extend_lease(opened))
            opened.extending.add_done_callback(lambda task: _extended(opened, task))
        return opened.extending

    async def _extend_lease(self, opened: OpenPipe) -> None:
        opened.ended = not await opened.lease.extend(self._ask_for_lease(opened)) or opened.ended

    async def _ask_for_lease(self, opened: OpenPipe) -> bool:
        """Open the pipe, later renew its lease. Returns False if it has ended."""
        key = (opened.queue_id, opened.name)
        if opened.listed:
            return await self._cassandra.run_conditional(schema.LEASE_PUSH, self._node, *key)
        if opened.lease.age_ms >= schema.PUSHER_LEASE_CERTAIN_MS:
            return False  # an earlier attempt may have opened it, and others finished and removed it by now
        describing = [(schema.DESCRIBE_NEW, key), (schema.LEASE_NEW, (self._node, *key))]
        await self._cassandra.run_batch(describing, logged=False)
        await self._cassandra.run(schema.OPEN, *key)
        opened.listed = True
        return True

    # -- the end of a pipe --------------------------------------------------------------------------------------------

    def _supersede(self, opened: OpenPipe) -> None:
        opened.superseded = True
        self._finish_if_left(opened)

    def _finish_if_left(self, opened: OpenPipe) -> None:
        if opened.superseded and not opened.pushes and not opened.ended and opened.listed:
            opened.ended = True
            finishing = asyncio.create_task(self._finish(opened))
            self._finishes.add(finishing)
            finishing.add_done_callback(self._finishes.discard)

    async def _finish(self, opened: OpenPipe) -> None:
        with suppress(CnsError):  # the reaper does it when the lease has ended
            key = (opened.queue_id, opened.name)
            opened.changes += 1
            await self._cassandra.run(schema.PUSHED, opened.changes, opened.pushed, *key)
            await self._cassandra.run(schema.FINISH_OWN, *key)
            await self._cassandra.run(schema.HINT, schema.STATE_US[schema.FINISHED], schema.FINISHED, *key)


def _inserts(
    opened: OpenPipe, pushed: PushedMessage, entry: Entry, now_ms: int
) -> list[tuple[Statement, Sequence[object]]]:
    """A message waits, or is pending until its delay has passed."""
    key = (opened.queue_id, opened.name, pushed.location.place)
    index = (entry.visible_at_ms, entry.born_at_ms, entry.deliveries, entry.first_received_ms)
    return [
        (schema.PUSH_MESSAGE, (*key, entry.id, entry.body, entry.group, pushed.sequence, entry.born_at_ms)),
        (schema.PUSH_DELAYED if entry.visible_at_ms > now_ms else schema.PUSH_WAITING, (*key, *index)),
    ]


def _extended(opened: OpenPipe, task: asyncio.Task[None]) -> None:
    opened.extending = None
    if not task.cancelled():
        task.exception()  # the waiting pushes get the error; the next push tries again
