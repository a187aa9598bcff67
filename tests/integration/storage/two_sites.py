"""Site dc1 of a keyspace on one node; whether site dc2 answers is what the test says."""

from __future__ import annotations

from collections.abc import Sequence

from cns_backend.sites import schema
from cns_backend.sites.decision import DecisionView, SiteDecision
from cns_backend.sites.operator import SiteChange, SiteOperator
from cns_backend.sites.store import SiteStore
from cns_common.cassandra.session import Cassandra, Consistency, Statement

TO_DC2 = SiteChange("dc2", "dc2", other_lost=False, repaired=False)


class LinkedStore(SiteStore):
    """Whether the other site answers, and whether it is away for a moment at a change, is what the test says."""

    reachable = True
    away_at_change = False

    async def view(self) -> DecisionView:
        return DecisionView(await self.decision(), self.reachable)

    async def decide(self, before: int, after: SiteDecision) -> bool:
        if self.away_at_change and not after.active:
            await self.extend_gap("dc2", before, None)
        return await super().decide(before, after)


class Site:
    """Site dc1 is active by activation 1."""

    def __init__(self, cassandra: Cassandra, keyspace: str) -> None:
        self.store = LinkedStore(cassandra)
        self.operator = SiteOperator(self.store, keyspace)
        self._cassandra = cassandra
        self._keyspace = keyspace

    async def begin(self) -> None:
        await self.store.decide(0, SiteDecision("dc1", 1, alone=True))

    async def active(self) -> str:
        return (await self.store.decision()).active

    async def record_gap(self, since_ms: int, until_ms: int) -> None:
        now_us = await self.store.now_ms() * 1000
        await self._cassandra.run(schema.EXTEND_GAP, "dc2", 1, since_ms, until_ms, now_us)

    async def record_repair(self, tables: Sequence[str], ranges: Sequence[str], after_ms: int) -> None:
        """As `nodetool repair -full` does."""
        options = "{'incremental': 'false', 'dataCenters': '', 'hosts': '', 'forceRepair': 'false'}"
        text = (
            "INSERT INTO system_distributed.parent_repair_history (parent_id, keyspace_name, columnfamily_names,"
            f" started_at, finished_at, successful_ranges, options) VALUES (now(), '{self._keyspace}', {_set(tables)},"
            f" {after_ms + 1}, {after_ms + 2}, {_set(ranges)}, {options})"
        )
        await self._cassandra.run(Statement(text, consistency=Consistency.ANYWHERE))


def _set(texts: Sequence[str]) -> str:
    return "{" + ", ".join(f"'{text}'" for text in texts) + "}"
