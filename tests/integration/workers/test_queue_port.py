"""The queue port's contract for jobs, over both of its drivers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from cns.delivery.jobs import ENDPOINT_JOBS, FIFO_PUBLISH_JOBS, INTERNAL_QUEUES, PUBLISH_JOBS, QUARANTINE, REDELIVERY
from cns.queue_port.contract import LeasedJob, NewJob, QueuePort, Renewal
from cqs.internal_queues import internal_ref
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.queue_ports import Cqs, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

DRIVERS = ("inline", "http")
LEASE_MS = 30_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cqs]:
    async with serving(tmp_path_factory.mktemp("cqs") / "data") as cqs:
        yield cqs


@pytest_asyncio.fixture(loop_scope="module")
async def cqs(running: Cqs) -> Cqs:
    """With no job in it, and no queue that a test knows."""
    for name in INTERNAL_QUEUES:
        await running.backend.engine.purge(internal_ref(name), running.clock.now_ms())
    return running


@pytest_asyncio.fixture(params=DRIVERS, loop_scope="module")
async def port(request: pytest.FixtureRequest, cqs: Cqs) -> AsyncIterator[QueuePort]:
    async with cqs.port(request.param) as opened:
        yield opened


def put(name: str, queue: str = PUBLISH_JOBS, *, body: bytes = b"job", delay_ms: int = 0) -> NewJob:
    return NewJob(queue, name, body, "111111111111", delay_ms)


async def bodies(port: QueuePort, queue: str, n: int = 10) -> list[bytes]:
    return [held.body for held in await port.receive(queue, n, LEASE_MS, 0)]


# -- jobs -------------------------------------------------------------------------------------------------------------


async def test_a_job_comes_back_as_it_was_put(port: QueuePort, cqs: Cqs) -> None:
    body = os.urandom(100_000)
    from_ms = cqs.clock.now_ms()
    await port.enqueue([put("p/1", body=body)])
    (held,) = await port.receive(PUBLISH_JOBS, 10, LEASE_MS, 0)
    assert (held.id, held.body, held.deliveries) == ("p/1", body, 1)
    assert from_ms <= held.sent_ms <= cqs.clock.now_ms()
    assert await port.receive(PUBLISH_JOBS, 10, LEASE_MS, 0) == []


async def test_a_job_of_two_mebibytes(port: QueuePort) -> None:
    body = bytes(2 * 1024 * 1024)
    await port.enqueue([put("large", body=body)])
    assert await bodies(port, PUBLISH_JOBS) == [body]


async def test_jobs_go_to_several_queues_at_once(port: QueuePort) -> None:
    await port.enqueue([put("a"), put("b", ENDPOINT_JOBS), put("c", ENDPOINT_JOBS)])
    await port.enqueue([])
    assert [await port.depth(name) for name in (PUBLISH_JOBS, ENDPOINT_JOBS, REDELIVERY)] == [1, 2, 0]


async def test_a_delayed_job_waits(port: QueuePort, cqs: Cqs) -> None:
    await port.enqueue([put("later", delay_ms=3_600_000)])
    assert await bodies(port, PUBLISH_JOBS) == []
    assert await port.depth(PUBLISH_JOBS) == 1
    cqs.clock.advance(3_600_001)
    assert await bodies(port, PUBLISH_JOBS) == [b"job"]


async def test_no_more_than_asked_for(port: QueuePort) -> None:
    await port.enqueue([put(str(number)) for number in range(5)])
    assert len(await bodies(port, PUBLISH_JOBS, 2)) == 2
    assert await port.depth(PUBLISH_JOBS) == 5


async def test_a_lease_that_runs_out_counts(port: QueuePort, cqs: Cqs) -> None:
    await port.enqueue([put("a")])
    (first,) = await port.receive(PUBLISH_JOBS, 1, LEASE_MS, 0)
    cqs.clock.advance(LEASE_MS + 1)
    (second,) = await port.receive(PUBLISH_JOBS, 1, LEASE_MS, 0)
    assert (second.id, second.deliveries) == ("a", 2)
    assert await port.settle(PUBLISH_JOBS, [first.handle, second.handle]) == [False, True]
    assert await port.depth(PUBLISH_JOBS) == 0


async def test_settling_deletes_puts_and_renews(port: QueuePort) -> None:
    await port.enqueue([put("done"), put("going on")])
    done, going_on = sorted(await port.receive(PUBLISH_JOBS, 2, LEASE_MS, 0), key=lambda held: held.id)
    renewal = Renewal(PUBLISH_JOBS, going_on.handle, LEASE_MS, b"the rest")
    settled = await port.settle(PUBLISH_JOBS, [done.handle], [put("next", ENDPOINT_JOBS)], [renewal])
    assert settled == [True]
    assert [await port.depth(name) for name in (PUBLISH_JOBS, ENDPOINT_JOBS)] == [1, 1]
    give_back = Renewal(PUBLISH_JOBS, going_on.handle, 0)
    assert await port.settle(PUBLISH_JOBS, renewals=[give_back]) == []
    assert await bodies(port, PUBLISH_JOBS) == [b"the rest"]


async def test_a_renewal_prolongs_the_lease(port: QueuePort, cqs: Cqs) -> None:
    await port.enqueue([put("a")])
    (held,) = await port.receive(PUBLISH_JOBS, 1, LEASE_MS, 0)
    await port.settle(PUBLISH_JOBS, renewals=[Renewal(PUBLISH_JOBS, held.handle, 2 * LEASE_MS)])
    cqs.clock.advance(LEASE_MS + 1)
    assert await bodies(port, PUBLISH_JOBS) == []
    cqs.clock.advance(LEASE_MS)
    assert await bodies(port, PUBLISH_JOBS) == [b"job"]


async def test_settling_with_a_handle_that_was_used(port: QueuePort) -> None:
    await port.enqueue([put("a")])
    (held,) = await port.receive(PUBLISH_JOBS, 1, LEASE_MS, 0)
    assert await port.settle(PUBLISH_JOBS, [held.handle]) == [True]
    assert await port.settle(PUBLISH_JOBS, [held.handle], [put("b", QUARANTINE)]) == [False]
    assert await port.depth(QUARANTINE) == 1  # the put counts, whether or not the lease was valid


async def test_many_at_once_each_get_their_own_answer(port: QueuePort) -> None:
    await asyncio.gather(*[port.enqueue([put(str(number))]) for number in range(30)])
    held = [each for _ in range(3) for each in await port.receive(PUBLISH_JOBS, 10, LEASE_MS, 0)]
    handles = [each.handle for each in held]
    await port.settle(PUBLISH_JOBS, handles[:10])
    settled = await asyncio.gather(*[port.settle(PUBLISH_JOBS, [handle]) for handle in handles])
    assert settled == [[False]] * 10 + [[True]] * 20


async def test_what_one_driver_puts_the_other_holds(cqs: Cqs) -> None:
    """The driver can be changed while jobs wait."""
    async with cqs.port("inline") as inline, cqs.port("http") as http:
        await inline.enqueue([put("inline")])
        assert [held.id for held in await http.receive(PUBLISH_JOBS, 10, LEASE_MS, 0)] == ["inline"]
        await http.enqueue([put("http")])
        assert [held.id for held in await inline.receive(PUBLISH_JOBS, 10, LEASE_MS, 0)] == ["http"]


# -- jobs in order ----------------------------------------------------------------------------------------------------


def in_order(name: str, group: str = "g", *, dedup: str = "") -> NewJob:
    return NewJob(FIFO_PUBLISH_JOBS, name, name.encode(), group, dedup=dedup or name)


async def test_jobs_of_a_group_come_in_order_and_alone(port: QueuePort) -> None:
    numbered = await port.enqueue_in_order([in_order("1"), in_order("2"), in_order("3", "other")])
    assert [each.id for each in numbered] == ["1", "2", "3"]
    numbers = [each.sequence_number for each in numbered]
    assert numbers == sorted(numbers)
    assert {len(number) for number in numbers} == {20}
    first, second, other = await port.receive(FIFO_PUBLISH_JOBS, 10, LEASE_MS, 0)
    assert [held.sequence_number for held in (first, second, other)] == numbers
    assert [held.group for held in (first, second, other)] == ["g", "g", "other"]
    await port.enqueue_in_order([in_order("4")])
    assert await port.settle(FIFO_PUBLISH_JOBS, [first.handle]) == [True]
    assert await port.receive(FIFO_PUBLISH_JOBS, 10, LEASE_MS, 0) == []
    later = Renewal(FIFO_PUBLISH_JOBS, second.handle, 0, b"again")
    await port.settle(FIFO_PUBLISH_JOBS, renewals=[later])
    assert await bodies(port, FIFO_PUBLISH_JOBS) == [b"again", b"4"]


async def test_a_duplicate_is_told_of_the_first(port: QueuePort) -> None:
    (first,) = await port.enqueue_in_order([in_order("1", dedup="d")])
    again, new = await port.enqueue_in_order([in_order("2", "other", dedup="d"), in_order("3", dedup="e")])
    assert (again.id, again.sequence_number, again.duplicate) == ("1", first.sequence_number, True)
    assert (new.id, new.duplicate, first.duplicate) == ("3", False, False)
    await port.settle(FIFO_PUBLISH_JOBS, new_jobs=[in_order("4", dedup="e")])
    assert await port.depth(FIFO_PUBLISH_JOBS) == 2


# -- waiting ----------------------------------------------------------------------------------------------------------


async def test_a_waiting_receive_is_woken(port: QueuePort, cqs: Cqs) -> None:
    waiting = await _waiting(port, cqs)
    await port.enqueue([put("a")])
    assert [held.id for held in await waiting] == ["a"]


async def test_a_receive_that_waits_ends_when_told(port: QueuePort, cqs: Cqs) -> None:
    waiting = await _waiting(port, cqs)
    port.stop_waiting()
    assert await waiting == []
    await port.enqueue([put("a")])
    assert await bodies(port, PUBLISH_JOBS) == [b"job"]  # the job in the queue is still received
    assert await port.receive(PUBLISH_JOBS, 1, LEASE_MS, 20) == []


async def test_who_is_cancelled_while_waits_end_is_cancelled(port: QueuePort, cqs: Cqs) -> None:
    """A cancelled receive ends as cancelled. Else a loop that is to end would go on, and receives that do not wait
    would take every turn of the event loop."""
    waiting = await _waiting(port, cqs)
    port.stop_waiting()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def _waiting(port: QueuePort, cqs: Cqs) -> asyncio.Task[list[LeasedJob]]:
    """A receive that has begun to wait in the engine."""
    waiting = asyncio.create_task(port.receive(PUBLISH_JOBS, 10, LEASE_MS, 20))
    async with asyncio.timeout(PATIENCE_S):
        while not await cqs.polls_waiting():
            await asyncio.sleep(0)
    return waiting


async def test_internal_queues_are_where_they_always_were() -> None:
    """Their ids are in the data of every running service."""
    assert internal_ref(PUBLISH_JOBS).id == "cns/publish-jobs"
    assert internal_ref(PUBLISH_JOBS).retention_ms == 30 * 86_400_000
