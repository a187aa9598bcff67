"""An account is known to every API process of a cluster as soon as it is made, whether or not they heard of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cns_backend import cache_invalidation
from cns_backend.backend import Backend
from cns_backend.cluster import open_cluster_backend
from cns_common.aws.auth.access_keys import new_key
from cns_common.cassandra.connection import CassandraAddress
from cns_server.api import Api
from lab.harness.keyspace import emptied
from tests.integration.cqs.door import HttpDoor, listen_on_free_port
from tests.integration.errors.api_forms import cluster_settings


@asynccontextmanager
async def _process(directory: Path, place: CassandraAddress) -> AsyncIterator[tuple[Backend, HttpDoor]]:
    """An API process without Redis: no announcement reaches it."""
    settings = cluster_settings(directory, place)
    async with open_cluster_backend(settings) as backend:
        api = await Api.build(settings, backend)
        async with listen_on_free_port(api.front) as port:
            yield backend, HttpDoor(api.front, backend.clock, port)


async def test_a_new_account_is_known_to_every_process(
    tmp_path: Path, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do the processes learn of it by the age of their keys, which would hide on a slow machine what is wrong."""
    monkeypatch.setattr(cache_invalidation, "CACHE_AGE_S", 3_600.0)
    async with (
        emptied(cassandra_address),
        _process(tmp_path / "a", cassandra_address) as (backend, here),
        _process(tmp_path / "b", cassandra_address) as (_, there),
    ):
        key = await backend.accounts.create(backend.clock.real_ms())
        for door in (there, here):
            assert (await door.query("ListQueues", key=key)).status == 200
        refused = await there.query("ListQueues", key=new_key(key.account, 0))
        assert refused.query_fault[:2] == (403, "InvalidClientTokenId")
