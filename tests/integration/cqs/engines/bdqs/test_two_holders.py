"""Two processes that hold one message: in whatever order their statements arrive, it is neither lost nor comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest
from msgspec.structs import replace

from cns_common.cassandra.connection import CassandraAddress
from cqs.engines.contract import Message, Outcome
from tests.conformance.support import DONE, HIDE_MS, bodies
from tests.integration.cqs.engines.bdqs.bdqs_processes import Process, advance, in_order, running, sessions
from tests.marks import extended, first

Work = Callable[[Process], Awaitable[object]]
RECEIVE_STATEMENTS = 8
DELETE_STATEMENTS = 3
LATER_MS = 3 * HIDE_MS


def schedules(own: int, other: int, *, split: bool) -> Iterator[list[int]]:
    """One process begins, the other interrupts it after each of its statements, and does all of its work. With `split`
    it is interrupted in turn after each of its own."""
    for begins, counts in ((0, (own, other)), (1, (other, own))):
        for before in range(1, counts[0]):
            for between in range(1, counts[1]) if split else (counts[1],):
                yield [begins] * before + [1 - begins] * between + [begins] * (counts[0] - before)


async def _receive(process: Process) -> tuple[Message, ...]:
    return await process.queue.take(1)


def _delete(message: Message) -> Work:
    return lambda process: process.queue.delete(message)


def _hide(message: Message) -> Work:
    return lambda process: process.queue.hide(message, LATER_MS)


async def _together(schedule: Sequence[int], processes: Sequence[Process], works: Sequence[Work]) -> list[object]:
    held = [process.hold() for process in processes]
    tasks = [asyncio.ensure_future(work(process)) for work, process in zip(works, processes, strict=True)]
    await in_order(schedule, held, tasks)
    for process in processes:
        process.free()
    return [task.result() for task in tasks]


async def _nothing_left(*processes: Process) -> None:
    for _ in range(4):
        for process in processes:
            assert not await process.queue.drain()
        advance(LATER_MS, *processes)
    assert await processes[0].queue.counts() == (0, 0, 0)


@pytest.mark.parametrize("consistency", ["quorum", *extended("single", "serial")])
@pytest.mark.parametrize("split", first([False, True]))
async def test_a_message_taken_at_one_moment_by_two(
    cassandra_address: CassandraAddress, split: bool, consistency: str
) -> None:
    """It is delivered to one or to both, and is gone for both and for good once one deleted it."""
    twice = 0
    async with sessions(cassandra_address, 2) as connected:
        for schedule in schedules(RECEIVE_STATEMENTS, RECEIVE_STATEMENTS, split=split):
            async with running(connected, OrderHint="1", Consistency=consistency) as both:
                await both[0].queue.send(b"one")
                taken = await _together(schedule, both, [_receive, _receive])
                holders = [(process, held[0]) for process, held in zip(both, taken, strict=True) if held]  # type: ignore[index]
                assert holders, "a message must not be lost between two receivers"
                twice += len(holders) == 2
                outcomes = [(await process.queue.delete(message))[0] for process, message in holders]
                assert DONE in outcomes
                if outcomes[0] is DONE:
                    assert outcomes[1:] in ([], [Outcome.GONE])
                await _nothing_left(*both)
    if consistency == "serial":
        assert not twice
    if consistency == "single":
        assert twice, "the paper's duplicates"


@pytest.mark.parametrize("consistency", first(["quorum", "serial"]))
@pytest.mark.parametrize("older", [True, *extended(False)])
@pytest.mark.parametrize("other", ["hide", *extended("receive")])
async def test_a_delete_beside_what_another_holder_does(
    cassandra_address: CassandraAddress, consistency: str, older: bool, other: str
) -> None:
    """The first holder deletes while the second hides the message, or while a third receives it."""
    async with sessions(cassandra_address, 2) as connected:
        statements = 4 if other == "hide" else RECEIVE_STATEMENTS
        for schedule in schedules(DELETE_STATEMENTS, statements, split=True):
            async with running(connected, OrderHint="1", Consistency=consistency) as both:
                deleter, keeper = both
                for process in both:
                    process.queue.q = replace(process.queue.q, older_handles=older)
                await deleter.queue.send(b"one")
                first_lease = await deleter.queue.take_one(1_000)
                advance(1_000, *both)
                work: Work = _receive
                if other == "hide":
                    work = _hide(await keeper.queue.take_one(1_000))
                outcome, done = await _together(schedule, both, [_delete(first_lease), work])
                if outcome == [DONE]:
                    await _nothing_left(*both)
                    continue
                assert outcome == [Outcome.STALE]
                received = done if isinstance(done, tuple) else ()
                assert done is DONE or bodies(received) in ([b"one"], [])
                advance(2 * LATER_MS, *both)
                assert bodies(await keeper.queue.drain()) == [b"one"], "a message that nobody deleted"
