"""Delivery pools: no send is lost, sent twice or held up by a thread that leaves, is full, is blocked or dies."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest

from cns.endpoints.contract import Request
from cns.endpoints.http import EndpointRequest
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns_workers.delivery.pool import pool as pools
from cns_workers.delivery.pool.pool import DeliveryPool
from cns_workers.delivery.pool.thread import IN_FLIGHT_MAX, THREAD_ENDED
from lab.harness.waiting import PATIENCE_S

FIRST = "delivery-1"
OK = Delivered(200, 0)


class PoolFixture:
    """One endpoint for all threads of a pool; counts requests by URL."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.answer = threading.Event()
        self.hangs: Callable[[str], bool] = lambda url: False
        self.hanging = 0
        self._lock = threading.Lock()
        self.together = 0
        """This many sends end together, in one turn of their thread's loop."""
        self.raises: dict[str, BaseException] = {}
        self.failing_starts = 0
        self.senders = 0
        self.pool = cast(DeliveryPool, None)

    def start(self, threads: int) -> DeliveryPool:
        self.pool = DeliveryPool("delivery", threads, self._sender)
        return self.pool

    def send(self, url: str, group: str = "a") -> asyncio.Future[Outcome]:
        return self.pool.send(lambda: EndpointRequest(url, {}, b""), group)

    def block(self) -> asyncio.Future[Outcome]:
        """A send whose request blocks its thread until `answer`."""

        def prepare() -> Request:
            self.answer.wait(PATIENCE_S)
            return EndpointRequest("blocked", {}, b"")

        return self.pool.send(prepare, "a")

    def hold(self, n: int) -> None:
        with self._lock:
            self.hanging += n

    def replaced(self, cause: str) -> float:
        found = [sample for sample in self.pool.samples() if ("cause", cause) in sample.labels]
        return sum(sample.value for sample in found)

    def _sender(self) -> _Sender:
        self.failing_starts -= 1
        if self.failing_starts >= 0:
            raise MemoryError("no sender")
        self.senders += 1
        return _Sender(self)


class _Sender:
    def __init__(self, fixture: PoolFixture) -> None:
        self._site = fixture
        self._met = 0
        self._gone = asyncio.Event()
        self._held: list[tuple[str, asyncio.Future[None]]] = []

    async def send(self, request: Request) -> Outcome:
        assert isinstance(request, EndpointRequest)
        url = request.url
        self._site.sent[url] += 1
        if self._hangs(url):
            await self._hold(url)
        if self._site.together:
            await self._meet()
        if url in self._site.raises:
            raise self._site.raises[url]
        return OK

    def _hangs(self, url: str) -> bool:
        return self._site.hangs(url) and not self._site.answer.is_set()

    async def _hold(self, url: str) -> None:
        held = asyncio.get_running_loop().create_future()
        self._held.append((url, held))
        if len(self._held) == 1:
            self._release()
        self._site.hold(1)
        try:
            await held
        finally:
            self._site.hold(-1)

    def _release(self) -> None:
        """One look for all, so that a thread in which a thousand sends hang has time for other things."""
        for url, held in self._held:
            if not held.done() and not self._hangs(url):
                held.set_result(None)
        self._held = [(url, held) for url, held in self._held if not held.done()]
        if self._held:
            asyncio.get_running_loop().call_later(0.01, self._release)

    async def _meet(self) -> None:
        gone = self._gone
        self._met += 1
        if self._met % self._site.together == 0:
            asyncio.get_running_loop().call_later(0.01, gone.set)
            self._gone = asyncio.Event()
        await gone.wait()

    async def close(self) -> None:
        self._site.senders -= 1


@pytest.fixture
async def fixture() -> AsyncIterator[PoolFixture]:
    fixture = PoolFixture()
    yield fixture
    fixture.answer.set()
    assert await fixture.pool.close(PATIENCE_S) == 0
    assert fixture.senders == 0  # every opened sender is closed


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def soon(futures: list[asyncio.Future[Outcome]]) -> list[Outcome]:
    return await asyncio.wait_for(asyncio.gather(*futures), PATIENCE_S)


