"""Move tasks whose runs are requested from outside, as by Celery, and which go on by themselves when no run begins."""

from __future__ import annotations

import asyncio

import pytest

from cns_workers.background import leased_tasks
from cqs.redrive.mover import MOVE_LEASE_MS
from cqs.redrive.task import task_handle
from lab.harness.waiting import PATIENCE_S
from tests.integration.cqs.queues.move_task_fixture import MoveTaskFixture, move_site
from tests.integration.cqs.sqs import Sqs

RUNNING, DONE = "RUNNING", "COMPLETED"


class RequestedRuns:
    """Records the requested runs; `answer` is whether a run could be requested."""

    def __init__(self) -> None:
        self.records: list[tuple[str, str]] = []
        self.answer = True

    def __call__(self, kind: str, record: str) -> bool:
        self.records.append((kind, record))
        return self.answer


@pytest.fixture
async def fixture(sqs: Sqs, monkeypatch: pytest.MonkeyPatch) -> MoveTaskFixture:
    fixture = await move_site(sqs)
    monkeypatch.setattr("cns_workers.background.move_tasks.MoveTasks.poll_interval_s", 0.0)
    return fixture


@pytest.fixture
def asked(fixture: MoveTaskFixture) -> RequestedRuns:
    asked = RequestedRuns()
    fixture.runner.trigger = asked
    return asked


async def started(fixture: MoveTaskFixture, *bodies: str) -> str:
    """The id of a move task that was begun for these messages."""
    await fixture.die(*bodies)
    handle = await fixture.start()
    (task,) = await fixture.tasks.store.active()
    assert task_handle(task) == handle
    return task.id


async def status(fixture: MoveTaskFixture) -> str:
    return str((await fixture.listed())[0]["Status"])


async def test_it_is_asked_for_once_and_the_run_from_outside_does_it(
    fixture: MoveTaskFixture, asked: RequestedRuns
) -> None:
    task_id = await started(fixture, "a", "b")
    for _ in range(5):
        await fixture.runner.step()
    assert asked.records == [("move", task_id)]
    assert await status(fixture) == RUNNING
    runs = await asyncio.gather(*[fixture.runner.run_until_over(task_id) for _ in range(3)])
    assert sorted(runs) == [False, False, True]
    assert await status(fixture) == DONE
    assert not await fixture.runner.run_until_over(task_id), "it is over"
    assert (await fixture.sqs.counts(fixture.source))[0] == 2


async def test_what_nobody_begins_the_loop_runs(
    fixture: MoveTaskFixture, asked: RequestedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased_tasks, "TRIGGER_GRACE_S", 0.0)
    await started(fixture, "a")
    assert (await fixture.end())["Status"] == DONE
    assert len(asked.records) == 1


async def test_without_a_broker_the_loop_runs_it_at_once(fixture: MoveTaskFixture, asked: RequestedRuns) -> None:
    asked.answer = False
    await started(fixture, "a")
    assert (await fixture.end())["Status"] == DONE


async def test_a_sweep_asks_again_for_what_does_not_run_here(fixture: MoveTaskFixture, asked: RequestedRuns) -> None:
    task_id = await started(fixture, "a")
    assert [await fixture.runner.sweep() for _ in range(2)] == [1, 1]
    assert asked.records == [("move", task_id)] * 2
    assert await fixture.runner.run_until_over(task_id)
    assert await fixture.runner.sweep() == 0


@pytest.mark.extended
async def test_a_stop_ends_the_run_and_another_worker_continues(fixture: MoveTaskFixture, asked: RequestedRuns) -> None:
    await fixture.die("a", "b", "c")
    await fixture.start(MaxNumberOfMessagesPerSecond=1)
    (task,) = await fixture.tasks.store.active()
    run = asyncio.create_task(fixture.runner.run_until_over(task.id))
    async with asyncio.timeout(PATIENCE_S):
        while not (await fixture.listed())[0]["ApproximateNumberOfMessagesMoved"]:
            await asyncio.sleep(0.01)  # waits as the runner does between its steps
    await fixture.runner.close()
    assert await run
    assert await status(fixture) == RUNNING
    other = MoveTaskFixture(fixture.sqs, fixture.source, fixture.dead, fixture.other)
    ending = asyncio.create_task(other.end())
    while (await fixture.sqs.counts(fixture.source))[0] < 3:
        await asyncio.sleep(0.01)  # waits as the runner does between its steps
    fixture.sqs.clock.advance(MOVE_LEASE_MS)  # the first worker may have leased messages for that long
    assert (await ending)["Status"] == DONE
    assert (await fixture.sqs.counts(fixture.source))[0] == 3
