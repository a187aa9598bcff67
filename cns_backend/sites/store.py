"""Reads and changes the stored decision, and the records of writes that a site lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from cns_backend.sites import schema
from cns_backend.sites.decision import ActingProcess, DecisionView, SiteDecision
from cns_backend.sites.gaps import GapRepair, SiteGap, is_whole_repair, read_ranges
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.clock import Clock
from cns_common.cluster.lease import LeaseTimes
from cns_common.cluster.membership import MemberRows, Membership
from cns_common.errors import CnsError

TIMES = LeaseTimes(certain_ms=4_000, renew_ms=1_500)
GAP_MS = 12_000
"""The time after a record of a gap in which the writer may still write without the other site: it is certain for 4 s,
and a statement takes up to 7 s."""
END_AHEAD_MS = 1_000
"""The removal of a row is dated this much ahead, so that it is later than the last renewal by the clock of any node."""

_ROWS = MemberRows(schema.RENEW, schema.LEAVE, schema.TTL_S, TIMES)


class SiteStore:
    def __init__(self, cassandra: Cassandra) -> None:
        """`cassandra`: a session without a site guard."""
        self._cassandra = cassandra

    async def view(self) -> DecisionView:
        """Read the decision. Raises StoreUnavailable if the replicas of this site do not answer."""
        try:
            async with asyncio.timeout(schema.READ_S):
                return DecisionView(_decision(await self._cassandra.run(schema.READ_EVERYWHERE)), reachable=True)
        except (TimeoutError, CnsError):
            return DecisionView(await self.decision(), reachable=False)

    async def decision(self) -> SiteDecision:
        """The decision as this site stores it."""
        return _decision(await self._cassandra.run(schema.READ_HERE))

    def membership(self, clock: Clock, process: str) -> Membership:
        """The row of an acting process. It says the process's site, and the epoch by which the process acts."""
        return Membership(self._cassandra, clock, _ROWS, process)

    async def decide(self, before: int, after: SiteDecision) -> bool:
        """Replace the decision of epoch `before`. Returns False if another was made meanwhile."""
        if after.alone:
            statement = schema.DECIDE_ALONE if before else schema.DECIDE_FIRST_ALONE
        else:
            statement = schema.DECIDE if before else schema.DECIDE_FIRST
        return await self._changed(statement, before, after)

    async def end_alone(self, epoch: int) -> None:
        await self._cassandra.run_conditional(schema.END_ALONE, epoch)

    # -- missing writes -----------------------------------------------------------------------------------------------

    async def now_ms(self) -> int:
        """The time by Cassandra's clock."""
        return int((await self._cassandra.run(schema.NOW))[0][0])

    async def extend_gap(
        self, site: str, epoch: int, since_ms: int | None, begun_ago_ms: Callable[[], int] = lambda: 0
    ) -> int:
        """Record that `site` may lack the writes of the next `GAP_MS` and, if `since_ms` is None, those since
        `begun_ago_ms` ago. `since_ms` is the result of the previous call. Returns the start of the gap."""
        now_ms = await self.now_ms()
        if since_ms is None:
            begun_ms = now_ms - begun_ago_ms()  # measured after `now_ms`, so never too late
            growing = [gap.since_ms for gap in await self.gaps(site, everywhere=False) if gap.until_ms >= begun_ms]
            since_ms = min([*growing, begun_ms])
        await self._cassandra.run(schema.EXTEND_GAP, site, epoch, since_ms, now_ms + GAP_MS, now_ms * 1000)
        return since_ms

    async def gaps(self, site: str, *, everywhere: bool) -> list[SiteGap]:
        """The gaps of `site`, newest first; read from both sites, or from this one."""
        statement = schema.GAPS_EVERYWHERE if everywhere else schema.GAPS_HERE
        return [SiteGap(*row) for row in await self._cassandra.run(statement, site)]

    async def show_writer(self, site: str, epoch: int, process: str) -> None:
        """Record that `site` may lack the writes of a process from `GAP_MS` before now to `GAP_MS` after, unless it
        ends orderly."""
        now_ms = await self.now_ms()
        await self._cassandra.run(schema.SHOW_WRITER, site, epoch, process, now_ms, now_ms * 1000)

    async def end_writer(self, site: str, epoch: int, process: str) -> None:
        """Remove the row of a process that has ended and whose missing writes are recorded."""
        end_us = (await self.now_ms() + END_AHEAD_MS) * 1000
        await self._cassandra.run(schema.END_WRITER, end_us, site, epoch, process)

    async def unended(self, site: str) -> list[SiteGap]:
        """The gaps of processes that neither ended orderly nor are shown as acting; read from both sites."""
        writers: list[Row] = []
        after: Sequence[object] = (-1, "")
        while page := await self._cassandra.run(schema.WRITERS, site, *after):
            writers += page
            after = page[-1][:2]
        acting = {one.process for one in (await self.view()).decision.processes}  # read last: misses no writer
        return [SiteGap(seen - GAP_MS, seen + GAP_MS) for _, process, seen in writers if process not in acting]

    async def forget_gaps(self, site: str, epoch: int) -> None:
        """Delete the gaps of `site` from before this activation, whose processes have ended."""
        now_us = await self.now_ms() * 1000
        for statement in (schema.FORGET_GAPS, schema.FORGET_WRITERS):
            await self._cassandra.run(statement, now_us, site, epoch)

    async def repairs(self, keyspace: str, after_ms: int, until_ms: float) -> list[GapRepair]:
        """The repairs of a keyspace that compared all replicas, and began and ended between these times."""
        rows = await self._cassandra.run(schema.REPAIRS, keyspace, after_ms)
        return [
            GapRepair(frozenset(tables or ()), read_ranges(ranges))
            for tables, ranges, options, finished in rows
            if ranges and is_whole_repair(options or {}) and finished is not None and _ms(finished) <= until_ms
        ]

    async def _changed(self, statement: Statement, before: int, after: SiteDecision) -> bool:
        values = (after.active, after.epoch, after.alone, *([before] if before else []))

        async def attempt() -> bool:
            return await self._cassandra.run_conditional(statement, *values)

        async def ours() -> bool:
            found = await self.decision()
            return (found.epoch, found.active) == (after.epoch, after.active)

        return await resolve_lost_write(attempt, ours)


def _decision(rows: list[Row]) -> SiteDecision:
    if not rows:
        return SiteDecision()
    active, epoch, alone = rows[0][:3]
    processes = [ActingProcess(process, site, seen) for _, _, _, process, site, seen in rows if seen is not None]
    return SiteDecision(active or "", epoch or 0, bool(alone), tuple(processes))


def _ms(at: datetime) -> int:
    """The driver returns UTC times without a zone."""
    return round(at.replace(tzinfo=UTC).timestamp() * 1000)