async def test_what_is_sent_and_what_fails_comes_back(fixture: PoolFixture) -> None:
    fixture.start(2)
    fixture.raises = {"bug": ValueError("bug"), "cancelled": asyncio.CancelledError()}
    assert await soon([fixture.send("a"), fixture.send("b")]) == [OK, OK]
    assert await fixture.send("bug") == Failed(Cause.WORKER, "ValueError: bug", 0), "one attempt, not all of its job"
    assert await fixture.send("cancelled") == THREAD_ENDED
    assert await fixture.send("c") == OK
    assert (fixture.pool.in_flight, fixture.pool.waiting, fixture.replaced("died")) == (0, 0, 0)


@pytest.mark.extended
async def test_resizing_under_5000_sends_loses_none_and_repeats_none(fixture: PoolFixture) -> None:
    pool = fixture.start(2)
    fixture.hangs = lambda url: url.endswith("0")
    sends = []
    for number, size in enumerate((64, 1, 5, 3, 8, 1, 2, 16, 1, 4)):
        sends += [fixture.send(f"{number}-{n}") for n in range(500)]
        pool.resize(size)
        assert pool.size == size
        await asyncio.sleep(0)
    await until(lambda: sum(fixture.sent.values()) == 5_000)
    await until(lambda: (pool.in_flight, pool.waiting) == (500, 0))
    assert pool.draining > 0
    fixture.answer.set()
    assert set(await soon(sends)) == {OK}
    assert set(fixture.sent.values()) == {1}
    await until(lambda: pool.draining == 0)
    assert (pool.size, pool.in_flight) == (4, 0)


async def test_what_waits_for_a_thread_that_leaves_goes_to_the_others(
    fixture: PoolFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        pools, "POLL_INTERVAL_S", PATIENCE_S * 10
    )  # otherwise the thread would leave before it could answer
    pool = fixture.start(2)
    fixture.hangs = lambda url: url != "waits"
    sends = [fixture.send(str(n)) for n in range(2 * IN_FLIGHT_MAX)]
    await until(lambda: len(fixture.sent) == len(sends))
    waiting = [fixture.send("waits") for _ in range(200)]
    pool.resize(1)
    assert (pool.size, pool.draining, pool.in_flight, pool.waiting) == (1, 1, 2 * IN_FLIGHT_MAX, 200)
    fixture.hangs = lambda url: url != "waits" and threading.current_thread().name != FIRST
    assert await soon(waiting) == [OK] * 200
    await until(lambda: pool.in_flight == IN_FLIGHT_MAX)
    fixture.answer.set()
    assert set(await soon(sends)) == {OK}
    assert fixture.sent.pop("waits") == 200
    assert set(fixture.sent.values()) == {1}


@pytest.mark.parametrize("grow", [True, False], ids=["a new thread", "a thread that has room again"])
async def test_what_waits_for_a_full_thread_begins_where_there_is_room(fixture: PoolFixture, grow: bool) -> None:
    pool = fixture.start(1 if grow else 2)
    fixture.hangs = lambda url: threading.current_thread().name == FIRST
    sends = [fixture.send(str(n)) for n in range(pool.size * (IN_FLIGHT_MAX + 100))]
    if grow:
        pool.resize(2)
    await until(lambda: fixture.hanging > 0 and sum(send.done() for send in sends) == len(sends) - fixture.hanging)
    assert fixture.replaced("blocked") == 0  # the thread is busy, but its loop runs


async def test_what_waits_begins_after_all_that_was_under_way_has_ended_in_one_turn(fixture: PoolFixture) -> None:
    """As it does where a thousand sends that hang run into their time-out."""
    fixture.start(1)
    fixture.together = IN_FLIGHT_MAX
    assert set(await soon([fixture.send(str(n)) for n in range(3 * IN_FLIGHT_MAX)])) == {OK}


