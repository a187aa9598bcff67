"""The queue of a pool's thread: groups take turns, and none waits for another's burst."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from threading import Event

import pytest

from cns.endpoints.contract import Request
from cns.endpoints.http import EndpointRequest
from cns.endpoints.outcome import Delivered, Outcome
from cns_workers.delivery.pool.fair_queue import FairQueue, MakeRequest, PoolSend
from cns_workers.delivery.pool.pool import POLL_INTERVAL_S, WAITING_MAX, DeliveryPool
from cns_workers.delivery.pool.thread import STARTS_A_TURN
from lab.harness.waiting import PATIENCE_S

BURST = 1_000
OK = Delivered(200, 0)


class Sender:
    """Answers one turn of the loop later, and records the calls."""

    def __init__(self, happened: list[str]) -> None:
        self._happened = happened

    async def send(self, request: Request) -> Outcome:
        assert isinstance(request, EndpointRequest)
        self._happened.append(request.url)
        await asyncio.sleep(0)
        self._happened.append(f"{request.url} answered")
        return OK

    async def close(self) -> None: ...


@pytest.fixture
def happened() -> list[str]:
    return []


@pytest.fixture
async def pool(happened: list[str]) -> AsyncIterator[DeliveryPool]:
    pool = DeliveryPool("delivery", 1, lambda: Sender(happened))
    yield pool
    assert await pool.close(PATIENCE_S) == 0


def request(name: str) -> MakeRequest:
    return lambda: EndpointRequest(name, {}, b"")


def taken(queue: FairQueue) -> str:
    names = []
    while (send := queue.take()) is not None:
        request = send.make_request()
        assert isinstance(request, EndpointRequest)
        names.append(request.url)
    return " ".join(names)


@pytest.mark.parametrize(
    ("put", "taken_as"),
    [
        ("", ""),
        ("a1 a2 a3", "a1 a2 a3"),
        ("a1 a2 a3 b1", "a1 b1 a2 a3"),
        ("a1 a2 a3 b1 b2 c1", "a1 b1 c1 a2 b2 a3"),
        ("b1 a1 a2 b2 a3 b3", "b1 a1 b2 a2 b3 a3"),
    ],
)
async def test_groups_take_turns_and_each_keeps_its_order(put: str, taken_as: str) -> None:
    queue = FairQueue()
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    for name in put.split():
        queue.put(PoolSend(request(name), future, name[0]))
    assert queue.size == len(put.split())
    assert taken(queue) == taken_as
    assert queue.size == 0


async def send_together(pool: DeliveryPool, groups: Sequence[str]) -> None:
    """All are in the queue when the first begins."""
    go = Event()

    def wait() -> Request:
        go.wait(PATIENCE_S)
        return EndpointRequest("first", {}, b"")

    sends = [pool.send(wait, "a"), *[pool.send(request(group), group) for group in groups]]
    go.set()
    await asyncio.wait_for(asyncio.gather(*sends), PATIENCE_S)


async def test_one_who_comes_after_a_burst_begins_among_the_first(pool: DeliveryPool, happened: list[str]) -> None:
    await send_together(pool, ["a"] * BURST + ["b"])
    begun = [each for each in happened if "answered" not in each]
    assert begun.index("b") <= 2
    assert begun.count("a") == BURST


async def test_answers_are_read_in_the_midst_of_a_burst(pool: DeliveryPool, happened: list[str]) -> None:
    await send_together(pool, ["a"] * BURST)
    assert happened.index("a answered") <= 2 * STARTS_A_TURN


async def test_no_more_jobs_are_taken_while_too_much_waits(pool: DeliveryPool) -> None:
    go = Event()

    def wait() -> Request:
        go.wait(PATIENCE_S)
        return EndpointRequest("first", {}, b"")

    assert await pool.room() == WAITING_MAX
    sends = [pool.send(wait, "a"), *[pool.send(request("a"), "a") for _ in range(WAITING_MAX + 1)]]
    room = asyncio.ensure_future(pool.room())
    await asyncio.wait([room], timeout=2 * POLL_INTERVAL_S)
    assert not room.done()
    go.set()
    assert await asyncio.wait_for(room, PATIENCE_S) > 0
    await asyncio.wait_for(asyncio.gather(*sends), PATIENCE_S)
    assert await pool.room() == WAITING_MAX
