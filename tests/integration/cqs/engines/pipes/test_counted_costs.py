"""The counted costs of a queue on `pipes`: the share of its directory and of its statistics in all statements, the
price of a lock and of more clients, and how long messages are passed over."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cqs.engines.contract import Entry, Message
from cqs.engines.pipes.pusher import Pusher
from tests.conformance.support import DONE, numbered
from tests.integration.cqs.engines.pipes.support import PipesProcess, open_processes
from tests.integration.cqs.engines.recorded_statements import Sent, conditional, kinds, record, recording

BATCHES, BATCH, PIPE_SIZE = 20, 10, 50
PIPES = BATCHES * BATCH // PIPE_SIZE
DIRECTORY = "pipes_directory"
STATISTICS = {"pipes_pushed", "pipes_totals", "pipes_statistics", "pipes_hours"}
MESSAGES = 48


def _of(sent: Sequence[Sent], tables: set[str]) -> list[Sent]:
    return [one for one, (_, table) in zip(sent, kinds(sent), strict=True) if table in tables]


async def test_shares_of_the_directory_and_of_the_statistics(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred messages through four pipes. A push writes to the directory when it begins and ends a pipe, a receive
    reads a page of it at most; statistics are one row in the batch of a push, and what the reaper sums up."""
    record(monkeypatch)
    async with open_processes(cassandra_address, Clock(), Clock()) as (pusher, popper):
        for process in (pusher, popper):
            process.option(PipeSize=str(PIPE_SIZE))
        with recording() as pushed:
            for _ in range(BATCHES):
                await pusher.send(*numbered(BATCH))
            await pusher.finished(PIPES - 1)
            await pusher.pipes.close()
        receives, taken = 0, list[Message]()
        with recording() as popped:
            while messages := await popper.take(BATCH, 3_600_000):
                taken += messages
                receives += 1
        with recording() as deleted:
            for at in range(0, len(taken), BATCH):
                assert await popper.delete(*taken[at : at + BATCH]) == [DONE] * BATCH
        popper.advance(60_000)
        with recording() as reaped:
            await popper.reap(1)
    assert len(taken) == BATCHES * BATCH
    handled = [*pushed, *popped, *deleted]
    for name, some in {"pushes": pushed, "pops": popped, "deletes": deleted, "one reap": reaped}.items():
        print(
            f"{name}: {len(some)} statements, {len(_of(some, {DIRECTORY}))} on the directory,"
            f" {len(_of(some, STATISTICS))} for statistics"
        )

    directory = _of(handled, {DIRECTORY})
    assert not conditional(directory), "nobody waits for another"
    assert len([one for one in _of(pushed, {DIRECTORY}) if not one[0].cql.startswith("SELECT")]) == 2 * PIPES
    assert len(_of(popped, {DIRECTORY})) <= receives + 1
    assert not _of(deleted, {DIRECTORY})

    assert Counter(kinds(_of(handled, STATISTICS))) == {("UPDATE", "pipes_pushed"): BATCHES + PIPES}
    everything = [*handled, *reaped]
    assert len(_of(everything, STATISTICS)) < 0.1 * len(everything)


class PassCounts(NamedTuple):
    """How often younger messages were popped before an older one that waited."""

    longest: int
    mean: float


async def _passed_over(process: PipesProcess, pushers: int, **options: str) -> PassCounts:
    """Pushers push in no order of theirs, and one message is popped after the other."""
    process.q = PipesProcess(process.pipes, process.cassandra, process.clock).q
    process.option(**options)
    opened = [Pusher(process.rows, process.clock, f"{number:08x}") for number in range(pushers)]
    turns = [number % pushers for number in range(MESSAGES)]
    random.Random(1).shuffle(turns)
    begin_ms = process.now_ms - 1_000
    for number, turn in enumerate(turns):
        entry = Entry(f"{number}", b"%d" % number, begin_ms, begin_ms + number)
        await opened[turn].push(process.q.id, 0, 1_000, [entry], begin_ms + number)
    popped = [int((await process.take_one(600_000)).body) for _ in range(MESSAGES)]
    assert sorted(popped) == list(range(MESSAGES))
    passes = [sum(other > one for other in popped[:place]) for place, one in enumerate(popped)]
    return PassCounts(max(passes), sum(passes) / MESSAGES)


