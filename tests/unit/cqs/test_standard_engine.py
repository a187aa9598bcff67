"""Shared parts of the engines on Cassandra: an error of one queue does not keep the others from being maintained and
polled."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cqs.engines.cassandra.generations import DROPPED
from cqs.engines.cassandra.known_queues import maintain_each
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
    done = await maintain_each([queue("a"), queue("broken"), queue("gone", DROPPED), queue("b")], maintain, 10)
    assert maintain.calls == [("a", 10), ("broken", 8), ("b", 8)]
    assert done == 4


async def test_maintenance_ends_with_its_budget() -> None:
    maintain = Maintainer()
    assert await maintain_each([queue("a"), queue("b"), queue("c")], maintain, 3) == 4
    assert maintain.calls == [("a", 3), ("b", 1)]


class PolledEngine(StandardQueueEngine):
    """Polls, and does nothing else."""

    def __init__(self, waiters: WaiterRegistry) -> None:
        self._waiters = waiters
        self.polled: list[str] = []

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
