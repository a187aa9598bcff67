"""The states of a pipe: PA (push active), PF (push finished), E (finished and empty), and gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cqs.engines.pipes import schema
from cqs.engines.pipes.names import pipe_name
from tests.conformance.support import HIDE_MS, numbered
from tests.integration.cqs.engines.pipes.support import PipesProcess, open_processes

Step = Callable[[PipesProcess, PipesProcess], Awaitable[object]]
"""Clocks of a pusher, and of another process."""


async def push_three(pusher: PipesProcess, other: PipesProcess) -> None:
    await pusher.send(*numbered(3))


async def push_beyond(pusher: PipesProcess, other: PipesProcess) -> None:
    """Fill the pipe of three, and begin the next."""
    await pusher.send(*numbered(3))
    await pusher.send(b"beyond")
    await pusher.finished(1)


async def close_pusher(pusher: PipesProcess, other: PipesProcess) -> None:
    await pusher.pipes.close()


async def pass_push_time(pusher: PipesProcess, other: PipesProcess) -> None:
    for process in (pusher, other):
        process.advance(schema.PIPE_PUSH_MS_MAX)


async def end_pusher_lease(pusher: PipesProcess, other: PipesProcess) -> None:
    """As if the pusher had died: its lease is not renewed."""
    await other.unleased("pusher")


async def pop_three(pusher: PipesProcess, other: PipesProcess) -> None:
    taken = [*await other.take(3), *await other.take(3)][:3]
    assert len(taken) == 3


async def pop_two(pusher: PipesProcess, other: PipesProcess) -> None:
    assert len(await other.take(2)) == 2


async def delete_all(pusher: PipesProcess, other: PipesProcess) -> None:
    other.advance(HIDE_MS)
    await other.delete(*await other.drain())


async def reap(pusher: PipesProcess, other: PipesProcess) -> None:
    await other.reap()


async def open_in_part(pusher: PipesProcess, other: PipesProcess) -> None:
    """A pusher died while it opened a pipe: only the directory knows it."""
    name = pipe_name(0, other.now_ms, hex_id()[:8], 0)
    await other.cassandra.run(schema.OPEN, other.q.id, name)


TABLE: list[tuple[str, list[Step], list[str]]] = [
    ("pushed", [push_three], ["PA"]),
    ("full", [push_beyond], ["PF", "PA"]),
    ("closed", [push_three, close_pusher], ["PF"]),
    ("pusher lives, time passed", [push_three, pass_push_time, reap], ["PA"]),
    ("pusher gone, time not passed", [push_three, end_pusher_lease, reap], ["PA"]),
    ("pusher gone, time passed", [push_three, end_pusher_lease, pass_push_time, reap], ["PF"]),
    ("all popped, push active", [push_three, pop_three, reap], ["PA"]),
    ("some wait", [push_beyond, pop_two, reap], ["PF", "PA"]),
    ("none waits", [push_beyond, pop_three, reap], ["E", "PA"]),
    ("timed out and popped", [push_three, end_pusher_lease, pass_push_time, pop_three, reap], ["E"]),
    ("all deleted", [push_three, close_pusher, delete_all, reap], []),
    ("all deleted, push active", [push_three, delete_all, reap], ["PA"]),
    ("opened in part", [open_in_part, reap], ["PA"]),
    ("opened in part, time passed", [open_in_part, pass_push_time, reap], []),
]
SLICE = {"none waits", "pusher gone, time passed", "all deleted"}


@pytest.mark.parametrize(
    ("steps", "states"),
    [
        pytest.param(steps, states, id=name, marks=() if name in SLICE else pytest.mark.extended)
        for name, steps, states in TABLE
    ],
)
async def test_states(
    cassandra_address: CassandraAddress, request: pytest.FixtureRequest, steps: list[Step], states: list[str]
) -> None:
    if end_pusher_lease in steps:
        request.getfixturevalue("short_pusher_leases")
    clock, others_clock = Clock(), Clock()
    async with open_processes(cassandra_address, clock, others_clock) as (pusher, other):
        for process in (pusher, other):
            process.option(PipeSize="3")
        for step in steps:
            await step(pusher, other)
        assert await other.states() == states


@pytest.mark.extended
async def test_a_pipe_that_is_gone_leaves_no_row(cassandra_address: CassandraAddress) -> None:
    async with open_processes(cassandra_address, Clock(), Clock()) as (pusher, other):
        await push_three(pusher, other)
        (name,) = await pusher.pipe_names()
        await close_pusher(pusher, other)
        await delete_all(pusher, other)
        await reap(pusher, other)
        for table in ("directory", "descriptors", "messages", "waiting", "pending", "pushed"):
            rows = await other.cassandra.run_schema(
                f"SELECT pipe FROM pipes_{table} WHERE queue = '{other.q.id}' AND pipe = '{name}'"
            )
            assert rows == [], table
