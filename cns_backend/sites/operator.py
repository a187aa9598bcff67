"""Changes the active site for an operator: orderly while both sites answer, otherwise on the operator's assurance."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import NamedTuple

from cns_backend.schema import table_names
from cns_backend.sites.decision import DecisionView, SiteDecision
from cns_backend.sites.gaps import SiteGap, repairable_until_ms, span_of, unrepaired, utc_text
from cns_backend.sites.store import SiteStore
from cns_common.errors import CnsError

POLL_INTERVAL_S = 0.2
FINISH_S_MAX = 60.0
"""The longest wait for processes to end their work; it exceeds the drain of a worker and the life of a row."""


class SiteChange(NamedTuple):
    name: str
    own: str
    """The site whose replicas this command uses."""
    other_lost: bool
    """The operator's assurance that the other site serves no client."""
    repaired: bool
    """The operator's assurance that the site was repaired."""


class SiteOperator:
    def __init__(self, store: SiteStore, keyspace: str) -> None:
        self._store = store
        self._keyspace = keyspace

    async def view(self) -> DecisionView:
        return await self._store.view()

    async def now_ms(self) -> int:
        """The time by Cassandra's clock."""
        return await self._store.now_ms()

    async def lacking(self, site: str, *, everywhere: bool) -> SiteGap | None:
        """The period of which `site` may lack writes, or None. `everywhere`: by the records of both sites, not of this
        one only."""
        gaps = [*await self._store.gaps(site, everywhere=everywhere), *await self._unended(site, everywhere=everywhere)]
        return span_of(gaps) if gaps else None

    async def _unended(self, site: str, *, everywhere: bool) -> list[SiteGap]:
        """The gaps of killed processes. They are unknown while the other site does not answer."""
        return await self._store.unended(site) if everywhere else []

    async def activate(self, change: SiteChange) -> SiteDecision:
        """Activate a site. Raises ValueError with the reason if that is not possible."""
        view = await self._store.view()
        if view.reachable:
            return await self._in_order(change, view.decision)
        return await self._alone(change, view.decision)

    async def _in_order(self, change: SiteChange, before: SiteDecision) -> SiteDecision:
        """First deactivate the old site and wait until its processes end; then activate the new one."""
        if change.other_lost:
            raise ValueError("both sites answer: omit --other-site-lost")
        if before.active == change.name:
            return before
        await self._check_repaired(change, everywhere=True)
        nobody = before
        if before.active:
            nobody = await self._decide(before, SiteDecision("", before.epoch + 1))
        await self._wait_for_end(nobody.epoch, everywhere=True)
        try:
            await self._check_repaired(change, everywhere=True)  # it may have been unreachable since the first check
            await self._store.forget_gaps(change.name, nobody.epoch + 1)
        except (ValueError, CnsError):
            if before.active:
                await self._decide(nobody, SiteDecision(before.active, nobody.epoch + 1))
            raise
        return await self._decide(nobody, SiteDecision(change.name, nobody.epoch + 1))

    async def _alone(self, change: SiteChange, before: SiteDecision) -> SiteDecision:
        if not change.other_lost:
            raise ValueError(
                "the other site does not answer and may be in use: stop its processes or cut them off from clients,"
                " then add --other-site-lost"
            )
        if change.name != change.own:
            raise ValueError(f"without the other site only this one, {change.own}, can be activated")
        if before.active == change.name:  # running processes keep the epoch, and others may start
            return await self._decide(before, SiteDecision(change.name, before.epoch, alone=True))
        try:
            await self._check_repaired(change, everywhere=False)
        except ValueError as error:
            raise ValueError(
                f"{error}. That takes the Cassandra nodes of the other site; to give up what only they have, add"
                " --repaired"
            ) from error
        await self._wait_for_end(before.epoch + 1, everywhere=False)
        return await self._decide(before, SiteDecision(change.name, before.epoch + 1, alone=True))

    async def _check_repaired(self, change: SiteChange, *, everywhere: bool) -> None:
        """Raise ValueError if the site may lack writes that were accepted while it was unreachable, by the records of
        both sites or of this one."""
        if change.repaired:
            return
        absences = await self._store.gaps(change.name, everywhere=everywhere)
        unended = await self._unended(change.name, everywhere=everywhere)
        if not absences and not unended:
            return
        gap, by_ms = span_of([*absences, *unended]), repairable_until_ms(absences)
        now_ms = await self._store.now_ms()
        lacks = f"site {change.name} may lack writes that were accepted {gap}"
        if not absences:
            lacks += ", by processes that were killed"
        repair = command = f"run `nodetool repair -full {self._keyspace}` on each of its nodes"
        if by_ms < math.inf:
            repair = f"{command}, to be done by {utc_text(int(by_ms))} UTC"
        left: Sequence[str] = table_names()
        if gap.until_ms <= now_ms:
            left = await self._unrepaired(gap.until_ms, by_ms, f"{lacks}: {repair}, then add --repaired")
        if not left:
            return
        if now_ms > by_ms:
            raise ValueError(
                f"{lacks}: longer ago than Cassandra keeps tombstones, so deleted messages would come back."
                f" Empty its nodes and replace them (docs/operations/cluster.md), {command}, then add --repaired"
            )
        if gap.until_ms > now_ms:
            raise ValueError(f"{lacks}, and the gap still goes on: {repair} after that time")
        raise ValueError(
            f"{lacks}: {repair}, then run this again. Cassandra has recorded no such repair of {len(left)} tables, for"
            f" example {left[0]}; if it was done, add --repaired"
        )

    async def _unrepaired(self, after_ms: int, by_ms: float, otherwise: str) -> Sequence[str]:
        """The tables that no recorded repair covers. `otherwise`: what to do if the records cannot be read."""
        try:
            return unrepaired(table_names(), await self._store.repairs(self._keyspace, after_ms, by_ms))
        except CnsError as error:
            raise ValueError(f"{otherwise} (Cassandra's record of repairs cannot be read: {error})") from error

    async def _wait_for_end(self, epoch: int, *, everywhere: bool) -> None:
        """Wait until no process acts by an earlier decision. Raises ValueError after `FINISH_S_MAX`."""
        left: list[str] = []
        for _ in range(round(FINISH_S_MAX / POLL_INTERVAL_S)):
            view = (
                await self._store.view() if everywhere else DecisionView(await self._store.decision(), reachable=False)
            )
            if everywhere and not view.reachable:
                raise ValueError("the other site no longer answers: run the command again")
            left = [one.site for one in view.decision.processes if one.epoch < epoch]
            if not left:
                return
            await asyncio.sleep(POLL_INTERVAL_S)
        raise ValueError(f"{len(left)} processes of {left[0]} have not ended their work: stop them, and run this again")

    async def _decide(self, before: SiteDecision, after: SiteDecision) -> SiteDecision:
        if not await self._store.decide(before.epoch, after):
            raise ValueError("another command changed the active site at the same time: run `cns site show`")
        return after
