"""A queue service over the embedded engine and a real database, on a clock that tests advance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from common.cassandra import Place
from common.clock import Clock
from common.sqlite import Database
from cqs.service import QueueService
from cqs.stores.embedded import EmbeddedQueueStore
from tests.integration.sqs import Sqs, WatchedEngine
from tests.keyspace import keyspace
from tests.own_redis import OwnRedis


@pytest.fixture(scope="session")
def cassandra_place() -> Iterator[Place]:
    with keyspace() as place:
        yield place


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    running = OwnRedis(tmp_path)
    running.start()
    yield running
    running.kill()


@pytest.fixture
def recreate_wait_s() -> int:
    return 60


@pytest.fixture
async def sqs(tmp_path: Path, recreate_wait_s: int) -> AsyncIterator[Sqs]:
    clock = Clock()
    database = Database(tmp_path, clock)
    store = EmbeddedQueueStore(database)
    engine = WatchedEngine(database, clock)
    database.start(asyncio.get_running_loop())
    service = QueueService(store, {"embedded": engine}, clock, recreate_wait_s=recreate_wait_s)
    await service.start()
    yield Sqs(service, clock, store, engine)
    await database.close()
