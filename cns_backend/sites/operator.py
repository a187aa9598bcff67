"""Changes the active site, as an operator asks: in order while both sites answer, else by the operator's word."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from cns_backend.sites.decision import Decision, View
from cns_backend.sites.store import SiteStore

POLL_INTERVAL_S = 0.2
FINISH_S_MAX = 60.0
"""The longest wait of a change for processes to end their work: more than a worker's drain and the life of a row."""


class SiteChange(NamedTuple):
    name: str
    own: str
    """The site whose replicas this command uses."""
    other_lost: bool
    """The operator's word that the other site serves nobody."""


class SiteOperator:
    def __init__(self, store: SiteStore) -> None:
        self._store = store

    async def view(self) -> View:
        return await self._store.view()

    async def activate(self, change: SiteChange) -> Decision:
        """Make a site the active one. ValueError says why that is not possible."""
        view = await self._store.view()
        if view.reachable:
            return await self._in_order(change, view.decision)
        return await self._alone(change, view.decision)

    async def _in_order(self, change: SiteChange, before: Decision) -> Decision:
        """First no site is active, until the processes of the one before have ended; then the new one is."""
        if change.other_lost:
            raise ValueError("both sites answer: leave --other-site-lost out")
        if before.active == change.name:
            return before
        if before.active:
            before = await self._decide(before, Decision("", before.epoch + 1))
        await self._wait_for_end(before.epoch, everywhere=True)
        return await self._decide(before, Decision(change.name, before.epoch + 1))

    async def _alone(self, change: SiteChange, before: Decision) -> Decision:
        if not change.other_lost:
            raise ValueError(
                "the other site does not answer, so nobody can see whether it is in use: stop its processes or cut them"
                " off from clients, then add --other-site-lost"
            )
        if change.name != change.own:
            raise ValueError(f"without the other site only this one, {change.own}, can be activated")
        if before.active == change.name:  # running processes go on by the same epoch, others may begin
            return await self._decide(before, Decision(change.name, before.epoch, alone=True))
        await self._wait_for_end(before.epoch + 1, everywhere=False)
        return await self._decide(before, Decision(change.name, before.epoch + 1, alone=True))

    async def _wait_for_end(self, epoch: int, *, everywhere: bool) -> None:
        """Until no process shows that it acts by an earlier decision."""
        left: list[str] = []
        for _ in range(round(FINISH_S_MAX / POLL_INTERVAL_S)):
            view = await self._store.view() if everywhere else View(await self._store.decision(), reachable=False)
            if everywhere and not view.reachable:
                raise ValueError("the other site does not answer any more: run the command again")
            left = [one.site for one in view.decision.processes if one.epoch < epoch]
            if not left:
                return
            await asyncio.sleep(POLL_INTERVAL_S)
        raise ValueError(f"{len(left)} processes of {left[0]} do not end their work: stop them, and run this again")

    async def _decide(self, before: Decision, after: Decision) -> Decision:
        if not await self._store.decide(before.epoch, after):
            raise ValueError("another command changed the active site at the same time: run `cns site show`")
        return after
