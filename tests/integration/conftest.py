"""A queue service and a notification service over embedded stores, on a clock that only tests advance."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from lab.harness.keyspace import emptied, own_keyspace, quick_sessions
from lab.harness.own_redis import OwnRedis
from tests.conformance.drivers import ON_CASSANDRA
from tests.integration.cqs.door import Door, open_door
from tests.integration.cqs.sqs import Sqs, open_sqs
from tests.integration.cqs.sqs_wire import Wire, Wires
from tests.machine_clocks import MachineClocks


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `extended` all tests on Cassandra but the first of each file and those marked with `slice`."""
    begun: set[Path] = set()
    for item in items:
        if not _is_on_cassandra(item) or item.get_closest_marker("slice") or item.get_closest_marker("extended"):
            continue
        if item.path in begun:
            item.add_marker(pytest.mark.extended)
        begun.add(item.path)


def _is_on_cassandra(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    on_cassandra = {"cassandra", *ON_CASSANDRA}
    return "cassandra_address" in item.fixturenames or any(str(value) in on_cassandra for value in parameters)


@pytest.fixture(scope="session", autouse=True)
def sessions_are_quick() -> Iterator[None]:
    with quick_sessions():
        yield


@pytest.fixture(scope="session")
def cassandra_address() -> CassandraAddress:
    return own_keyspace()


@pytest.fixture
async def cassandra(cassandra_address: CassandraAddress) -> AsyncIterator[Cassandra]:
    """A session on an empty keyspace."""
    async with emptied(cassandra_address) as cassandra:
        yield cassandra


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    running = OwnRedis(tmp_path)
    running.start()
    yield running
    running.kill()


@pytest.fixture
def still_clock() -> Clock:
    return MachineClocks(time.time_ns()).clock()


@pytest.fixture
def recreate_wait_s() -> int:
    return 60


@pytest.fixture
async def sqs(tmp_path: Path, still_clock: Clock, recreate_wait_s: int) -> AsyncIterator[Sqs]:
    async with open_sqs(tmp_path, still_clock, recreate_wait_s=recreate_wait_s) as sqs:
        yield sqs


@pytest.fixture
async def door(sqs: Sqs) -> AsyncIterator[Door]:
    async with open_door(sqs) as door:
        yield door


@pytest.fixture(params=["json", "query"])
def wire(request: pytest.FixtureRequest, door: Door) -> Wire:
    """The service of `sqs`, spoken to in one protocol after the other."""
    return Wire(door, request.param)


@pytest.fixture
def wires(door: Door) -> Wires:
    return Wires(door)
