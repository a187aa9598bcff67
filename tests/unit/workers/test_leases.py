"""The contract of leases, over every store of them, and maintenance under one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from cns_backend.stores.contract import LeaseStore
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_common.clock import Clock
from workers.background.maintenance import EVERYTHING, LEASE_MS, ROWS_PER_STEP, TASK, Maintenance

STORES: dict[str, Callable[[], LeaseStore]] = {"embedded": EmbeddedLeaseStore}
NOW_MS = 1_000_000


@pytest.fixture(params=STORES)
def leases(request: pytest.FixtureRequest) -> LeaseStore:
    return STORES[request.param]()


async def test_one_holder_at_a_time(leases: LeaseStore) -> None:
    assert await leases.take("t", "p", "a", 100, NOW_MS)
    assert not await leases.take("t", "p", "b", 100, NOW_MS)
    assert await leases.take("t", "other part", "b", 100, NOW_MS)
    assert await leases.take("other task", "p", "b", 100, NOW_MS)


async def test_the_holder_may_hold_it_for_longer(leases: LeaseStore) -> None:
    assert await leases.take("t", "p", "a", 100, NOW_MS)
    assert await leases.take("t", "p", "a", 100, NOW_MS + 90)
    assert not await leases.take("t", "p", "b", 100, NOW_MS + 189)
    assert await leases.take("t", "p", "b", 100, NOW_MS + 190)
    assert not await leases.take("t", "p", "a", 100, NOW_MS + 190), "who was too late has lost it"


async def test_only_the_holder_gives_back(leases: LeaseStore) -> None:
    assert await leases.take("t", "p", "a", 100, NOW_MS)
    await leases.give_back("t", "p", "b")
    assert not await leases.take("t", "p", "b", 100, NOW_MS)
    await leases.give_back("t", "p", "a")
    assert await leases.take("t", "p", "b", 100, NOW_MS)


class Site:
    """Stands for all that is cleared; tells how many are at it."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.at_it = 0
        self.at_it_max = 0

    async def maintain(self, budget: int, now_ms: int) -> int:
        self.at_it += 1
        self.at_it_max = max(self.at_it, self.at_it_max)
        await asyncio.sleep(0)
        done = min(self.rows, budget)
        self.rows -= done
        self.at_it -= 1
        return done

    async def sweep(self, now_ms: int, limit: int) -> int:
        return 0


def maintenance(site: Site, leases: LeaseStore) -> Maintenance:
    return Maintenance([site], [], leases, Clock())  # type: ignore[list-item]  # it has what is used


async def test_two_workers_never_clear_at_once(leases: LeaseStore) -> None:
    site = Site(3 * ROWS_PER_STEP + 1)
    assert await asyncio.gather(*(maintenance(site, leases).run() for _ in range(2))) == [3 * ROWS_PER_STEP + 1, None]
    assert (site.rows, site.at_it_max) == (0, 1)
    assert await maintenance(site, leases).run() == 0, "the lease was given back"


async def test_who_loses_the_lease_stops(leases: LeaseStore) -> None:
    site = Site(3 * ROWS_PER_STEP)
    run = asyncio.create_task(maintenance(site, leases).run())
    while site.rows == 3 * ROWS_PER_STEP or site.at_it:
        await asyncio.sleep(0)
    assert await leases.take(TASK, EVERYTHING, "another", LEASE_MS, Clock().now_ms() + LEASE_MS)
    assert await run == ROWS_PER_STEP
