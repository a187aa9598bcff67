"""An append of a FIFO queue whose answer is lost: another try is sent, and the log has the commands once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from cassandra import OperationTimedOut
from cassandra.query import BoundStatement

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown
from cqs.engines.cluster import open_engine
from cqs.engines.cluster.fifo import schema
from cqs.engines.contract import Outcome
from tests.conformance.support import QueueFixture, bodies

WRITTEN = Statement("SELECT slot FROM cqs_fifo_log WHERE queue = ? AND segment = 0")


class LostAnswers:
    """Cassandra runs every statement; the answers to the next `count` proposals do not come."""

    def __init__(self, cassandra: Cassandra) -> None:
        self.count = 0
        self.proposals = 0
        self._send = cassandra._send

    async def send(self, statement: object, limit_s: float) -> list[Row]:
        rows = await self._send(statement, limit_s)
        if isinstance(statement, BoundStatement) and statement.prepared_statement.query_string == schema.PROPOSE.cql:
            self.proposals += 1
            if self.count:
                self.count -= 1
                raise OperationTimedOut(errors={}, last_host=None)
        return rows


@pytest.fixture
async def cassandra(cassandra_address: CassandraAddress) -> AsyncIterator[Cassandra]:
    cassandra = await Cassandra.open(cassandra_address)
    yield cassandra
    await cassandra.close()


@pytest.fixture
def lost(cassandra: Cassandra, monkeypatch: pytest.MonkeyPatch) -> LostAnswers:
    lost = LostAnswers(cassandra)
    monkeypatch.setattr(cassandra, "_send", lost.send)
    return lost


@pytest.fixture
async def queue(cassandra: Cassandra, lost: LostAnswers) -> AsyncIterator[QueueFixture]:
    clock = Clock()
    async with open_engine(cassandra, "", clock) as engine:
        yield QueueFixture(engine, clock, fifo=True)


async def _slots(cassandra: Cassandra, queue: QueueFixture) -> int:
    return len(await cassandra.run(WRITTEN, queue.q.id))


async def test_a_repeated_append_is_one(cassandra: Cassandra, lost: LostAnswers, queue: QueueFixture) -> None:
    """Nothing but the writer's name tells the commands from those of another process."""
    await queue.send(b"0", group="g")
    for number, losses in enumerate([1, 2], 1):
        lost.count, lost.proposals = losses, 0
        await queue.send(b"%d" % number, group="g")
        assert lost.proposals == losses + 1
    assert await _slots(cassandra, queue) == 3
    assert await queue.counts() == (3, 0, 0)
    assert bodies(await queue.take(10)) == [b"0", b"1", b"2"]


async def test_a_receive_and_a_delete_whose_answer_was_lost(lost: LostAnswers, queue: QueueFixture) -> None:
    await queue.send(b"x", group="g")
    lost.count = 1
    message = await queue.take_one()
    assert message.deliveries == 1
    lost.count = 1
    assert await queue.delete(message) == [Outcome.DONE]
    assert await queue.counts() == (0, 0, 0)


async def test_an_append_without_any_answer_is_read_afterwards(
    cassandra: Cassandra, lost: LostAnswers, queue: QueueFixture
) -> None:
    await queue.send(b"0", group="g")
    lost.count = 10
    with pytest.raises(OutcomeUnknown):
        await queue.send(b"1", group="g", dedup="k")
    lost.count = 0
    await queue.send(b"1", group="g", dedup="k")  # the retry of an SDK
    await queue.send(b"2", group="g")
    assert bodies(await queue.take(10)) == [b"0", b"1", b"2"]
