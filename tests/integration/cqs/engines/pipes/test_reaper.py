"""The reaper and a pusher whose pipe it finishes; what crashes leave in the rows of a pipe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.clock import Clock
from cqs.engines.contract import Outcome
from cqs.engines.pipes import popper, schema
from cqs.engines.pipes.names import PipeDelivery, parse_handle
from tests.conformance.support import DONE, GONE, HIDE_MS, bodies, numbered
from tests.integration.cqs.engines.pipes.support import PipesProcess, open_processes
from tests.machine_clocks import MachineClocks

SECOND_NS = 1_000_000_000
AFTER_POPS_US = 10**12
"""Later than the pops of a queue's first leases, earlier than what the reaper writes."""
PUSH_NS = schema.PIPE_PUSH_MS_MAX * 1_000_000


async def empty_and_reap(other: PipesProcess) -> None:
    """Delete all messages, finish the pipe whose pusher has no lease, and remove it."""
    await other.unleased("pusher")
    other.at_present()
    await other.reap()


@pytest.mark.usefixtures("short_pusher_leases")
@pytest.mark.parametrize("behind_s", [60, pytest.param(-60, marks=pytest.mark.extended)])
async def test_a_push_meets_the_end_of_its_pipe(cassandra_address: CassandraAddress, behind_s: int) -> None:
    """The pipe was finished and removed while its pusher, whose clock is wrong, did not push."""
    machine = MachineClocks(time.time_ns())
    slow = MachineClocks(time.time_ns() - behind_s * SECOND_NS)
    slow.runs_with(machine)
    async with open_processes(cassandra_address, slow.clock(), machine.clock()) as (pusher, other):
        await pusher.send(b"first")
        (before,) = await other.pipe_names()
        other.now_ms = max(other.clock.now_ms(), pusher.now_ms)
        await other.delete(*await other.take())
        machine.run(PUSH_NS + 180 * SECOND_NS)
        await empty_and_reap(other)
        assert not await other.pipe_names()
        pusher.at_present()
        await asyncio.gather(*[pusher.send(body) for body in numbered(5)])
        assert before not in await other.pipe_names()
        other.now_ms = max(other.clock.now_ms(), pusher.now_ms)
        assert sorted(bodies(await other.drain())) == numbered(5)
        assert not await other.rows.births(other.q.id, before), "no copy is left behind the end"


