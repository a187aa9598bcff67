"""The Cassandra session: its sockets, and a contact point whose name resolves to a new address, as with containers."""

from __future__ import annotations

import asyncio
import socket
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


async def test_pieces_of_a_statement_do_not_wait_for_acknowledgements(cassandra_address: CassandraAddress) -> None:
    """A statement above 4 KiB would be 40 ms late."""
    session = await Cassandra.open(cassandra_address)
    holders = session._connection.cluster.get_connection_holders()
    sockets = [connection._socket for holder in holders for connection in holder.get_connections()]
    assert sockets
    assert all(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in sockets)
    await session.close()
