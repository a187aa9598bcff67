"""Shared parts of the engines on Cassandra: an error of one queue does not keep the others from being maintained and
polled."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from cns_common.clock import Clock
from cns_common.durations import HOUR_S
from cns_common.errors import StoreUnavailable
from cqs.engines.cassandra.background import background_steps
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cassandra.known_queues import MaintenanceTurns
from cqs.engines.cassandra.standard_engine import POLLS_AT_ONCE, StandardQueueEngine
from cqs.engines.contract import QueueRef
from cqs.engines.waiters import LocalWaiter, WaiterRegistry


@dataclass
class Queue:
    q: QueueRef
    generation: int = 0


def queue(name: str, generation: int = 0) -> Queue:
    return Queue(QueueRef(name, False, 1_000), generation)


class Maintainer:
    """Uses up two of the budget for each queue; fails for the queue `broken`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    async def __call__(self, one: Queue, left: int) -> int:
        self.calls.append((one.q.id, left))
        if one.q.id == "broken":
            raise StoreUnavailable("away")
        return 2


async def test_maintenance_goes_on_after_an_error_and_passes_over_dropped_queues() -> None:
    maintain = Maintainer()
    done = await MaintenanceTurns([queue("a"), queue("broken"), queue("gone", DROPPED), queue("b")], at_once=4).step(
        maintain, 10
    )
    assert maintain.calls == [("a", 10), ("broken", 8), ("b", 8)]
    assert done == 4


async def test_maintenance_ends_with_its_budget_and_goes_on_there() -> None:
    """A queue with endless work does not keep the others waiting."""
    maintain, turns = Maintainer(), MaintenanceTurns([queue("a"), queue("b"), queue("c")], at_once=3)
    assert [await turns.step(maintain, 3) for _ in range(3)] == [4, 4, 4]
    assert maintain.calls == [("a", 3), ("b", 1), ("c", 3), ("a", 1), ("b", 3), ("c", 1)]


async def test_maintenance_of_many_queues_takes_some_at_a_time() -> None:
    maintain, turns = Maintainer(), MaintenanceTurns([queue("a"), queue("b"), queue("c")], at_once=2)
    assert [await turns.step(maintain, 9) for _ in range(2)] == [4, 4]
    assert [name for name, _ in maintain.calls] == ["a", "b", "c", "a"]


async def test_a_background_step_with_more_to_do_does_not_wait_for_its_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, done, pauses, sleep = [True, True, False], asyncio.Event(), list[float](), asyncio.sleep

    async def record(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def step() -> bool:
        if not left:
            done.set()
            return False
        return left.pop(0)

    monkeypatch.setattr(asyncio, "sleep", record)
    async with background_steps((step, HOUR_S)):
        await done.wait()
    assert [seconds == HOUR_S for seconds in pauses[:4]] == [True, False, False, True]


class PolledEngine(StandardQueueEngine):
    """Polls, and does nothing else."""

    def __init__(self, waiters: WaiterRegistry) -> None:
        self._waiters = waiters
        self.polled: list[str] = []

    async def clear_garbage(self, budget: int) -> int:
        return 0

    async def maintain_queues(self, budget: int, now_ms: int) -> int:
        return 0

    async def _poll(self, queue_id: str) -> None:
        self.polled.append(queue_id)
        if queue_id == "q0":
            raise StoreUnavailable("away")


async def test_a_poll_looks_at_all_queues_before_it_fails() -> None:
    waiters = WaiterRegistry(Clock())
    names = [f"q{number}" for number in range(2 * POLLS_AT_ONCE + 1)]
    for name in names:
        LocalWaiter(waiters, name)
    engine = PolledEngine(waiters)  # type: ignore[abstract]  # the test needs no other operation
    with pytest.raises(StoreUnavailable, match="away"):
        await engine.poll_step()
    assert engine.polled == names
