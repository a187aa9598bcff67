"""Jobs of a topic begin in the order in which they were received: `cns_workers.consumers.job_order`."""

from __future__ import annotations

import asyncio

import pytest

from cns_workers.consumers import job_order
from cns_workers.consumers.job_order import JobOrder


async def test_what_is_read_first_waits_for_the_jobs_before_it() -> None:
    order, begun = JobOrder(), list[int]()
    read = [asyncio.Event() for _ in range(5)]

    async def run(number: int) -> None:
        turn = order.turn("t")
        await read[number].wait()
        await turn.wait()
        begun.append(number)
        turn.end()

    jobs = [asyncio.create_task(run(number)) for number in range(5)]
    for number in (4, 2, 0, 3, 1):
        read[number].set()
        await asyncio.sleep(0)
    await asyncio.gather(*jobs)
    assert begun == [0, 1, 2, 3, 4]
    assert len(order) == 0


async def test_topics_do_not_wait_for_one_another_nor_for_a_job_that_ended() -> None:
    order = JobOrder()
    first, other, second = order.turn("t"), order.turn("u"), order.turn("t")
    await other.wait()
    waiting = asyncio.create_task(second.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    first.end()
    await waiting
    for turn in (second, other, other):
        turn.end()
    assert len(order) == 0


async def test_a_job_that_never_begins_holds_up_its_topic_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_order, "TURN_WAIT_MAX_S", 0.01)
    order = JobOrder()
    order.turn("t")  # its read hangs
    second, third = order.turn("t"), order.turn("t")
    await second.wait()
    second.end()
    await third.wait()
    third.end()
    fourth = order.turn("t")
    await fourth.wait()
    fourth.end()
    assert len(order) == 0


async def test_a_job_that_ends_without_its_turn_lets_nobody_pass_those_before_it() -> None:
    order = JobOrder()
    first, quarantined, third = order.turn("t"), order.turn("t"), order.turn("t")
    waiting = asyncio.create_task(third.wait())
    await asyncio.sleep(0)
    quarantined.end()
    await asyncio.sleep(0)
    assert not waiting.done()
    first.end()
    await waiting
    late = order.turn("t")
    third.end()
    await late.wait()
