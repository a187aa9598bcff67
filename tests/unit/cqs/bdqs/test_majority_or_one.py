"""The state that all processes of a queue share is read at a majority; queues with one replica read it at one while
there is no majority."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.cassandra.session import Consistency
from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, RequestError, StoreUnavailable
from cqs.engines.bdqs import quorum_fallback
from cqs.engines.bdqs.quorum_fallback import ALONE_MS, LATELY_MS, QuorumFallback
from tests.machine_clocks import MachineClocks

QUORUM, ONE, ALL = Consistency.QUORUM, Consistency.ONE, Consistency.ALL


class Replicas:
    """Answers with the level that was asked for. `quorum`: whether a majority is there. While it `hangs`, a majority
    answers nothing until `go_on`."""

    def __init__(self) -> None:
        self.quorum = True
        self.hangs = False
        self.go_on = asyncio.Event()
        self.asked: list[Consistency] = []

    async def __call__(self, level: Consistency) -> Consistency:
        self.asked.append(level)
        if level is QUORUM and self.hangs:
            await self.go_on.wait()
        if level is QUORUM and not self.quorum:
            raise OutcomeUnknown("timed out")
        return level


async def test_a_majority_is_asked_while_there_is_one() -> None:
    shared, replicas = QuorumFallback(Clock()), Replicas()
    assert [await shared.run("q", level, replicas) for level in (ONE, QUORUM, ALL)] == [QUORUM] * 3


async def test_without_one_a_single_replica_is_asked_for_a_while() -> None:
    machine, replicas = MachineClocks(), Replicas()
    shared = QuorumFallback(machine.clock())
    replicas.quorum = False
    assert await shared.run("q", ONE, replicas) is ONE
    assert await shared.run("q", ONE, replicas) is ONE
    assert replicas.asked == [QUORUM, ONE, ONE], "the second call waits for no majority"
    replicas.quorum = True
    machine.run(ALONE_MS * 1_000_000)
    assert await shared.run("q", ONE, replicas) is QUORUM


async def test_queues_of_several_replicas_fail_without_a_majority() -> None:
    shared, replicas = QuorumFallback(Clock()), Replicas()
    replicas.quorum = False
    with pytest.raises(OutcomeUnknown):
        await shared.run("q", QUORUM, replicas)
    assert replicas.asked == [QUORUM]


async def test_the_error_of_the_last_replica_is_the_callers() -> None:
    async def fail(level: Consistency) -> None:
        raise StoreUnavailable(level.name)

    with pytest.raises(StoreUnavailable, match="ONE"):
        await QuorumFallback(Clock()).run("q", ONE, fail)


async def test_a_queue_without_a_majority_leaves_the_others_theirs() -> None:
    shared, lacking, whole = QuorumFallback(Clock()), Replicas(), Replicas()
    lacking.quorum = False
    assert await shared.run("a", ONE, lacking) is ONE
    assert await shared.run("b", ONE, whole) is QUORUM
    assert await shared.run("a", ONE, lacking) is ONE


async def test_an_error_of_another_kind_says_nothing_of_replicas() -> None:
    async def refuse(level: Consistency) -> Consistency:
        raise RequestError("Refused", level.name)

    shared, replicas = QuorumFallback(Clock()), Replicas()
    with pytest.raises(RequestError, match="QUORUM"):
        await shared.run("q", ONE, refuse)
    assert await shared.run("q", ONE, replicas) is QUORUM


async def _alone_a_while_ago() -> tuple[QuorumFallback, Replicas, MachineClocks]:
    machine, replicas = MachineClocks(), Replicas()
    shared = QuorumFallback(machine.clock())
    replicas.quorum = False
    await shared.run("q", ONE, replicas)
    machine.run(ALONE_MS * 1_000_000)
    replicas.quorum = True
    replicas.asked.clear()
    return shared, replicas, machine


async def test_one_caller_asks_a_majority_again_and_the_others_do_not_wait() -> None:
    shared, replicas, _ = await _alone_a_while_ago()
    replicas.hangs = True
    asking = asyncio.create_task(shared.run("q", ONE, replicas))
    await asyncio.sleep(0)
    assert [await shared.run("q", ONE, replicas) for _ in range(3)] == [ONE] * 3
    replicas.go_on.set()
    assert await asking is QUORUM
    replicas.asked.clear()
    assert [*await asyncio.gather(*[shared.run("q", ONE, replicas) for _ in range(3)])] == [QUORUM] * 3


async def test_it_waits_for_a_short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_fallback, "PROBE_S", 0.001)
    shared, replicas, machine = await _alone_a_while_ago()
    replicas.hangs = True
    for _ in range(2):
        assert [await shared.run("q", ONE, replicas) for _ in range(2)] == [ONE] * 2
        assert replicas.asked == [QUORUM, ONE, ONE]
        replicas.asked.clear()
        machine.run(ALONE_MS * 1_000_000)


async def test_a_caller_that_leaves_lets_another_one_ask() -> None:
    shared, replicas, _ = await _alone_a_while_ago()
    replicas.hangs = True
    asking = asyncio.create_task(shared.run("q", ONE, replicas))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait({asking})
    replicas.hangs = False
    assert await shared.run("q", ONE, replicas) is QUORUM


async def test_long_after_all_callers_ask_a_majority() -> None:
    shared, replicas, machine = await _alone_a_while_ago()
    machine.run(LATELY_MS * 1_000_000)
    replicas.hangs = True
    calls = [asyncio.create_task(shared.run("q", ONE, replicas)) for _ in range(2)]
    await asyncio.sleep(0)
    replicas.go_on.set()
    assert await asyncio.gather(*calls) == [QUORUM] * 2
