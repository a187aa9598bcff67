"""One popper at a time pops a pipe: what a popper does that was paused for longer than its lease changes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Row, Statement
from cns_common.clock import Clock
from cns_common.durations import HOUR_MS
from cns_common.errors import StoreUnavailable
from cqs.engines.contract import Message
from cqs.engines.pipes import engine as pipes_engine
from cqs.engines.pipes import schema
from cqs.engines.pipes.options import options_of
from tests.conformance.support import DONE, STALE, bodies, numbered
from tests.integration.cqs.engines.pipes.support import PipesProcess, open_processes
from tests.machine_clocks import MachineClocks

SECOND_NS = 1_000_000_000


class Pause:
    """Stops a process before or after its next pop, until another process has the pipe."""

    def __init__(
        self, process: PipesProcess, machine: MachineClocks, other: PipesProcess, *, before: bool, want: int = 10
    ) -> None:
        self._process = process
        self._machine = machine
        self._other = other
        self._before = before
        self._want = want
        self._run_batch = process.cassandra.run_batch
        self.held: list[Message] = []

    def begin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def run_batch(parts: Sequence[tuple[Statement, Sequence[object]]], *, logged: bool) -> None:
            pops = not self.held and any(statement is schema.POP_WAITING for statement, _ in parts)
            if pops and self._before:
                await self._wait()
            await self._run_batch(parts, logged=logged)
            if pops and not self._before:
                await self._wait()

        monkeypatch.setattr(self._process.cassandra, "run_batch", run_batch)

    async def _wait(self) -> None:
        await self._other.unleased("owner")
        self._machine.run(60 * SECOND_NS)  # the paused process notices, as its clocks tell, only afterwards
        self.held += await self._other.take(self._want, HOUR_MS)


@pytest.mark.usefixtures("short_owner_leases")
async def test_a_popper_paused_before_its_pop_takes_nothing_of_the_next_owner(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, still = MachineClocks(time.time_ns()), MachineClocks(time.time_ns())
    async with open_processes(cassandra_address, machine.clock(), still.clock()) as (paused, other):
        await other.send(*numbered(8))
        paused.now_ms = other.now_ms
        for body in numbered(3):  # more pops than the next owner does: only the fence makes that one's later
            assert bodies(await paused.take(1, HOUR_MS)) == [body]
        pause = Pause(paused, machine, other, before=True)
        pause.begin(monkeypatch)
        assert not await paused.take(2), "the pop came after the end of its lease"
        held = pause.held
        assert sorted(bodies(held)) == numbered(8)[3:]
        other.at_present()
        assert await other.counts() == (0, 8, 0)
        for message in held:
            assert await other.hide(message, HOUR_MS) is DONE
        assert await other.delete(*held) == [DONE] * 5
        assert await other.counts() == (0, 3, 0)


@pytest.mark.usefixtures("short_owner_leases")
async def test_an_undone_pop_loses_against_the_next_owners(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next owner has read the messages as waiting, and pops them after the undo."""
    machine, still = MachineClocks(time.time_ns()), MachineClocks(time.time_ns())
    async with open_processes(cassandra_address, machine.clock(), still.clock()) as (paused, other):
        await other.send(*numbered(6))
        paused.now_ms = other.now_ms
        pause = Pause(paused, machine, other, before=True, want=1)
        pause.begin(monkeypatch)
        assert not await paused.take(5)
        held = [*pause.held, *await other.take(5, HOUR_MS)]
        assert bodies(held) == numbered(6)
        assert await other.counts() == (0, 6, 0)
        assert await other.delete(*held) == [DONE] * 6


