"""The choice of pipes by poppers: owned pipes, pipes in turn, and the strict modes."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cqs.engines.contract import Entry
from cqs.engines.pipes.pusher import Pusher
from lab.harness.waiting import PATIENCE_S
from tests.conformance.support import DONE, HIDE_MS, bodies, numbered
from tests.integration.cqs.engines.pipes.support import PipesProcess, open_processes

PUSHED = {1: 4, 2: 1, 3: 6, 4: 1, 5: 1, 6: 7, 7: 8, 8: 1, 9: 2, 10: 3, 11: 5}
"""The worked example of seed 003: M1:P4 M2:P1 M3:P6 …"""
MODES = [
    ({"PopMode": "turns", "MaxPopWidth": "8"}, [2, 9, 10, 1, 11, 3, 6, 7, 4, 5, 8]),
    ({"PopMode": "owned", "MaxPopWidth": "8"}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    ({"StrictFifo": "locked"}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    ({"PopMode": "owned", "MaxPopWidth": "1"}, [2, 4, 5, 8, 9, 10, 1, 11, 3, 6, 7]),
    ({"StrictFifo": "single"}, [2, 4, 5, 8, 9, 10, 1, 11, 3, 6, 7]),
]
"""With a width of one pipe, each is emptied before the next."""


async def push_example(process: PipesProcess) -> None:
    """Eight pushers; their pipes began one after the other."""
    begin_ms = process.now_ms - 1_000
    pushers = {pipe: Pusher(process.rows, process.clock, f"{pipe:08x}") for pipe in range(1, 9)}
    for message, pipe in PUSHED.items():
        entry = Entry(f"M{message}", b"%d" % message, begin_ms, begin_ms + message)
        await pushers[pipe].push(process.q.id, 0, 1_000, [entry], begin_ms + 100 + pipe)


@pytest.mark.parametrize(
    ("options", "order"),
    [
        pytest.param(
            options, order, id=" ".join(map("=".join, options.items())), marks=pytest.mark.extended if number else ()
        )
        for number, (options, order) in enumerate(MODES)
    ],
)
async def test_the_worked_example(
    cassandra_address: CassandraAddress, options: dict[str, str], order: list[int]
) -> None:
    async with open_processes(cassandra_address, Clock()) as (process,):
        process.option(**options)
        await push_example(process)
        popped = [int(message.body) for message in [await process.take_one(600_000) for _ in PUSHED]]
        assert popped == order
        assert not await process.take()


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["single", "locked"])
async def test_strict_fifo_over_many_pipes(cassandra_address: CassandraAddress, mode: str) -> None:
    async with open_processes(cassandra_address, Clock()) as (process,):
        process.option(StrictFifo=mode, PipeSize="3")
        for body in numbered(20):
            await process.send(body)
            process.advance(1)
        assert bodies(await process.drain()) == numbered(20)


async def test_with_single_one_popper_has_the_whole_queue(cassandra_address: CassandraAddress) -> None:
    async with open_processes(cassandra_address, Clock(), Clock()) as (one, two):
        for process in (one, two):
            process.option(StrictFifo="single", PipeSize="2")
        await one.send(*numbered(2))
        await two.send(*numbered(2, b"later"))
        assert bodies(await one.take(1)) == [b"000000"]
        assert not await two.take(10)
        assert bodies(await one.take(10)) == [b"000001"]
        await one.pipes.close()
        assert bodies(await two.drain()) == numbered(2, b"later")


@pytest.mark.extended
@pytest.mark.parametrize("options", [{"StrictFifo": "locked"}, {"PopMode": "turns"}, {"PopMode": "owned"}])
async def test_poppers_of_two_processes_take_each_message_once(
    cassandra_address: CassandraAddress, options: dict[str, str]
) -> None:
    async with open_processes(cassandra_address, Clock(), Clock()) as processes:
        for process in processes:
            process.option(PipeSize="4", **options)
        await asyncio.gather(*[process.send(*numbered(12, b"%d" % n)) for n, process in enumerate(processes)])
        taken: list[bytes] = []

        async def pop(process: PipesProcess) -> None:
            while len(taken) < 24:
                messages = await process.take(3)
                taken.extend(bodies(messages))
                assert await process.delete(*messages) == [DONE] * len(messages)

        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*[pop(process) for process in processes])
        assert Counter(taken) == Counter([*numbered(12, b"0"), *numbered(12, b"1")])


async def test_messages_in_flight_do_not_hold_up_the_rest(cassandra_address: CassandraAddress) -> None:
    """A fault of the field: old messages that are held for long keep poppers from later pipes."""
    async with open_processes(cassandra_address, Clock()) as (process,):
        process.option(PipeSize="1", MaxPopWidth="2")
        await process.send(*numbered(12))
        for _ in range(10):
            assert len(await process.take(1, 43_200_000)) == 1
        assert bodies(await process.take(10)) == numbered(12)[10:]
        process.advance(HIDE_MS)
        assert bodies(await process.take(10)) == numbered(12)[10:]
