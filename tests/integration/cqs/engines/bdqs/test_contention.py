"""Four processes receive from one queue at the same moment: empty answers, lost races and order, by `OrderHint`."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Row
from cns_common.durations import HOUR_MS
from cns_common.errors import StoreUnavailable
from tests.conformance.support import bodies, displacement, numbered
from tests.integration.cqs.engines.bdqs.bdqs_processes import Run, bdqs_processes

PROCESSES = 4
MESSAGES = 120
STATEMENTS = 10
"""About as many messages as three receives send."""


class Contention(NamedTuple):
    """Results of receives that meet. Displacement is the mean distance of messages from their turn (seed 004, V.A)."""

    answers: int
    empty: int
    lost_races: int
    displacement: float


async def _contend(address: CassandraAddress, hint: str) -> Contention:
    """Each round is one receive of one message by each process, while there are as many messages."""
    async with bdqs_processes(address, PROCESSES, OrderHint=hint) as processes:
        for at in range(0, MESSAGES, 10):
            await processes[at // 10 % PROCESSES].queue.send(*numbered(MESSAGES)[at : at + 10])
        order: list[int] = []
        answers = empty = 0
        while len(order) <= MESSAGES - PROCESSES:
            taken = await asyncio.gather(*[process.queue.take(1, HOUR_MS) for process in processes])
            answers += PROCESSES
            empty += taken.count(())
            for number in [int(message.body) for messages in taken for message in messages]:
                if number not in order:
                    order.append(number)
        lost = sum(process.engine._deliveries.lost_races for process in processes)
        found = Contention(answers, empty, lost, displacement(order))
        print(f"OrderHint={hint}: {found}")
        return found


@pytest.mark.parametrize("hint", ["inf", pytest.param("1", marks=pytest.mark.extended)])
async def test_no_answer_is_empty_while_messages_wait(cassandra_address: CassandraAddress, hint: str) -> None:
    """Sampling of replicas may return nothing although messages exist; a sample of the index does not."""
    found = await _contend(cassandra_address, hint)
    assert found.answers >= MESSAGES - PROCESSES
    assert found.empty == 0


@pytest.mark.extended
async def test_an_automatic_k_beside_fixed_ones(cassandra_address: CassandraAddress) -> None:
    """It loses fewer races than K = 1, and keeps order better than no order does."""
    strict, automatic, none = [await _contend(cassandra_address, hint) for hint in ("1", "auto", "inf")]
    assert automatic.lost_races < strict.lost_races
    assert automatic.displacement < none.displacement


async def test_a_statement_that_fails_costs_no_other_receive_its_turn(cassandra_address: CassandraAddress) -> None:
    """Receives with the same parameters share reads: an error of one is Cassandra's, and removes no other's request."""
    async with bdqs_processes(cassandra_address, 1, OrderHint="1") as (process,):
        for number in range(1, STATEMENTS + 1):
            await process.queue.send(*numbered(PROCESSES))
            at = process.statements + number

            async def gate(run: Run, statement: tuple[Any, ...], at: int = at) -> list[Row]:
                if process.statements == at:
                    raise StoreUnavailable("no replica answers")
                return await run(*statement)

            process._gate = gate
            results = await asyncio.gather(*[process.queue.take(1) for _ in range(3)], return_exceptions=True)
            process.free()
            errors = [result for result in results if isinstance(result, BaseException)]
            assert all(isinstance(error, StoreUnavailable) for error in errors), (number, errors)
            process.queue.advance(HOUR_MS)
            left = await process.queue.drain()
            assert sorted(bodies(left)) == numbered(PROCESSES), "none is lost"
            await process.queue.delete(*left)
