"""Wanted sizes of delivery pools: what the stores keep, and how a worker follows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cns.endpoints.contract import Senders
from cns_backend.stores.cassandra.pool_sizes import CassandraPoolSizeStore
from cns_backend.stores.contract import BY_SETTING, EVERY_WORKER, PoolSize, PoolSizeStore, PoolState
from cns_backend.stores.embedded.pool_sizes import EmbeddedPoolSizeStore
from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cns_common.sqlite.database import Database
from cns_workers.delivery.pool.pool import DeliveryPool
from cns_workers.delivery.pool.resize import PoolResizer
from lab.harness.keyspace import emptied
from lab.harness.waiting import PATIENCE_S
from tests.integration.sns.stores.cns_stores import from_afar

HERE = "here/worker-1"


def size(pool: str, worker: str, threads: int) -> PoolSize:
    return PoolSize(pool=pool, worker=worker, threads=threads, set_by="ann@desk", set_at_ms=5)


ALL = size("delivery", EVERY_WORKER, 8)
ONE = size("delivery", HERE, 3)
OTHER = size("delivery", "there/worker-1", 4)
AGAIN = size("redelivery", EVERY_WORKER, 2)


@asynccontextmanager
async def embedded(directory: Path) -> AsyncIterator[PoolSizeStore]:
    database = Database(directory, Clock())
    store = EmbeddedPoolSizeStore(database)
    database.start(asyncio.get_running_loop())
    yield store
    await database.close()


@pytest.fixture(params=["embedded", "remote", "cassandra"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PoolSizeStore]:
    if request.param == "cassandra":
        place: CassandraAddress = request.getfixturevalue("cassandra_address")
        async with emptied(place) as cassandra:
            yield CassandraPoolSizeStore(cassandra)
        return
    async with embedded(tmp_path) as store:
        if request.param == "embedded":
            yield store
            return
        async with from_afar({"sizes": PoolSizeStore}, {"sizes": store}, tmp_path / "socket") as proxies:
            yield proxies["sizes"]


async def test_sizes_are_kept_by_pool_and_worker(store: PoolSizeStore) -> None:
    assert await store.all() == []
    for each in (AGAIN, ALL, OTHER, ONE):
        await store.put(each)
    assert await store.all() == [ALL, ONE, OTHER, AGAIN]
    await store.put(size("delivery", HERE, 9))
    await store.remove("delivery", OTHER.worker)
    await store.remove("redelivery", OTHER.worker)
    assert await store.all() == [ALL, size("delivery", HERE, 9), AGAIN]


async def test_one_for_all_is_in_place_of_those_of_single_workers(store: PoolSizeStore) -> None:
    for each in (ONE, OTHER, AGAIN, ALL):
        await store.put(each)
    assert await store.all() == [ALL, AGAIN]
    await store.put(ONE)
    await store.remove("delivery", EVERY_WORKER)
    assert await store.all() == [AGAIN]
    await store.put(ALL)
    assert await store.all() == [ALL, AGAIN]


async def test_sizes_outlive_the_store_host(tmp_path: Path) -> None:
    async with embedded(tmp_path) as store:
        await store.put(ALL)
    async with embedded(tmp_path) as store:
        assert await store.all() == [ALL]


# -- the worker -------------------------------------------------------------------------------------------------------


class UnavailableStore:
    """A store that may not answer."""

    def __init__(self, store: PoolSizeStore) -> None:
        self._store = store
        self.away = False
        self.meanwhile: Callable[[], None] = lambda: None

    async def put(self, size: PoolSize) -> None:
        await self._there().put(size)

    async def remove(self, pool: str, worker: str) -> None:
        await self._there().remove(pool, worker)

    async def all(self) -> list[PoolSize]:
        sizes = await self._there().all()
        self.meanwhile()
        return sizes

    def _there(self) -> PoolSizeStore:
        if self.away:
            raise StoreUnavailable("away")
        return self._store


class Worker:
    def __init__(self, store: PoolSizeStore) -> None:
        self.store = store
        self.sizes = UnavailableStore(store)
        self.pools = {name: DeliveryPool(name, threads, lambda: Senders({})) for name, threads in SETTINGS.items()}
        self.resizer = PoolResizer(HERE, self.pools, self.sizes, Clock())

    def state(self, pool: str = "delivery") -> PoolState:
        return next(state for state in self.resizer.states() if state.pool == pool)

    async def look(self) -> tuple[int, int, str]:
        """Threads, wanted threads, and by whom, after it has looked."""
        await self.resizer.apply_stored()
        state = self.state()
        return state.threads, state.wanted, state.set_by


SETTINGS = {"delivery": 2, "redelivery": 1}


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[Worker]:
    async with embedded(tmp_path) as store:
        worker = Worker(store)
        yield worker
        for pool in worker.pools.values():
            await pool.close(PATIENCE_S)


async def test_a_worker_follows_what_is_wanted_and_falls_back(worker: Worker) -> None:
    await worker.store.put(ONE)  # from an earlier process of this name
    assert await worker.look() == (2, 2, BY_SETTING)
    await worker.store.put(OTHER)
    assert await worker.look() == (2, 2, BY_SETTING)
    await worker.store.put(ALL)
    assert await worker.look() == (8, 8, "ann@desk")
    await worker.store.put(ONE)
    assert await worker.look() == (3, 3, "ann@desk")
    await worker.store.remove("delivery", HERE)
    assert await worker.look() == (8, 8, "ann@desk")
    await worker.store.remove("delivery", EVERY_WORKER)
    assert await worker.look() == (2, 2, BY_SETTING)
    assert worker.state("redelivery").threads == 1


async def test_a_worker_that_is_told_itself_needs_no_store(worker: Worker) -> None:
    await worker.store.put(ALL)
    await worker.look()
    worker.sizes.away = True
    worker.resizer.resize("delivery", 5, "celery control")
    assert worker.state().threads == 5
    with pytest.raises(StoreUnavailable):
        await worker.resizer.apply_stored()
    assert worker.state().threads == 5
    worker.sizes.away = False
    assert await worker.look() == (5, 5, "celery control")
    (_, own) = await worker.store.all()
    assert (own.worker, own.threads) == (HERE, 5)
    await worker.store.put(ALL)  # the latest command for all processes counts
    assert await worker.look() == (8, 8, "ann@desk")


async def test_what_a_worker_is_told_while_it_looks_stands(worker: Worker) -> None:
    worker.sizes.meanwhile = lambda: worker.resizer.resize("delivery", 5, "celery control")
    assert await worker.look() == (5, 5, "celery control")
    worker.sizes.meanwhile = lambda: None
    assert await worker.look() == (5, 5, "celery control")
