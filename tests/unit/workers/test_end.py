"""The end of a worker: work that hangs, and work that takes no notice of its cancellation, do not keep it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_common import task_cancellation
from cns_common.clock import Clock
from cns_workers.background import leased_tasks
from cns_workers.background.leased_tasks import LeasedTaskRunner, TaskRun
from cns_workers.consumers.running_jobs import RunningJobs
from cns_workers.loops import Loops
from cns_workers.stats import Stats
from lab.harness.waiting import PATIENCE_S

SHORT_S = 0.01


class RecordedTask(NamedTuple):
    id: str


class HangingKind:
    """One task, whose step waits for an answer that never comes."""

    name = "hanging"
    poll_interval_s = 0.0

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def active(self) -> Sequence[RecordedTask]:
        return [RecordedTask("t")]

    async def run(self, task: RecordedTask, run: TaskRun) -> float:
        self.begun.set()
        await asyncio.Event().wait()
        return 0.0


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """A task swallows its cancellations until this is set."""
    monkeypatch.setattr(task_cancellation, "CANCEL_S_MAX", SHORT_S)
    return asyncio.Event()


async def _swallow(until: asyncio.Event) -> None:
    while not until.is_set():
        try:
            await until.wait()
        except asyncio.CancelledError:
            continue


async def test_a_step_of_a_task_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leased_tasks, "STEP_S_MAX", SHORT_S)
    kind, leases, clock = HangingKind(), EmbeddedLeaseStore(), Clock()
    runner = LeasedTaskRunner(kind, leases, clock)
    await runner.step()
    await kind.begun.wait()
    async with asyncio.timeout(PATIENCE_S):
        await runner.close()
    assert await leases.take(kind.name, "t", "another worker", 1_000, clock.now_ms()), "its lease was given back"


async def test_a_loop_that_is_not_cancelled(stubborn: asyncio.Event) -> None:
    loops = Loops()
    loops.start("stubborn", lambda: _swallow(stubborn))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await loops.stop(cancel=(), grace_s=SHORT_S)
    stubborn.set()


async def test_a_job_that_is_not_cancelled(stubborn: asyncio.Event) -> None:
    jobs = RunningJobs("q", Stats(), 1)
    jobs.start(_swallow(stubborn))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        assert await jobs.drain(SHORT_S) == 1
    stubborn.set()
