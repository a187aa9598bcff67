"""What processes of a cluster tell one another through Cassandra, and its leases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from cns_backend.stores.cassandra.control import CassandraControl, check_master_key
from cns_backend.stores.cassandra.leases import CassandraLeaseStore
from cns_backend.stores.contract import REPORT_LIFE_S, Report
from cns_common.cassandra.session import Cassandra, CassandraAddress
from cns_common.clock import Clock
from cns_common.errors import StartError
from cns_common.metrics.catalogue import QUARANTINE_JOBS
from cns_common.sealing import Seal
from tests.keyspace import emptied

REPORT = Report("worker-1", "worker", ("consumer",), (QUARANTINE_JOBS.sample(2),))


@pytest.fixture
async def cassandra(cassandra_address: CassandraAddress) -> AsyncIterator[Cassandra]:
    async with emptied(cassandra_address) as cassandra:
        yield cassandra


async def nobody_is_told(_offset_ms: int) -> None:
    """There is one process."""


async def test_every_advance_of_the_clock_counts(cassandra: Cassandra) -> None:
    told: list[int] = []

    async def tell(offset_ms: int) -> None:
        told.append(offset_ms)

    controls = [CassandraControl(cassandra, Clock(), tell) for _ in range(2)]
    assert await controls[0].clock_offset_ms() == 0
    await asyncio.gather(*[controls[number % 2].advance_clock(1_000) for number in range(4)])
    assert await controls[1].clock_offset_ms() == 4_000
    assert sorted(told) == [1_000, 2_000, 3_000, 4_000]


async def test_reports_are_seen_by_all_and_end_by_themselves(cassandra: Cassandra) -> None:
    control = CassandraControl(cassandra, Clock(), nobody_is_told)
    assert (await control.state()).reports == ()
    await control.report(REPORT)
    state = await control.state()
    (report,) = state.reports
    assert (state.store_failure, report.failing, report.samples) == ("", REPORT.failing, REPORT.samples)
    assert report.process.endswith("/worker-1")
    ((life_s,),) = await cassandra.run_schema("SELECT TTL(report) FROM process_reports")
    assert 0 < life_s <= REPORT_LIFE_S


async def test_a_process_that_ends_is_not_counted_on_any_more(cassandra: Cassandra) -> None:
    control = CassandraControl(cassandra, Clock(), nobody_is_told)
    for process in ("worker-1", "worker-2"):
        await control.report(replace(REPORT, process=process))
    await control.retire("worker-1")
    (report,) = (await control.state()).reports
    assert report.process.endswith("/worker-2")


async def test_a_process_with_another_master_key_does_not_start(cassandra: Cassandra) -> None:
    await check_master_key(cassandra, Seal(b"1" * 32))
    await check_master_key(cassandra, Seal(b"1" * 32))
    with pytest.raises(StartError, match="master key"):
        await check_master_key(cassandra, Seal(b"2" * 32))


async def test_a_lease_is_held_by_one_until_it_runs_out(cassandra: Cassandra) -> None:
    leases = CassandraLeaseStore(cassandra)
    taken = await asyncio.gather(*[leases.take("sweep", "", holder, 10, 100) for holder in "abcd"])
    assert taken.count(True) == 1
    holder = "abcd"[taken.index(True)]
    assert not await leases.take("sweep", "", "other", 10, 109)
    assert await leases.take("sweep", "", holder, 10, 109)
    assert await leases.take("sweep", "2", "other", 10, 109)
    await leases.give_back("sweep", "", "other")
    assert not await leases.take("sweep", "", "other", 10, 118)
    assert await leases.take("sweep", "", "other", 10, 119)
    await leases.give_back("sweep", "", "other")
    assert await leases.take("sweep", "", holder, 10, 119)
