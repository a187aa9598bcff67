"""A notification service called directly and by its wire, and the stores below it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.limits import Quotas
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from tests.integration.sns.cns_support import Rig, open_rig
from tests.integration.sns.sns_door import SnsDoor, open_sns_door
from tests.integration.sns.stores.cns_stores import Stores, open_cassandra, open_stores_for


@pytest.fixture
async def rig(tmp_path: Path, still_clock: Clock) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, still_clock, Quotas()) as rig:
        yield rig


@pytest.fixture
async def sns(rig: Rig) -> AsyncIterator[SnsDoor]:
    """The notification service behind its door."""
    async with open_sns_door(rig) as door:
        yield door


@pytest.fixture
async def topic(rig: Rig) -> str:
    return await rig.topic()


@pytest.fixture(params=["embedded", "remote", "cassandra"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    async with open_stores_for(request, tmp_path) as stores:
        yield stores


@pytest.fixture(params=["embedded", "remote"])
async def swept_stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    """The drivers whose rows have no time to live."""
    async with open_stores_for(request, tmp_path) as stores:
        yield stores


@pytest.fixture
async def cassandra_stores(cassandra_address: CassandraAddress) -> AsyncIterator[Stores]:
    async with open_cassandra(cassandra_address) as stores:
        yield stores


@pytest.fixture
async def session(cassandra_address: CassandraAddress) -> AsyncIterator[Cassandra]:
    """The session of another process."""
    session = await Cassandra.open(cassandra_address)
    yield session
    await session.close()
