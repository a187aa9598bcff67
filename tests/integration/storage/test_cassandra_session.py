"""The Cassandra session: its sockets, and a contact point whose name resolves to a new address, as with containers."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.errors import CnsError, StoreUnavailable

_LOOK = Statement("SELECT generation FROM cqs_queues WHERE queue = ?")
_WRITE = Statement("DELETE FROM cqs_queues WHERE queue = ?")
_DECIDE = Statement("DELETE FROM cqs_queues WHERE queue = ? IF EXISTS", idempotent=False)
_SCAN = Statement("SELECT queue FROM cqs_queues")
_HERE = "SELECT key FROM system.local"
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


async def test_a_process_that_is_away_sends_nothing(cassandra_address: CassandraAddress) -> None:
    session = await Cassandra.open(cassandra_address)
    session.is_away = lambda: True

    async def scan() -> None:
        async for _ in session.scan(_SCAN):
            pass

    for sending in (
        session.run(_LOOK, "none"),
        session.run_each(_LOOK, [["none"], ["no other"]]),
        session.run_conditional(_DECIDE, "none"),
        session.run_batch([(_WRITE, ["none"])], logged=True),
        session.run_conditional_batch([(_DECIDE, ["none"])]),
        session.run_on_each_node(_HERE),
        session.run_schema(_HERE),
        scan(),
    ):
        with pytest.raises(StoreUnavailable, match="was stopped or cut off"):
            await sending
    assert session.statements == 0
    await session.close()
