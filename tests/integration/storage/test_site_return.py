"""A site that was away is not activated before it has what it lacks, by Cassandra's record of repairs."""

from __future__ import annotations

import pytest

from cns_backend.schema import table_names
from cns_backend.sites import store as site_store
from cns_backend.sites.gaps import GRACE_MS, HINTED_MS, TOKEN_MIN
from cns_backend.sites.membership import SiteMembership
from cns_backend.sites.operator import SiteChange
from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from tests.integration.storage.two_sites import TO_DC2, Site


@pytest.fixture
def gaps_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_store, "GAP_MS", 0)


async def _refusal(site: Site, change: SiteChange = TO_DC2) -> str:
    with pytest.raises(ValueError, match="site dc2 may lack writes that were accepted from") as refused:
        await site.operator.activate(change)
    assert await site.active() == "dc1"
    return str(refused.value)


@pytest.mark.usefixtures("gaps_end_at_once")
async def test_a_site_that_was_away_is_activated_after_a_whole_repair(
    site: Site, cassandra_address: CassandraAddress
) -> None:
    await site.store.extend_gap("dc2", 1, None)
    gap = await site.operator.lacking("dc2", everywhere=True)
    assert gap is not None
    tables, half = table_names(), f"({TOKEN_MIN},0]"
    assert f"nodetool repair -full {cassandra_address.keyspace}" in await _refusal(site)
    await site.record_repair(tables, [f"({TOKEN_MIN},{TOKEN_MIN}]"], gap.since_ms - 10_000)  # before the site came back
    assert f"of {len(tables)} tables" in await _refusal(site)
    await site.record_repair(tables, [half], gap.until_ms)
    assert f"of {len(tables)} tables" in await _refusal(site)
    await site.record_repair(tables[1:], [f"(0,{TOKEN_MIN}]"], gap.until_ms)
    assert f"of 1 tables, for example {tables[0]}" in await _refusal(site)
    await site.record_repair(tables[:1], [f"(0,{TOKEN_MIN}]"], gap.until_ms)
    assert (await site.operator.activate(TO_DC2)).active == "dc2"
    assert await site.operator.lacking("dc2", everywhere=True) is None


async def test_the_gap_must_have_ended(site: Site) -> None:
    await site.store.extend_gap("dc2", 1, None)
    assert "still goes on" in await _refusal(site)


@pytest.mark.usefixtures("gaps_end_at_once")
async def test_a_repair_does_not_mend_an_absence_beyond_the_grace(site: Site) -> None:
    since_ms = await site.store.now_ms() - 2 * GRACE_MS  # before the repairs of other tests, which are recent
    await site.record_gap(since_ms, since_ms + HINTED_MS + 1)
    await site.record_repair(table_names(), [f"({TOKEN_MIN},{TOKEN_MIN}]"], await site.store.now_ms())
    assert "replace them" in await _refusal(site)
    assert (await site.operator.activate(TO_DC2._replace(repaired=True))).active == "dc2"


async def test_a_short_absence_may_be_repaired_at_any_time(site: Site) -> None:
    since_ms = await site.store.now_ms() - 20 * GRACE_MS
    await site.record_gap(since_ms, since_ms + HINTED_MS)
    await site.record_repair(table_names(), [f"({TOKEN_MIN},{TOKEN_MIN}]"], await site.store.now_ms())
    assert (await site.operator.activate(TO_DC2)).active == "dc2"


@pytest.mark.usefixtures("gaps_end_at_once")
async def test_without_the_other_site_a_person_decides(site: Site) -> None:
    await site.store.extend_gap("dc2", 1, None)
    site.store.reachable = False
    change = TO_DC2._replace(other_lost=True)
    assert "takes the Cassandra nodes of the other site" in await _refusal(site, change)
    decision = await site.operator.activate(change._replace(repaired=True))
    assert (decision.active, decision.alone) == ("dc2", True)


@pytest.mark.usefixtures("gaps_end_at_once")
async def test_the_former_site_is_active_again_if_the_new_one_misses_something_meanwhile(site: Site) -> None:
    site.store.away_at_change = True
    await _refusal(site)
    assert (await site.store.decision()).epoch == 3


async def test_a_process_records_a_gap_before_it_writes_without_the_other_site(site: Site) -> None:
    process = SiteMembership(site.store, Clock(), "dc1", "dc2", writes_each=True)
    await process.look()
    assert process.writes_everywhere
    assert await site.store.gaps("dc2", everywhere=False) == []
    site.store.reachable = False
    await process.look()
    assert not process.writes_everywhere
    (gap,) = await site.store.gaps("dc2", everywhere=False)
    other = SiteMembership(site.store, Clock(), "dc1", "dc2", writes_each=True)
    await other.look()
    assert other.acting.is_set()
    await process.renew()
    (grown,) = await site.store.gaps("dc2", everywhere=False)  # one gap for both processes
    assert grown.since_ms == gap.since_ms
    assert grown.until_ms > gap.until_ms
    for one in (process, other):
        await one.stand_by()
