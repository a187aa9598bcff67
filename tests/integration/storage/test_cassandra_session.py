"""The Cassandra session when a contact point's name resolves to a new address, as with containers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.errors import CnsError

_LOOK = Statement("SELECT generation FROM cqs_queues WHERE queue = ?")
TRIES = 100


@pytest.mark.extended
async def test_a_node_at_a_new_address_is_found(cassandra_address: CassandraAddress) -> None:
    session = await Cassandra.open(cassandra_address)
    assert await session.run(_LOOK, "none") == []
    gone = session._connection
    session._connection = replace(gone, addresses=frozenset({"192.0.2.1"}))
    await asyncio.to_thread(gone.cluster.shutdown)
    with pytest.raises(CnsError):
        await session.run(_LOOK, "none")
    assert await _wait_for_answer(session) == []
    await session.close()


async def _wait_for_answer(session: Cassandra) -> object:
    for _ in range(TRIES):
        try:
            return await session.run(_LOOK, "none")
        except CnsError:
            await asyncio.sleep(0.05)
    raise AssertionError("it does not answer again")
