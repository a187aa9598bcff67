"""Reads and changes the stored decision."""

from __future__ import annotations

import asyncio

from cns_backend.sites import schema
from cns_backend.sites.decision import ActingProcess, Decision, View
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.errors import CnsError


class SiteStore:
    def __init__(self, cassandra: Cassandra) -> None:
        """`cassandra` is a session without a guard."""
        self._cassandra = cassandra

    async def view(self) -> View:
        """Raises StoreUnavailable if this site's own replicas do not answer."""
        try:
            async with asyncio.timeout(schema.READ_S):
                return View(_decision(await self._cassandra.run(schema.READ_EVERYWHERE)), reachable=True)
        except (TimeoutError, CnsError):
            return View(await self.decision(), reachable=False)

    async def decision(self) -> Decision:
        """As this site has it."""
        return _decision(await self._cassandra.run(schema.READ_HERE))

    async def renew(self, process: ActingProcess) -> None:
        await self._cassandra.run(schema.RENEW, process.process, process.site, process.epoch, schema.TTL_S)

    async def leave(self, process: str) -> None:
        await self._cassandra.run(schema.LEAVE, process)

    async def decide(self, before: int, after: Decision) -> bool:
        """Replace the decision of epoch `before`. Returns False if another was made meanwhile."""
        if after.alone:
            statement = schema.DECIDE_ALONE if before else schema.DECIDE_FIRST_ALONE
        else:
            statement = schema.DECIDE if before else schema.DECIDE_FIRST
        return await self._changed(statement, before, after)

    async def end_alone(self, epoch: int) -> None:
        await self._cassandra.run_conditional(schema.END_ALONE, epoch)

    async def _changed(self, statement: Statement, before: int, after: Decision) -> bool:
        values = (after.active, after.epoch, after.alone, *([before] if before else []))

        async def attempt() -> bool:
            return await self._cassandra.run_conditional(statement, *values)

        async def ours() -> bool:
            found = await self.decision()
            return (found.epoch, found.active) == (after.epoch, after.active)

        return await resolve_lost_write(attempt, ours)


def _decision(rows: list[Row]) -> Decision:
    if not rows:
        return Decision()
    active, epoch, alone = rows[0][:3]
    processes = [ActingProcess(process, site, seen) for _, _, _, process, site, seen in rows if seen is not None]
    return Decision(active or "", epoch or 0, bool(alone), tuple(processes))
