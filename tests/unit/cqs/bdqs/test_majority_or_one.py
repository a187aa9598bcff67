"""What all processes of a queue share is on a majority; of queues with one replica on one while there is none."""

from __future__ import annotations

import pytest

from cns_common.cassandra.session import Consistency
from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cqs.engines.bdqs.majority_or_one import ALONE_MS, MajorityOrOne
from tests.machine_clocks import MachineClocks

QUORUM, ONE, ALL = Consistency.QUORUM, Consistency.ONE, Consistency.ALL


class Replicas:
    """Answers with the level that was asked for. `quorum`: whether a majority is there."""

    def __init__(self) -> None:
        self.quorum = True
        self.asked: list[Consistency] = []

    async def __call__(self, level: Consistency) -> Consistency:
        self.asked.append(level)
        if level is QUORUM and not self.quorum:
            raise OutcomeUnknown("timed out")
        return level


async def test_a_majority_is_asked_while_there_is_one() -> None:
    shared, replicas = MajorityOrOne(Clock()), Replicas()
    assert [await shared.run(level, replicas) for level in (ONE, QUORUM, ALL)] == [QUORUM] * 3


async def test_without_one_a_single_replica_is_asked_for_a_while() -> None:
    machine, replicas = MachineClocks(), Replicas()
    shared = MajorityOrOne(machine.clock())
    replicas.quorum = False
    assert await shared.run(ONE, replicas) is ONE
    assert await shared.run(ONE, replicas) is ONE
    assert replicas.asked == [QUORUM, ONE, ONE], "the second call waits for no majority"
    replicas.quorum = True
    machine.run(ALONE_MS * 1_000_000)
    assert await shared.run(ONE, replicas) is QUORUM


async def test_queues_of_several_replicas_fail_without_a_majority() -> None:
    shared, replicas = MajorityOrOne(Clock()), Replicas()
    replicas.quorum = False
    with pytest.raises(OutcomeUnknown):
        await shared.run(QUORUM, replicas)
    assert replicas.asked == [QUORUM]


async def test_the_error_of_the_last_replica_is_the_callers() -> None:
    async def fail(level: Consistency) -> None:
        raise StoreUnavailable(level.name)

    with pytest.raises(StoreUnavailable, match="ONE"):
        await MajorityOrOne(Clock()).run(ONE, fail)
