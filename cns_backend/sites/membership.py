"""The membership of a process in its site: it polls whether the site is active, and a fence keeps it from the store
while it is not certain of that.

A process writes a row that shows that it acts (`Membership`), then reads the decision. A change of sites waits until no
row is left, so it waits for all certain processes. While the other site does not answer, each such row comes with a
record that writes may be missing there (`gaps.py`). A write that did not reach the other site is recorded before its
caller gets the answer, since other readers may see the write here. A killed process records nothing: while it writes to
both sites, it has a row that only an orderly end removes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog

from cns_backend.sites.decision import (
    DecisionView,
    SiteDecision,
    SiteStatus,
    may_act,
    may_finish,
    why_standing_by,
)
from cns_backend.sites.store import TIMES, SiteStore
from cns_common.cassandra.connection import STATEMENT_S, CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.cassandra.site_guard import SiteGuard
from cns_common.clock import Clock
from cns_common.cluster.stopwatch import Stopwatch
from cns_common.errors import EXIT_CASSANDRA_UNUSABLE, CnsError, StartError, StoreUnavailable
from cns_common.ids import hex_id
from cns_common.task_cancellation import cancel_and_wait, wait_at_most

INTERVAL_S = TIMES.renew_ms / 1000
WRITE_MS_MAX = round(STATEMENT_S * 1000)
"""A write with an unknown outcome began at most this long before it failed."""
ENDING_MS = WRITE_MS_MAX
"""This long after the store begins to refuse a command, the statements of the command have ended."""
LEAVE_S_MAX = 10.0

_UNSEEN = DecisionView(SiteDecision(), reachable=False)

log = structlog.get_logger(__name__)


class SiteMembership(SiteGuard):
    def __init__(
        self, store: SiteStore, clock: Clock, site: str, other: str, *, writes_each: bool, finishes: bool = True
    ) -> None:
        """With `writes_each`, both sites acknowledge a write while both are reachable. With `finishes`, the process
        ends its work when another site is to be active; else the store refuses its calls from then on, and it
        leaves."""
        self._store = store
        self._clock = clock
        self.site = site
        self.other = other
        self._writes_each = writes_each
        self._finishes = finishes
        self._membership = store.membership(clock, hex_id())
        self._lease = self._membership.lease
        self._view = _UNSEEN
        self._gap_since_ms: int | None = None
        self._misses: list[int] = []
        """Start times, by the monotonic clock, of writes that the other site may lack and that are not recorded."""
        self._recording = asyncio.Lock()
        self._is_unrecorded = False
        self._ended_ms = 0
        self._has_left = False
        self._shown_epoch = 0
        """The epoch of the rows of this process that are not removed; 0: none."""
        self.activation = 0
        self.acting = asyncio.Event()
        """Set while this process acts."""
        self.ended = asyncio.Event()
        """Set when this process must stop acting; `stand_by` clears it."""

    # -- for callers --------------------------------------------------------------------------------------------------

    @property
    def writes_everywhere(self) -> bool:
        return self._writes_each and self._view.reachable

    @property
    def leaving(self) -> bool:
        return self.ended.is_set()

    @property
    def is_certain(self) -> bool:
        return self._lease.is_certain

    def check(self) -> None:
        if self.leaving and not self._finishes:
            raise StoreUnavailable(f"site {self.site} is no longer active")
        if not self.is_certain:
            raise StoreUnavailable(f"this process cannot confirm that its site {self.site} is active")
        if self._is_unrecorded:
            raise StoreUnavailable(f"this process cannot record the writes that site {self.other} may lack")

    async def missed(self) -> None:
        """Record the missed write. One record covers all writes that failed before it began."""
        self._misses.append(self._clock.monotonic_ms() - WRITE_MS_MAX)
        async with self._recording:
            if self._is_unrecorded:  # until the next renewal records it, `check` raises
                return
            try:
                await self._record_misses()
            except BaseException as error:  # of any kind: the write is not recorded
                self._is_unrecorded = True
                if not isinstance(error, CnsError):
                    raise
                log.warning("site.gap_write_failed", other=self.other, error=str(error))

    async def _record_misses(self) -> None:
        misses = list(self._misses)
        if misses:
            epoch = self.activation or self._view.decision.epoch
            await self._store.extend_gap(self.other, epoch, None, lambda: self._clock.monotonic_ms() - min(misses))
            del self._misses[: len(misses)]
            self._is_unrecorded = False

    @property
    def why_standing_by(self) -> str:
        return why_standing_by(self._view, self.site, self.other)

    def status(self) -> SiteStatus:
        decision = self._view.decision
        return SiteStatus(
            site=self.site,
            other=self.other,
            active=decision.active,
            epoch=decision.epoch,
            acting=self.acting.is_set(),
            other_reachable=self._view.reachable,
            activated_alone=decision.alone,
        )

    # -- steps --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Renew and look until the task is cancelled. `look` may wait for a lost site, `renew` does not."""
        await asyncio.gather(self._repeat(self.renew), self._repeat(self.look))

    async def _repeat(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
            except CnsError as error:
                log.warning("site.renewal_failed", site=self.site, error=str(error))
            except Exception as error:  # a bug; the process loses its certainty, and stops using the store
                log.error("loop.crashed", loop="site", exc_info=error)
            await asyncio.sleep(INTERVAL_S)

    async def renew(self) -> None:
        """Show that this process acts, and stay certain by the decision as this site has it, since an orderly change is
        stored at both sites. A process that is not certain must read both sites."""
        if self.activation and self.is_certain:
            since = await self._show()
            self._follow(DecisionView(await self._store.decision(), self._view.reachable), since)

    async def look(self) -> None:
        """Read the decision from both sites, and follow it."""
        if self._has_left:
            return
        since = await self._show() if self.activation else self._lease.begin()
        await self._look()
        if self.activation:
            self._follow(self._view, since)
            if self.ended.is_set() and not self._finishes:
                await self._leave_running()
        elif not self.ended.is_set() and may_act(self._view, self.site, 0):
            await self._begin(self._view.decision.epoch)

    async def _show(self) -> Stopwatch:
        """Returns the moment before."""
        epoch = self.activation
        since = await self._membership.show(self.site, epoch)
        await self._record_gap(self._view, epoch)
        await self._show_writer(epoch)
        return since

    async def _show_writer(self, epoch: int) -> None:
        """Record misses first: the row covers only the writes of the last seconds."""
        async with self._recording:
            if self._writes_each and self._shown_epoch == epoch:
                await self._store.show_writer(self.other, epoch, self._membership.process)

    async def _record_gap(self, view: DecisionView, epoch: int) -> None:
        """Record the missed writes and, if the other site is unreachable, that the next writes may be missing there."""
        async with self._recording:
            await self._record_misses()
        if view.reachable:
            self._gap_since_ms = None
        else:
            self._gap_since_ms = await self._store.extend_gap(self.other, epoch, self._gap_since_ms)

    def _follow(self, view: DecisionView, since: Stopwatch) -> None:
        epoch = self.activation
        if not epoch:  # its activation ended meanwhile
            return
        if may_act(view, self.site, epoch if self.is_certain else 0) or may_finish(view, epoch):
            self._lease.hold(since)
        if (view.decision.active, view.decision.epoch) != (self.site, epoch) and not self.ended.is_set():
            log.warning("site.deactivated", site=self.site, active=view.decision.active, epoch=view.decision.epoch)
            self._ended_ms = self._clock.monotonic_ms()
            self.ended.set()
        if self.ended.is_set() and not (self._finishes and may_finish(view, epoch)):
            self._lease.end()

    async def _leave_running(self) -> None:
        """Leave the site, although the command may run for long, once no statement of it is in flight."""
        if self._clock.monotonic_ms() - self._ended_ms >= ENDING_MS:
            await self._leave()
            self._has_left = True

    async def _leave(self) -> None:
        """Remove the rows of this process. If that fails, the other site counts as lacking its writes."""
        async with self._recording:
            await self._record_misses()
            if self._writes_each:
                await self._store.end_writer(self.other, self._shown_epoch, self._membership.process)
            self._shown_epoch = 0
        await self._membership.leave()

    async def _begin(self, epoch: int) -> None:
        """Read the decision again after the row is written: it may have changed since the first read."""
        self._shown_epoch = epoch
        since = await self._membership.show(self.site, epoch)
        await self._look()
        if may_act(self._view, self.site, epoch) and self._view.decision.epoch == epoch:
            await self._record_gap(self._view, epoch)
            await self._show_writer(epoch)
            self.activation = epoch
            self._lease.hold(since)
            log.info("site.activated", site=self.site, epoch=epoch)
            self.acting.set()

    async def _look(self) -> None:
        before, view = self._view, await self._store.view()
        if self.activation:
            await self._record_gap(view, self.activation)
        self._view = view
        if before is not _UNSEEN and before.reachable != self._view.reachable:
            log.warning("site.other_reachability_changed", other=self.other, reachable=self._view.reachable)
        decision = self._view.decision
        if self._view.reachable and decision.alone and decision.active == self.site:
            await self._store.end_alone(decision.epoch)

    async def stand_by(self) -> None:
        """Leave the site, after all work of this activation ended."""
        if self.activation:
            self.acting.clear()
            self.activation, self._gap_since_ms = 0, None
            self._lease.end()
        if self._shown_epoch:
            with contextlib.suppress(CnsError):  # the row expires, and the next change of sites requires a repair
                await wait_at_most(LEAVE_S_MAX, "site.leave", self._leave())
        self.ended.clear()


@contextlib.asynccontextmanager
async def open_membership(
    address: CassandraAddress, site: str, other: str, *, writes_each: bool, at_once: bool = False
) -> AsyncIterator[SiteMembership]:
    """The membership, with a session of its own that no fence blocks. A command sets `at_once`: its process acts when
    this returns, or StartError says why it may not. A change of sites waits for the statements that a command sent, not
    for its end."""
    cassandra = await Cassandra.open(address)
    try:
        membership = SiteMembership(
            SiteStore(cassandra), Clock(), site, other, writes_each=writes_each, finishes=not at_once
        )
        try:
            if at_once:
                await membership.look()
                if not membership.acting.is_set():
                    raise StartError(membership.why_standing_by, EXIT_CASSANDRA_UNUSABLE)
            async with _running(membership):
                yield membership
        finally:
            await membership.stand_by()
    finally:
        await cassandra.close()


@contextlib.asynccontextmanager
async def _running(membership: SiteMembership) -> AsyncIterator[None]:
    running = asyncio.create_task(membership.run())
    try:
        yield
    finally:
        await cancel_and_wait([running])
