"""The sequence of Figure 1 of seed 004: what the index has after each operation."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Statement
from cqs.engines.contract import Message
from tests.conformance.support import DONE
from tests.integration.cqs.engines.bdqs.bdqs_processes import Process, advance, bdqs_processes

SECOND_MS = 1_000
TIMEOUT_S = 10
INDEX = Statement("SELECT due, seq, bucket FROM bdqs_index WHERE queue = ? ALLOW FILTERING")
BODIES = Statement("SELECT seq, body FROM bdqs_messages WHERE queue = ? ALLOW FILTERING")


class Step(NamedTuple):
    at_s: int
    operation: str
    answer: str
    entries: list[tuple[int, str]]
    """(T in s, message) of the index, in order, afterwards."""


STEPS = [
    Step(0, "receive", "", []),
    Step(1, "send a", "", [(1, "a")]),
    Step(2, "send b", "", [(1, "a"), (2, "b")]),
    Step(3, "send c", "", [(1, "a"), (2, "b"), (3, "c")]),
    Step(4, "receive", "a", [(2, "b"), (3, "c"), (14, "a")]),
    Step(5, "receive", "b", [(3, "c"), (14, "a"), (15, "b")]),
    Step(6, "delete a", "", [(3, "c"), (15, "b")]),
    Step(7, "receive", "c", [(15, "b"), (17, "c")]),
    Step(8, "receive", "", [(15, "b"), (17, "c")]),
    Step(14, "receive", "", [(15, "b"), (17, "c")]),
    Step(15, "receive", "b", [(17, "c"), (25, "b")]),
    Step(16, "delete c", "", [(25, "b")]),
    Step(17, "receive", "", [(25, "b")]),
    Step(18, "delete b", "", []),
    Step(30, "receive", "", []),
]


async def _index(process: Process, start_ms: int) -> list[tuple[int, str]]:
    queue_id = process.queue.q.id
    of_seq = {seq: body.decode() for seq, body in await process.cassandra.run(BODIES, queue_id) if body is not None}
    rows = sorted(await process.cassandra.run(INDEX, queue_id))
    return [((due_ms - start_ms) // SECOND_MS, of_seq[seq]) for due_ms, seq, _ in rows]


@pytest.mark.parametrize("nodes", [1, 2])
async def test_the_sequence_of_figure_one(cassandra_address: CassandraAddress, nodes: int) -> None:
    """At one front-end, and at two in turn: there is no timer in either."""
    async with bdqs_processes(cassandra_address, nodes, OrderHint="1") as processes:
        start_ms = processes[0].queue.now_ms
        held: dict[str, Message] = {}
        for number, step in enumerate(STEPS):
            advance(start_ms + step.at_s * SECOND_MS - processes[0].queue.now_ms, *processes)
            process = processes[number % nodes]
            action, _, name = step.operation.partition(" ")
            if action == "send":
                await process.queue.send(name.encode())
            elif action == "delete":
                assert await process.queue.delete(held[name]) == [DONE]
            else:
                received = await process.queue.take(1, TIMEOUT_S * SECOND_MS)
                assert "".join(message.body.decode() for message in received) == step.answer, step
                held.update({message.body.decode(): message for message in received})
            assert await _index(process, start_ms) == step.entries, step