@pytest.mark.parametrize("threads", [1, 2])
async def test_a_blocked_thread_holds_up_nothing_but_what_it_has_begun(
    fixture: PoolFixture, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Where there is another thread, before it is replaced."""
    pool = fixture.start(threads)
    if threads > 1:
        monkeypatch.setattr(pools, "MISSED_CHECKS_MAX", 10**9)
    blocked = fixture.block()
    await until(lambda: pool.in_flight == 1)
    assert await soon([fixture.send(str(n)) for n in range(100)]) == [OK] * 100  # some waited for that thread
    assert await soon([fixture.send(f"later {n}") for n in range(100)]) == [OK] * 100
    monkeypatch.undo()
    await until(lambda: pool.draining == 1)
    assert (pool.size, pool.blocked, fixture.replaced("blocked")) == (threads, 0, 1)
    assert not blocked.done()
    fixture.answer.set()
    assert await blocked == OK
    await until(lambda: pool.draining == 0)
    assert set(fixture.sent.values()) == {1}


async def test_new_sends_avoid_a_thread_that_does_not_answer(fixture: PoolFixture) -> None:
    pool = fixture.start(2)
    blocked = fixture.block()
    await until(lambda: pool.blocked == 1)
    assert pool._timer is not None
    pool._timer.cancel()  # at a check, messages that wait for that thread would move to the other
    assert await soon([fixture.send(str(n)) for n in range(50)]) == [OK] * 50
    pool._check()
    fixture.answer.set()
    assert await blocked == OK


async def test_a_thread_that_prepares_for_long_is_not_taken_for_blocked(fixture: PoolFixture) -> None:
    """Signatures are made one after another, and its loop answers nothing meanwhile."""
    pool = fixture.start(1)

    def prepare() -> Request:
        threading.Event().wait(0.005)
        return EndpointRequest("slow", {}, b"")

    sends = [pool.send(prepare, "a") for _ in range(400)]
    assert set(await soon(sends)) == {OK}
    assert (pool.draining, fixture.replaced("blocked")) == (0, 0)


@pytest.mark.parametrize("threads", [1, 2])
async def test_a_thread_that_dies_is_replaced_and_its_sends_have_an_outcome(fixture: PoolFixture, threads: int) -> None:
    pool = fixture.start(threads)
    fixture.raises = {"deadly": SystemExit(1)}
    fixture.hangs = lambda url: url.startswith("hangs")
    hanging = [fixture.send(f"hangs {n}") for n in range(10)]
    await until(lambda: pool.in_flight == 10)
    assert await fixture.send("deadly") == THREAD_ENDED
    after = [fixture.send(str(n)) for n in range(100)]
    assert await soon(after) == [OK] * 100
    await until(lambda: fixture.replaced("died") == 1)
    fixture.answer.set()
    outcomes = await soon(hanging)
    broken_off = outcomes.count(THREAD_ENDED)
    assert broken_off == 10 // threads
    assert outcomes.count(OK) == 10 - broken_off
    assert (pool.size, pool.draining, pool.in_flight) == (threads, 0, 0)


async def test_a_thread_that_cannot_start_is_tried_again(fixture: PoolFixture) -> None:
    fixture.failing_starts = 1
    pool = fixture.start(1)
    assert await soon([fixture.send("a"), fixture.send("b")]) == [OK, OK]
    assert (pool.size, fixture.replaced("died")) == (1, 1)


async def test_what_is_broken_off_is_tried_again_and_is_not_the_endpoints_fault() -> None:
    assert isinstance(THREAD_ENDED, Failed)
    assert (THREAD_ENDED.cause, THREAD_ENDED.permanent) == (Cause.WORKER, False)


async def test_closing_waits_for_what_is_under_way(fixture: PoolFixture) -> None:
    pool = fixture.start(3)
    fixture.hangs = lambda url: True
    sends = [fixture.send(str(n)) for n in range(30)]
    pool.resize(2)
    asyncio.get_running_loop().call_later(0.2, fixture.answer.set)
    assert await pool.close(PATIENCE_S) == 0
    assert [send.result() for send in sends] == [OK] * 30


async def test_closing_says_what_has_not_ended(fixture: PoolFixture) -> None:
    pool = fixture.start(3)
    fixture.hangs = lambda url: url == "hangs"
    hanging = fixture.send("hangs")
    await soon([fixture.send(str(n)) for n in range(30)])
    assert await pool.close(0.1) == 1
    fixture.answer.set()
    assert await hanging == OK
    await until(lambda: fixture.senders == 0)
