"""A decision by which all processes of a group act: one conditional row in Cassandra, which they all read.

The row has the number of an *epoch* and what was decided for it. Any process may begin the next epoch; the condition
lets one of them win. Beside the row each process has one of its own (`Membership`), which expires: the epoch by which
it acts, and what it wants the others to know. What an epoch allows begins once all living processes act by it.

A process is *certain* of its epoch for a while after it began to renew its row. Others wait for it until the row
expires, which is later, so no two processes are certain of different epochs that both were acted on by all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

import structlog

from cns_common.cassandra.session import Cassandra, Statement
from cns_common.clock import Clock
from cns_common.cluster.membership import MemberRows, Membership
from cns_common.errors import CnsError, StoreUnavailable
from cns_common.task_cancellation import cancel_and_wait

RENEW_TIMEOUT_S = 2.0
CONFIRM_TRIES = 3
"""As many as fit into the deadline of a call."""
EPOCH_START_MAX = 2**31

log = structlog.get_logger(__name__)


class ViewRows(NamedTuple):
    """The statements of a view. The first value of a condition's row is the view's name."""

    read: Statement
    """Rows of (epoch, decision, process, its epoch, what it says); of one without a process if there is none."""
    confirm: Statement
    """Its values: epoch, name, epoch. It changes nothing: it tells whether the epoch is current, even if the write of a
    later one is not visible yet."""
    begin_first: Statement
    """Its values: epoch, decision, name."""
    begin_next: Statement
    """Its values: epoch, decision, name, the epoch before."""


class ViewState(NamedTuple):
    epoch: int = 0
    """0 before any process decided."""
    decision: str = ""
    acted_on_by_all: bool = False
    """Whether all living processes act by this epoch."""
    said: Mapping[str, str] = MappingProxyType({})
    """The texts that living processes show one another, by process."""
    others: int = 0
    """The number of other living processes."""


class View:
    def __init__(
        self, cassandra: Cassandra, clock: Clock, rows: ViewRows, members: MemberRows, process: str, name: str
    ) -> None:
        self._cassandra = cassandra
        self._clock = clock
        self._rows = rows
        self._membership = Membership(cassandra, clock, members, process, name)
        self._has_left = False
        self._lock = asyncio.Lock()
        self._confirming: asyncio.Task[ViewState] | None = None
        self.name = name
        self.epoch = 0
        """The epoch by which this process acts."""
        self.says = ""
        """The text that this process shows the others."""
        self.state = ViewState()
        self.changed = asyncio.Event()
        """Set when a read of the row shows another epoch than the one by which this process acts."""

    @property
    def process(self) -> str:
        return self._membership.process

    @property
    def is_certain(self) -> bool:
        """Whether this process is certain of its epoch: no other process does what a later one allows."""
        return self._membership.lease.is_certain

    def act_by(self, epoch: int) -> None:
        """Act by an epoch; others see that with the next renewal."""
        self.epoch = epoch
        self._membership.lease.end()
        self.changed.clear()

    async def renew(self) -> ViewState:
        """Write this process's row and read those of the others. Raises StoreUnavailable, too, after `leave`."""
        if self._has_left:
            raise StoreUnavailable(f"this process has left {self.name}")
        async with self._lock:
            try:
                async with asyncio.timeout(RENEW_TIMEOUT_S):
                    await self._renew()
            except TimeoutError:
                raise StoreUnavailable(f"Cassandra did not confirm the epoch of {self.name} in time") from None
        return self.state

    async def ensure_certain(self) -> None:
        """Renew if this process is not certain: once for all concurrent callers, and again if Cassandra only pauses. It
        is not certain afterwards if another epoch has begun."""
        if self.is_certain:
            return
        for tries_left in reversed(range(CONFIRM_TRIES)):
            if self._confirming is None or self._confirming.done():
                self._confirming = asyncio.create_task(self.renew())
            try:
                await asyncio.shield(self._confirming)
            except StoreUnavailable:
                if not tries_left:
                    raise
            else:
                return

    async def _renew(self) -> None:
        epoch = self.epoch
        since = await self._membership.show(epoch, self.says)
        certain = self.is_certain  # so the row was there all the time
        self.state = await self._read()
        if self.state.epoch != self.epoch:
            self.changed.set()
        elif epoch and (certain or await self._confirm(epoch)) and epoch == self.epoch:
            self._membership.lease.hold(since)

    async def _confirm(self, epoch: int) -> bool:
        """Compare the epoch by a conditional write: this process's row may have expired, and a later epoch begun
        unseen."""
        return await self._cassandra.run_conditional(self._rows.confirm, epoch, self.name, epoch)

    async def read(self) -> ViewState:
        """Read the state, without writing this process's row."""
        self.state = await self._read()
        return self.state

    async def _read(self) -> ViewState:
        rows = await self._cassandra.run(self._rows.read, self.name)
        epoch, decision = rows[0][:2] if rows else (None, None)
        living = {process: (seen or 0, says or "") for _, _, process, seen, says in rows if process is not None}
        return ViewState(
            epoch or 0,
            decision or "",
            all(seen == epoch for seen, _ in living.values()),
            {process: says for process, (_, says) in living.items()},
            len(living.keys() - {self._membership.process}),
        )

    async def propose(self, decision: str, above: int = 0) -> int:
        """Try to begin an epoch, with a number above `above`. Returns its number, 0 if another process was quicker or
        the outcome is unknown."""
        before = self.state.epoch
        epoch = max(before, above) + 1
        if before:
            begun = await self._cassandra.run_conditional(self._rows.begin_next, epoch, decision, self.name, before)
        else:  # from the clock: a Redis may know the numbers of a removed keyspace
            epoch = max(epoch, min(self._clock.wall_ms() // 1000, EPOCH_START_MAX))
            begun = await self._cassandra.run_conditional(self._rows.begin_first, epoch, decision, self.name)
        return epoch if begun else 0

    async def keep_renewed(self) -> None:
        """Renew periodically. The caller makes the first renewal."""
        while True:
            await asyncio.sleep(self._membership.rows.times.renew_ms / 1000)
            try:
                await self.renew()
            except CnsError as error:
                log.warning("view.renewal_failed", name=self.name, error=str(error))

    async def leave(self) -> None:
        """Tell the other processes that this one acts by no epoch any more."""
        self._has_left = True
        if self._confirming is not None:
            await cancel_and_wait([self._confirming])  # it would write the row again
        with suppress(CnsError):  # the row expires by itself
            await self._membership.leave()
