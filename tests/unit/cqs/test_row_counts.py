"""Callers of a shard's counts share one scan of its rows; few scans run at one time."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.errors import StoreUnavailable
from cqs.engines.cluster.cache_contract import CacheCounts
from cqs.engines.cluster.ids import QueueShard
from cqs.engines.cluster.no_redis.counts import FallbackCounts
from cqs.engines.cluster.row_counts import SCANS_AT_ONCE, RowCounts

FOUND = CacheCounts(3, 0, 0)
MANY = 10 * SCANS_AT_ONCE


class Scans(FallbackCounts):
    """Each lasts until `go_on`."""

    def __init__(self) -> None:
        self.begun: list[QueueShard] = []
        self.go_on = asyncio.Event()
        self.fails = False

    async def counts(self, shard: QueueShard, now_ms: int) -> CacheCounts:
        self.begun.append(shard)
        await self.go_on.wait()
        if self.fails:
            raise StoreUnavailable("away")
        return FOUND


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_callers_of_a_shard_share_a_scan() -> None:
    scans, shard = Scans(), QueueShard("q")
    counts = RowCounts(scans)
    calls = [asyncio.create_task(counts.counts(shard, 0)) for _ in range(MANY)]
    await _settle()
    calls.pop().cancel()
    scans.go_on.set()
    assert {*await asyncio.gather(*calls)} == {FOUND}
    assert scans.begun == [shard]
    await counts.counts(shard, 0)
    assert len(scans.begun) == 2


async def test_few_scans_run_at_one_time_and_none_for_callers_that_left() -> None:
    scans = Scans()
    counts = RowCounts(scans)
    calls = [asyncio.create_task(counts.counts(QueueShard(f"{number}"), 0)) for number in range(MANY)]
    await _settle()
    assert len(scans.begun) == SCANS_AT_ONCE
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    joined = asyncio.create_task(counts.counts(scans.begun[0], 0))
    await _settle()
    assert len(scans.begun) == SCANS_AT_ONCE, "it shares the scan whose caller left"
    scans.go_on.set()
    assert await joined == FOUND
    await _settle()
    assert len(scans.begun) == SCANS_AT_ONCE
    await counts.counts(QueueShard("next"), 0)
    assert len(scans.begun) == SCANS_AT_ONCE + 1


async def test_a_failure_is_that_of_all_callers_and_of_no_later_one() -> None:
    scans, shard = Scans(), QueueShard("q")
    counts = RowCounts(scans)
    scans.fails = True
    scans.go_on.set()
    for failed in await asyncio.gather(*[counts.counts(shard, 0) for _ in range(2)], return_exceptions=True):
        assert isinstance(failed, StoreUnavailable)
    scans.fails = False
    assert await counts.counts(shard, 0) == FOUND


async def test_its_end_ends_the_scans() -> None:
    counts = RowCounts(Scans())
    call = asyncio.create_task(counts.counts(QueueShard("q"), 0))
    await _settle()
    await counts.close()
    with pytest.raises(asyncio.CancelledError):
        await call
