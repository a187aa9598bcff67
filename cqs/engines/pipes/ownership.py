"""The ownership of a pipe by a popper: a lease in the pipe's descriptor that expires in Cassandra, with a rising
fence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from cns_common.errors import CnsError
from cqs.engines.pipes import schema
from cqs.engines.pipes.rows import PipeRows
from cqs.engines.pipes.view import PipeView

COUNTER_BITS = 24
"""A pop's write timestamp is its fence and this many bits of a counter: below any clock's, for 2^25 fences."""


class Ownership:
    """The leases of one popper. `node` is that of its process."""

    def __init__(self, rows: PipeRows, queue_id: str, node: str) -> None:
        self._cassandra = rows.cassandra
        self._rows = rows
        self._queue_id = queue_id
        self._node = node
        self._pops = 0

    def next_pop_us(self, fence: int) -> int:
        """The write timestamp of a pop: above those of all pops under earlier leases, however late those arrive."""
        self._pops += 1
        return schema.PUSH_US + 1 + (fence << COUNTER_BITS | self._pops % (1 << COUNTER_BITS))

    async def own(self, view: PipeView) -> bool:
        """Take or keep the lease. Returns whether this popper has it. If it is newly taken, the view is cleared."""
        if view.lease.is_certain and not view.lease.is_due:
            return True
        if view.lease.held and await view.lease.extend(self._renew(view.name, view.fence)):
            return True
        descriptor = await self._rows.describe(self._queue_id, view.name)
        if descriptor is None or descriptor.fence is None or descriptor.owner not in (None, self._node):
            return False
        if not await view.lease.extend(self._take(view.name, descriptor.owner, descriptor.fence)):
            return False
        view.fence = descriptor.fence + 1
        view.forget_all()
        return True

    async def has_owned(self, view: PipeView, fence: int) -> bool:
        """Whether no other popper can have had the lease since this one had it under this fence. The view is not
        changed: the lease may be released or taken meanwhile, and pops after that must not go on without a read."""
        if view.fence != fence or not view.lease.held:
            return False
        if view.lease.is_certain:
            return True
        try:
            return await self._renew(view.name, fence)
        except CnsError:
            return False

    async def _renew(self, pipe: str, fence: int) -> bool:
        return await self._cassandra.run_conditional(
            schema.RENEW_OWN, self._node, self._queue_id, pipe, self._node, fence
        )

    async def _take(self, pipe: str, owner: str | None, fence: int) -> bool:
        """If the process is the owner already, it missed the outcome of an earlier call: it takes the lease anew, so
        that a release that arrives late has no effect."""
        key = (self._queue_id, pipe)
        own = (schema.OWN, (self._node, *key, fence))
        own_again = (schema.RENEW_OWN, (self._node, *key, self._node, fence))
        return await self._cassandra.run_conditional_batch(
            [own if owner is None else own_again, (schema.FENCE, (fence + 1, *key, fence))]
        )

    async def own_whole(self, view: PipeView) -> bool:
        """The lease on all pipes of the queue; its descriptor is made first."""
        if not view.lease.held and await self._rows.describe(self._queue_id, view.name) is None:
            await self._cassandra.run_conditional(schema.ADD_WHOLE, self._queue_id)
        return await self.own(view)

    async def release(self, views: Iterable[PipeView]) -> None:
        """Release the leases. No pop begins under them once this is called."""
        held = [view for view in views if view.lease.held]
        for view in held:
            view.lease.end()
        await asyncio.gather(*[self._release(view) for view in held])

    async def _release(self, view: PipeView) -> None:
        with suppress(CnsError):  # it ends by itself
            await self._cassandra.run_conditional(schema.RELEASE, self._queue_id, view.name, self._node, view.fence)
