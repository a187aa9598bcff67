"""The sites of tests of a keyspace that two data centres share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cns_common.cassandra.connection import CassandraAddress
from lab.harness.keyspace import emptied
from tests.integration.storage.two_sites import Site


@pytest.fixture
async def site(cassandra_address: CassandraAddress) -> AsyncIterator[Site]:
    async with emptied(cassandra_address) as cassandra:
        site = Site(cassandra, cassandra_address.keyspace)
        await site.begin()
        yield site
