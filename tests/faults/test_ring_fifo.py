"""A FIFO queue on a ring of three nodes of which one hangs: no call waits for it. Run by `make test-ring`."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.cassandra import session
from cqs.engines.contract import Outcome
from lab.harness.ring_engine import Place, make_keyspace, process
from lab.harness.servers import Ring
from tests.conformance.support import QueueFixture

QUEUES = 6
"""Their logs have different first replicas."""
MESSAGES = 20
DEAD_NODE_S = 2.0
"""The time that a node without an answer may cost a statement."""

pytestmark = pytest.mark.ring


async def _use(queue: QueueFixture) -> None:
    """Send, receive and delete one message after another; each comes once and in its turn."""
    for number in range(MESSAGES):
        body = b"%d" % number
        await queue.send(body, group="g")
        queue.now_ms = queue.clock.now_ms()
        message = await queue.take_one()
        assert (message.body, message.deliveries) == (body, 1)
        assert await queue.delete(message) == [Outcome.DONE]


@pytest.mark.parametrize("lost", ["kill", "pause"])
async def test_a_dead_node_delays_no_call(ring: Ring, lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that needs more than the bar fails, and the call with it."""
    async with process(Place(await make_keyspace(ring))) as user:
        queues = [QueueFixture(user.engine, user.clock, fifo=True) for _ in range(QUEUES)]
        await asyncio.gather(*map(_use, queues))
        monkeypatch.setattr(session, "STATEMENT_S", DEAD_NODE_S)
        monkeypatch.setattr(session, "CONDITIONAL_S", DEAD_NODE_S)
        await asyncio.to_thread(ring.kill if lost == "kill" else ring.pause, 2)
        try:
            await asyncio.gather(*map(_use, queues))
        finally:
            await asyncio.to_thread(ring.restart if lost == "kill" else ring.resume, 2)
        await asyncio.gather(*map(_use, queues))
        assert [await queue.counts() for queue in queues] == [(0, 0, 0)] * QUEUES