@pytest.mark.extended
async def test_how_long_a_message_is_passed_over(cassandra_address: CassandraAddress) -> None:
    """In pops of younger messages: it depends on `MaxPopWidth` and on the number of pushers. If the width is at least
    that number, `owned` passes over none."""
    async with open_processes(cassandra_address, Clock()) as (process,):
        found = {
            (mode, width, pushers): await _passed_over(process, pushers, PopMode=mode, MaxPopWidth=str(width))
            for mode in ("owned", "turns")
            for width, pushers in ((1, 8), (4, 8), (8, 8), (4, 4))
        }
    for (mode, width, pushers), passed in found.items():
        print(
            f"{mode}, width {width}, {pushers} pushers: passed over {passed.longest} times at most, {passed.mean:.1f}"
        )
    owned = {key[1:]: passed for key, passed in found.items() if key[0] == "owned"}
    assert owned[8, 8] == owned[4, 4] == PassCounts(0, 0)
    assert owned[1, 8].longest > owned[4, 8].longest > 0
    assert owned[1, 8].mean > owned[4, 8].mean
    turns = {key[1:]: passed for key, passed in found.items() if key[0] == "turns"}
    assert turns[1, 8].mean > turns[8, 8].mean
    assert turns[8, 8].longest < owned[1, 8].longest


class MessageCosts(NamedTuple):
    """Costs of each message that was pushed, popped and deleted."""

    statements: float
    conditional: float
    least: int
    """The messages of the popper that got the fewest."""


async def _handle(processes: Sequence[PipesProcess], batch: int, **options: str) -> MessageCosts:
    """Half of the processes push, the others pop in turn."""
    pushers, poppers = processes[: len(processes) // 2], processes[len(processes) // 2 :]
    for process in processes:
        process.option(PipeSize=str(PIPE_SIZE), **options)
        process.q = replace(process.q, older_handles=True)  # as tenants' queues have it
    left, got = len(pushers) * BATCHES * BATCH, [0] * len(poppers)
    with recording() as sent:
        for _ in range(BATCHES):
            for pusher in pushers:
                await pusher.send(*numbered(BATCH))
        for pusher in pushers:
            await pusher.pipes.close()
        messages = left
        while left:
            for place, popper in enumerate(poppers):
                taken = await popper.take(batch, 3_600_000)
                if taken:
                    assert await popper.delete(*taken) == [DONE] * len(taken)
                got[place] += len(taken)
                left -= len(taken)
    return MessageCosts(len(sent) / messages, len(conditional(sent)) / messages, min(got))


@pytest.mark.extended
async def test_a_lock_for_each_pop_against_a_pipe_of_its_own(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message at a time: with a lock each pop waits for conditional writes; the owner of a pipe does not."""
    record(monkeypatch)
    found = {}
    for name, options in {"owned": {}, "locked": {"StrictFifo": "locked"}}.items():
        async with open_processes(cassandra_address, Clock(), Clock()) as processes:
            found[name] = await _handle(processes, 1, **options)
    print(found)
    assert found["owned"].conditional < 0.2
    assert found["locked"].conditional >= 1
    assert found["locked"].statements > 1.3 * found["owned"].statements


@pytest.mark.extended
async def test_more_clients_cost_no_more_for_each_message(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pusher and each popper has pipes of its own, so that the rate grows with their number, as far as Cassandra
    and the cores do."""
    record(monkeypatch)
    found = {}
    for clients in (1, 2, 4):
        async with open_processes(cassandra_address, *[Clock() for _ in range(2 * clients)]) as processes:
            found[clients] = await _handle(processes, BATCH, MaxPopWidth="1")
    print(found)
    assert found[4].statements < 1.2 * found[1].statements
    assert found[4].conditional < 1.5 * found[1].conditional
    assert found[4].least > BATCHES * BATCH // 2, "each popper has its share"