@pytest.mark.usefixtures("short_pusher_leases")
async def test_a_pusher_stopped_during_a_push_meets_the_end_of_its_pipe(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease ends between the write and the answer: the reaper finishes the pipe and removes it."""
    machine = MachineClocks(time.time_ns())
    async with open_processes(cassandra_address, machine.clock(), machine.clock()) as (pusher, other):
        pusher.at_present()
        await pusher.send(b"first")
        other.at_present()
        await other.delete(*await other.take())
        run_batch, stopped = Cassandra.run_batch, False

        async def run_and_stop(
            cassandra: Cassandra, parts: Sequence[tuple[Statement, Sequence[object]]], *, logged: bool
        ) -> None:
            nonlocal stopped
            pushes = any(statement is schema.PUSH_WAITING for statement, _ in parts)
            if pushes and not stopped:
                stopped = True
                machine.run(PUSH_NS + 60 * SECOND_NS)
                await empty_and_reap(other)
                assert not await other.pipe_names()
            await run_batch(cassandra, parts, logged=logged)

        monkeypatch.setattr(Cassandra, "run_batch", run_and_stop)
        await pusher.send(b"last")
        other.at_present()
        assert bodies(await other.take()) == [b"last"]


@pytest.mark.extended
async def test_the_pipe_of_a_pusher_with_a_lease_is_not_finished(cassandra_address: CassandraAddress) -> None:
    async with open_processes(cassandra_address, Clock(), Clock()) as (pusher, other):
        await pusher.send(b"first")
        await other.delete(*await other.take())
        other.advance(10 * schema.PIPE_PUSH_MS_MAX)
        await other.reap()
        assert await other.states() == [schema.ACTIVE]
        await pusher.send(b"second")
        assert bodies(await other.take()) == [b"second"]


async def test_a_message_that_a_lost_pop_left_out_comes_again(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pop was written in part, on a node that was lost: its message neither waits nor is pending."""
    async with open_processes(cassandra_address, Clock(), Clock()) as (pusher, other):
        await pusher.send(*numbered(3))
        (name,) = await pusher.pipe_names()
        await pusher.pipes.close()
        for place in range(3):
            await pusher.cassandra.run(schema.POP_WAITING, 2, pusher.q.id, name, place)
        assert not await other.take()
        await other.reap()
        monkeypatch.setattr(popper, "OVER_AGE_MS_MAX", -1)
        assert bodies(await other.take()) == numbered(3)
        await other.reap()
        assert await other.states() == [schema.EMPTY]


async def test_a_pop_that_was_lost_comes_again_to_its_popper(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node with the rows of pending messages was lost: the popper has known them, and knows of no delete."""
    async with open_processes(cassandra_address, Clock()) as (process,):
        await process.send(*numbered(3))
        (name,) = await process.pipe_names()
        assert bodies(await process.take(hide_ms=0)) == numbered(3)
        await process.pipes.close()
        await process.cassandra.run(schema.CLEAR[2], AFTER_POPS_US, process.q.id, name)
        monkeypatch.setattr(popper, "PENDING_AGE_MS_MAX", -1)
        monkeypatch.setattr(popper, "OVER_AGE_MS_MAX", -1)
        assert not await process.take()
        await process.reap()
        assert bodies(await process.take()) == numbered(3)


@pytest.mark.extended
async def test_a_delete_that_died_half_way_is_done(cassandra_address: CassandraAddress) -> None:
    async with open_processes(cassandra_address, Clock(), Clock()) as (pusher, other):
        await pusher.send(b"one")
        message = await pusher.take_one()
        delivery = parse_handle(message.handle)
        assert isinstance(delivery, PipeDelivery)
        await pusher.cassandra.run(schema.SETTLE, pusher.q.id, *delivery.location, delivery.lease)
        await pusher.pipes.close()
        other.advance(HIDE_MS)
        assert not await other.take()
        assert await other.counts() == (0, 0, 0)
        assert not await other.peek_all()
        assert await other.delete(message) == [GONE]
        await other.reap()
        assert not await other.pipe_names()


@pytest.mark.extended
async def test_any_process_may_reap(cassandra_address: CassandraAddress) -> None:
    async with open_processes(cassandra_address, Clock(), Clock(), Clock()) as (pusher, one, two):
        for process in (pusher, one, two):
            process.option(PipeSize="5")
        await pusher.send(*numbered(50))
        await pusher.pipes.close()
        taken = await one.drain()
        assert sorted(bodies(taken)) == numbered(50)
        assert await one.delete(*taken) == [DONE] * 50
        await two.counts()  # the process knows the queue
        await asyncio.gather(one.reap(), two.reap())
        assert not await one.pipe_names()


@pytest.mark.extended
@pytest.mark.parametrize(("deleter_s", "sender_s"), [(-60, 60), (60, -60)])
async def test_a_delete_wins_whatever_the_clocks(
    cassandra_address: CassandraAddress, deleter_s: int, sender_s: int
) -> None:
    real_ns = time.time_ns()
    sender_clock = MachineClocks(real_ns + sender_s * SECOND_NS).clock()
    deleter_clock = MachineClocks(real_ns + deleter_s * SECOND_NS).clock()
    async with open_processes(cassandra_address, sender_clock, deleter_clock) as (sender, deleter):
        for older in (False, True):
            await sender.send(b"one")
            message = await sender.take_one()
            assert await sender.hide(message, 0) is Outcome.DONE
            again = await sender.take_one()
            await deleter.rows.delete(deleter.q.id, [parse_handle(again.handle).location])  # type: ignore[union-attr]  # it is a handle
            sender.advance(HIDE_MS * (1 + older))
            assert not await sender.take()
            assert await deleter.counts() == (0, 0, 0)
