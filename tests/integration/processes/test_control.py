"""The clock, reports and leases that processes of a cluster share through Cassandra."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from cns_backend.stores.cassandra.control import CassandraControl, check_master_key
from cns_backend.stores.cassandra.leases import CassandraLeaseStore
from cns_backend.stores.contract import REPORT_LIFE_S, ProcessReport
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import StartError
from cns_common.metrics.catalogue import QUARANTINE_JOBS
from cns_common.sealing import Seal

REPORT = ProcessReport("worker-1", "worker", ("consumer",), (QUARANTINE_JOBS.sample(2),))


async def announce_to_nobody(_offset_ms: int) -> None:
    """There is only one process."""


async def test_every_advance_of_the_clock_counts(cassandra: Cassandra) -> None:
    announced: list[int] = []

    async def announce(offset_ms: int) -> None:
        announced.append(offset_ms)

    controls = [CassandraControl(cassandra, Clock(), announce) for _ in range(2)]
    assert await controls[0].clock_offset_ms() == 0
    await asyncio.gather(*[controls[number % 2].advance_clock(1_000) for number in range(4)])
    assert await controls[1].clock_offset_ms() == 4_000
    assert sorted(announced) == [1_000, 2_000, 3_000, 4_000]


async def test_owners_are_found_in_each_index(cassandra: Cassandra) -> None:
    control = CassandraControl(cassandra, Clock(), announce_to_nobody)
    assert await control.owners() == []
    indexes = {
        "1": "queues_of_account(account, region, name, id)",
        "2": "topics_of_account(account, region, arn, id)",
        "3": "applications_of_account(account, region, arn, id)",
    }
    for account, index in indexes.items():
        await cassandra.run_schema(f"INSERT INTO {index} VALUES ('{account}', 'r', 'n', 'i')")
    assert await control.owners() == ["1", "2", "3"]


async def test_reports_are_shared_and_expire(cassandra: Cassandra) -> None:
    control = CassandraControl(cassandra, Clock(), announce_to_nobody)
    assert (await control.state()).reports == ()
    await control.report(REPORT)
    state = await control.state()
    (report,) = state.reports
    assert (state.store_failure, report.failing, report.samples) == ("", REPORT.failing, REPORT.samples)
    assert report.process.endswith("/worker-1")
    ((life_s,),) = await cassandra.run_schema("SELECT TTL(report) FROM process_reports")
    assert 0 < life_s <= REPORT_LIFE_S


async def test_the_report_of_a_process_that_ends_is_removed(cassandra: Cassandra) -> None:
    control = CassandraControl(cassandra, Clock(), announce_to_nobody)
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


async def test_a_lease_has_one_holder_until_it_expires(cassandra: Cassandra) -> None:
    leases = CassandraLeaseStore(cassandra)
    results = await asyncio.gather(*[leases.take("sweep", "", holder, 10, 100) for holder in "abcd"])
    assert results.count(True) == 1
    holder = "abcd"[results.index(True)]
    assert not await leases.take("sweep", "", "other", 10, 109)
    assert await leases.take("sweep", "", holder, 10, 109)
    assert await leases.take("sweep", "2", "other", 10, 109)
    await leases.give_back("sweep", "", "other")
    assert not await leases.take("sweep", "", "other", 10, 118)
    assert await leases.take("sweep", "", "other", 10, 119)
    await leases.give_back("sweep", "", "other")
    assert await leases.take("sweep", "", holder, 10, 119)