@pytest.mark.usefixtures("short_owner_leases")
async def test_a_popper_paused_after_its_pop_undoes_it(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages of a pop under an ended lease are visible soon, and the delivery does not count."""
    machine, still = MachineClocks(time.time_ns()), MachineClocks(time.time_ns())
    async with open_processes(cassandra_address, machine.clock(), still.clock()) as (paused, other):
        await other.send(*numbered(5))
        paused.now_ms = other.now_ms
        pause = Pause(paused, machine, other, before=False)
        pause.begin(monkeypatch)
        assert not await paused.take(2)
        assert sorted(bodies(pause.held)) == numbered(5)[2:]
        still.run(2 * SECOND_NS)  # it reads the messages once more
        other.now_ms = paused.clock.now_ms() + schema.UNDONE_MS
        taken = await other.drain(HOUR_MS)
        assert sorted(bodies(taken)) == numbered(5)[:2]
        assert [message.deliveries for message in taken] == [1, 1]
        assert await paused.delete(*taken, *pause.held) == [DONE] * 5


async def test_a_pop_that_failed_after_it_was_written_is_undone(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_processes(cassandra_address, Clock()) as (process,):
        await process.send(*numbered(3))
        (hidden,) = await process.take(1)
        assert await process.hide(hidden, 0) is DONE
        for method in ("run_batch", "run_conditional_batch"):
            with monkeypatch.context() as patch, pytest.raises(StoreUnavailable):
                patch.setattr(process.cassandra, method, _after(getattr(process.cassandra, method)))
                await process.take(3, HOUR_MS)
            process.now_ms = max(process.now_ms, process.clock.now_ms()) + schema.UNDONE_MS
        taken = await process.take(3)
        assert {message.body: message.deliveries for message in taken} == dict(zip(numbered(3), (2, 1, 1), strict=True))


def _after(call: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    """A call whose answer is lost once: the store does what it is asked."""
    lost = False

    async def lose(*values: Any, **options: Any) -> object:
        nonlocal lost
        answer = await call(*values, **options)
        if not lost:
            lost = True
            raise StoreUnavailable("the answer was lost")
        return answer

    return lose


@pytest.mark.parametrize("lost", [False, True])
async def test_a_slow_pop_counts_while_nobody_else_had_the_lease(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """The process is not certain of its lease any more, and asks. A lease that was taken anew is another one."""
    machine = MachineClocks(time.time_ns())
    async with open_processes(cassandra_address, machine.clock()) as (process,):
        await process.send(b"one", b"two")
        assert bodies(await process.take(1)) == [b"one"]
        popper = process.pipes._poppers.get(process.q.id)
        assert popper is not None
        (view,) = popper._views.values()
        run_batch = process.cassandra.run_batch

        async def run_slowly(parts: Sequence[tuple[Statement, Sequence[object]]], *, logged: bool) -> None:
            await run_batch(parts, logged=logged)
            machine.run(schema.OWNER_LEASE_CERTAIN_MS * 1_000_000)
            view.fence += lost

        with monkeypatch.context() as patch:
            patch.setattr(process.cassandra, "run_batch", run_slowly)
            assert bodies(await process.take(1)) == ([] if lost else [b"two"])


@pytest.mark.parametrize("released", [False, True])
async def test_what_waits_in_a_pipe_without_a_lease_goes_before_what_was_hidden(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch, released: bool
) -> None:
    """A message that was delivered before can be popped without the lease, but the pipe is looked at again first."""
    monkeypatch.setattr(pipes_engine, "IDLE_MS", -1)
    machine = MachineClocks(time.time_ns())
    async with open_processes(cassandra_address, machine.clock()) as (process,):
        await process.send(*numbered(2))
        assert bodies(await process.take(1, 1_000)) == numbered(1)
        process.advance(1_000)
        popper = process.pipes._poppers.get(process.q.id)
        assert popper is not None
        assert await popper.poll(options_of(process.q), process.now_ms) == 2
        if released:
            await process.pipes.release_step()
        else:
            machine.run(schema.OWNER_LEASE_CERTAIN_MS * 1_000_000)
        assert bodies(await process.take(1)) == numbered(2)[1:]


async def test_a_release_spares_the_leases_of_a_receive_that_began_before_it(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release waits until a poll has taken the lease, and the receive that it woke pops at once."""
    monkeypatch.setattr(pipes_engine, "IDLE_MS", -1)
    async with open_processes(cassandra_address, Clock()) as (process,):
        await process.send(b"one")
        run = process.cassandra.run

        async def run_while_released(statement: Statement, *values: object) -> list[Row]:
            if statement is schema.LIST and not releases:
                releases.append(asyncio.create_task(process.pipes.release_step()))
                await asyncio.sleep(0)
            return await run(statement, *values)

        releases: list[asyncio.Task[None]] = []
        monkeypatch.setattr(process.cassandra, "run", run_while_released)
        await process.pipes._poll(process.q.id)
        assert bodies(await process.take(1)) == [b"one"]
        await asyncio.gather(*releases)
        (pipe,) = await process.pipe_names()
        descriptor = await process.descriptor(pipe)
        assert descriptor.owner is not None
        assert descriptor.fence == 1, "the lease was taken once"


async def test_a_message_is_found_that_a_failed_pop_gave_back_during_a_read(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read began behind the message, and is the last of the finished pipe."""
    async with open_processes(cassandra_address, Clock()) as (process,):
        process.option(PipeSize="2")
        await process.send(*numbered(2))
        await process.send(b"in the next pipe")
        await process.finished(1)
        assert bodies(await process.take(1)) == numbered(2)[:1]
        popper = process.pipes._poppers.get(process.q.id)
        assert popper is not None
        _, view = min(popper._views.items())
        view.is_finished = False
        run = process.cassandra.run

        async def run_while_given_back(statement: Statement, *values: object) -> list[Row]:
            rows = await run(statement, *values)
            if statement is schema.LIST_WAITING and values[1] == view.name:
                view.read_again(view._items[1])
            return rows

        with monkeypatch.context() as patch:
            patch.setattr(process.cassandra, "run", run_while_given_back)
            await process.pipes._poll(process.q.id)
        assert sorted(bodies(await process.drain())) == [*numbered(2)[1:], b"in the next pipe"]


async def test_a_handle_of_a_delivery_that_another_process_repeated_is_stale(
    cassandra_address: CassandraAddress,
) -> None:
    async with open_processes(cassandra_address, Clock(), Clock()) as (one, two):
        await one.send(b"one")
        old = await one.take_one(1_000)
        for process in (one, two):
            process.advance(1_000)
        new = await two.take_one()
        assert await one.delete(old) == [STALE]
        assert await one.hide(old, 0) == STALE
        assert await one.delete(new) == [DONE]


async def test_one_popper_has_a_pipe_until_it_is_idle(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_processes(cassandra_address, Clock(), Clock()) as (one, two):
        await one.send(*numbered(4))
        assert bodies(await one.take(1)) == [b"000000"]
        assert not await two.take(1)
        assert bodies(await one.take(1)) == [b"000001"]
        monkeypatch.setattr(pipes_engine, "IDLE_MS", -1)
        await one.pipes.release_step()
        assert bodies(await two.take(1)) == [b"000002"]
        assert not await one.take(1)
        await two.pipes.close()
        assert bodies(await one.take(1)) == [b"000003"]


@pytest.mark.extended
async def test_each_process_pops_other_pipes(cassandra_address: CassandraAddress) -> None:
    async with open_processes(cassandra_address, Clock(), Clock()) as (one, two):
        for process in (one, two):
            process.option(PipeSize="2", MaxPopWidth="1")
        await one.send(*numbered(2, b"a"))
        await one.send(*numbered(2, b"b"))
        assert bodies(await one.take(1)) == [b"a000000"]
        assert bodies(await two.take(10)) == numbered(2, b"b")
        assert bodies(await one.take(10)) == [b"a000001"]
