"""The contract of leases for every lease store, and maintenance under a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from cns_backend.stores.contract import LeaseStore
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_common.clock import Clock
from cns_workers.background.maintenance import EVERYTHING, LEASE_MS, ROWS_PER_STEP, TASK, Maintenance

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


class MaintainedStore:
    """Replaces the maintained store; counts concurrent runs."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.concurrent = 0
        self.concurrent_max = 0

    async def maintain(self, budget: int, now_ms: int) -> int:
        self.concurrent += 1
        self.concurrent_max = max(self.concurrent, self.concurrent_max)
        await asyncio.sleep(0)
        done = min(self.rows, budget)
        self.rows -= done
        self.concurrent -= 1
        return done

    async def sweep(self, now_ms: int, limit: int) -> int:
        return 0


def maintenance(store: MaintainedStore, leases: LeaseStore) -> Maintenance:
    return Maintenance([store], [], leases, Clock())  # type: ignore[list-item]  # it has what is used


async def test_two_workers_never_clear_at_once(leases: LeaseStore) -> None:
    store = MaintainedStore(3 * ROWS_PER_STEP + 1)
    assert await asyncio.gather(*(maintenance(store, leases).run() for _ in range(2))) == [3 * ROWS_PER_STEP + 1, None]
    assert (store.rows, store.concurrent_max) == (0, 1)
    assert await maintenance(store, leases).run() == 0, "the lease was given back"


async def test_who_loses_the_lease_stops(leases: LeaseStore) -> None:
    store = MaintainedStore(3 * ROWS_PER_STEP)
    run = asyncio.create_task(maintenance(store, leases).run())
    while store.rows == 3 * ROWS_PER_STEP or store.concurrent:
        await asyncio.sleep(0)
    assert await leases.take(TASK, EVERYTHING, "another", LEASE_MS, Clock().now_ms() + LEASE_MS)
    assert await run == ROWS_PER_STEP
