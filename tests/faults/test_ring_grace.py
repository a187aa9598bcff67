"""A node that missed deletes for longer than `gc_grace_seconds`: on its old data it brings deleted messages back;
emptied and replaced, as docs/operations/cluster.md says, it does not. Run by `make test-ring`."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.cassandra.session import Cassandra, Statement
from cqs.engines.contract import Message, Outcome, QueueRef
from lab.harness.ring_engine import Place, Process, make_keyspace, process
from lab.harness.servers import Ring
from tests.conformance.support import QueueFixture, bodies, numbered

MESSAGES = 20
KEPT = b"kept"
GRACE_S = 1
AWAY, OTHERS = 3, (1, 2)
"""Numbers of nodes."""
POLL_INTERVAL_S = 0.2
RECEIVED_S = 1_200.0
"""Less than a lease."""
NOW = Statement("SELECT toUnixTimestamp(now()) FROM system.local")

pytestmark = pytest.mark.ring


async def _send(user: Process) -> QueueFixture:
    queue = QueueFixture(user.engine, user.clock)
    await queue.send(*numbered(MESSAGES))
    await queue.send(KEPT)
    return queue


async def _delete_all_but_kept(queue: QueueFixture) -> None:
    taken: list[Message] = []
    async with asyncio.timeout(RECEIVED_S):
        while len(taken) < MESSAGES + 1:  # an empty receive does not say that no message is left
            queue.now_ms = queue.clock.now_ms()
            taken += await queue.drain()
    for message in taken:
        if message.body != KEPT:
            assert await queue.delete(message) == [Outcome.DONE]


async def _pass_grace(cassandra: Cassandra) -> None:
    """Wait until Cassandra's clock says that what was deleted before may be forgotten."""
    begin_ms = (await cassandra.run(NOW))[0][0]
    while (await cassandra.run(NOW))[0][0] < begin_ms + (GRACE_S + 2) * 1000:
        await asyncio.sleep(POLL_INTERVAL_S)


async def _forget_deletes(ring: Ring, keyspace: str) -> None:
    """Remove the tombstones, as compactions do in time."""
    for node in OTHERS:
        await asyncio.to_thread(ring.nodetool, node, "flush", keyspace)
        await asyncio.to_thread(ring.nodetool, node, "compact", keyspace, "cqs_messages")


async def _left(place: Place, q: QueueRef) -> list[bytes]:
    """The messages that a new process finds."""
    async with process(place) as user:
        queue = QueueFixture(user.engine, user.clock)
        queue.q = q
        return sorted(bodies(await queue.peek_all()))


@pytest.mark.parametrize(("back", "comes_back"), [("restart", numbered(MESSAGES)), ("replace", [])])
async def test_a_node_that_was_away_beyond_the_grace(ring: Ring, back: str, comes_back: list[bytes]) -> None:
    keyspace = await make_keyspace(ring)
    place = Place(keyspace)
    async with process(place) as user:
        await user.cassandra.run_schema(f"ALTER TABLE cqs_messages WITH gc_grace_seconds = {GRACE_S}")
        queue = await _send(user)
        await asyncio.to_thread(ring.nodetool, AWAY, "flush", keyspace.keyspace)
        await asyncio.to_thread(ring.kill, AWAY)
        try:
            await _delete_all_but_kept(queue)
            assert await _left(place, queue.q) == [KEPT]
            await _pass_grace(user.cassandra)
            await _forget_deletes(ring, keyspace.keyspace)
        finally:
            await asyncio.to_thread(ring.restart if back == "restart" else ring.replace, AWAY)
        await asyncio.to_thread(ring.nodetool, AWAY, "repair", "-full", keyspace.keyspace)
        assert await _left(place, queue.q) == sorted([*comes_back, KEPT])
