"""A process is killed at each of its statements, before the statement is sent or before its answer comes. Another
process then finds what was acknowledged, and nothing that was deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cqs.engines.contract import Change, Settlement
from tests.conformance.support import DONE, GONE, HIDE_MS, QueueFixture, bodies
from tests.integration.cqs.engines.bdqs.bdqs_processes import Process, ProcessDied, advance, running, sessions
from tests.marks import extended, first

STATEMENTS_MAX = 20
LONG_MS = 10 * HIDE_MS

Operation = Callable[[Process, QueueFixture], Awaitable[bool]]


async def _send(process: Process, _: QueueFixture) -> bool:
    await process.queue.send(b"sent")
    return True


async def _receive(process: Process, _: QueueFixture) -> bool:
    await process.queue.take(10)
    return True


async def _receive_and_delete(process: Process, _: QueueFixture) -> bool:
    return await process.queue.delete(*await process.queue.take(10)) == [DONE] * 2


async def _receive_and_hide(process: Process, _: QueueFixture) -> bool:
    message = await process.queue.take_one()
    return await process.queue.hide(message, LONG_MS) == DONE


async def _receive_and_change_body(process: Process, _: QueueFixture) -> bool:
    queue, message = process.queue, await process.queue.take_one()
    changes = [Change(message.handle, queue.now_ms + HIDE_MS, b"changed")]
    return await queue.engine.change(queue.q, changes, queue.now_ms) == [DONE]


async def _move(process: Process, target: QueueFixture) -> bool:
    queue, message = process.queue, await process.queue.take_one()
    moved = target.entry(message.body)
    settlement = Settlement(deletes=((queue.q, message.handle),), sends=((target.q, moved),))
    return (await queue.engine.settle(settlement, queue.now_ms)).deletes == (DONE,)


OPERATIONS: dict[str, Operation] = {
    "send": _send,
    "receive": _receive,
    "delete": _receive_and_delete,
    "hide": _receive_and_hide,
    "body": _receive_and_change_body,
    "move": _move,
}


async def _killed(process: Process, operation: Operation, target: QueueFixture, number: int, applied: bool) -> bool:
    """Whether the operation was acknowledged. A process that died keeps no task that would go on."""
    process.die_at(number, applied=applied)
    working: asyncio.Future[bool] = asyncio.ensure_future(operation(process, target))
    try:
        return await working
    except ProcessDied:
        return False


async def _check(name: str, done: bool, other: Process, target: QueueFixture) -> None:
    """Each message that the process left comes once, now or after its timeout, and never after a delete."""
    queue = other.queue
    held = await queue.drain()
    advance(2 * LONG_MS, other)
    target.now_ms = queue.now_ms
    late = await queue.drain(4 * LONG_MS)
    found = {message.id: message for message in (*held, *late)}
    there, moved = sorted(bodies(found.values())), bodies(await target.drain())
    match name:
        case "send":
            assert there in ([b"1", b"2", b"sent"], *([] if done else [[b"1", b"2"]]))
        case "receive" | "hide":
            assert there == [b"1", b"2"]
        case "delete":
            assert there == [] if done else set(there) <= {b"1", b"2"}
        case "body":
            assert there in ([b"2", b"changed"], *([] if done else [[b"1", b"2"]]))
        case "move":
            assert sorted({*there, *moved}) == [b"1", b"2"]
            assert not done or not set(there) & set(moved)
    assert len(late) == len({message.id for message in late})
    newest = list(found.values())
    assert set(await queue.delete(*newest)) <= {DONE, GONE}
    advance(10 * LONG_MS, other)
    assert not await queue.drain()
    assert await queue.counts() == (0, 0, 0)


@pytest.mark.parametrize("consistency", first(["quorum", "serial"]))
@pytest.mark.parametrize("name", ["receive", *extended("send", "delete", "hide", "body", "move")])
async def test_killed_at_any_statement(cassandra_address: CassandraAddress, name: str, consistency: str) -> None:
    acknowledged, number = False, 0
    async with sessions(cassandra_address, 2) as connected:
        while not acknowledged:
            number += 1
            assert number < STATEMENTS_MAX
            for applied in (False, True):
                async with running(connected, Consistency=consistency) as (victim, other):
                    await other.queue.send(b"1")
                    await other.queue.send(b"2")
                    target = QueueFixture(other.engine, other.queue.clock)
                    target.now_ms = other.queue.now_ms
                    acknowledged = await _killed(victim, OPERATIONS[name], target, number, applied)
                    await _check(name, acknowledged, other, target)
