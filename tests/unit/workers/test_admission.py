"""The number of concurrent sends to an endpoint, by the outcomes of its sends; and a subscription's rate limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from math import ceil

import pytest

from cns.delivery.observers.contract import Deferral
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns_backend.stores.contract import ProbeRequest
from cns_common.clock import Clock
from cns_workers.delivery.traffic import admission as module
from cns_workers.delivery.traffic.admission import (
    CROWD,
    HUNG_SENDS_MAX,
    POLL_INTERVAL_S,
    PROBATION_SENDS_MAX,
    TRIED_A_POLL,
    TRIED_WITHIN_S,
    WAITING_MAX,
    AdmissionController,
)
from cns_workers.delivery.traffic.circuit_breaker import PROBE_PAUSE_MAX_S
from cns_workers.delivery.traffic.endpoint_state import SLOW_SENDS_MAX, EndpointLimits, EndpointState
from cns_workers.delivery.traffic.sends import AdmittedAttempt
from lab.harness.waiting import PATIENCE_S

LIMITS = EndpointLimits(sends=10, sends_fast=100, failures=5)
FAST = Delivered(200, 5)
SLOW = Delivered(200, 150)
DOWN = Failed(Cause.TIMEOUT, "no answer", 15_000)
REFUSING = Failed(Cause.STATUS, "HTTP 400", 5, status=400, permanent=True)
FULL = Failed(Cause.QUEUE, "not this recipient", 5)


def tried(endpoint: EndpointState, *outcomes: Outcome, now_s: float = 0.0, message: str = "") -> EndpointState:
    """Sends one after another; each a new message unless `message` names one."""
    for number, outcome in enumerate(outcomes):
        probe = started(endpoint)
        endpoint.end(outcome, message or f"m{number}", now_s, was_overdue=False, probe=probe)
    return endpoint


def started(endpoint: EndpointState) -> bool:
    """Whether the send is a probe."""
    endpoint.start()
    return endpoint.breaker.is_open


def room(endpoint: EndpointState, now_s: float = 0.0, *, scarce: bool = False) -> int:
    return endpoint.room(now_s, scarce=scarce)


@pytest.mark.parametrize(
    "outcomes, expected",
    [
        ([], 10),
        ([FAST] * 19, 10),
        ([FAST] * 20, 20),  # p95 is known, and the number of sends at once doubles
        ([FAST] * 24, 100),
        ([SLOW] + [FAST] * 19, 20),  # one of twenty is 5 %
        ([SLOW] * 2 + [FAST] * 20, 10),
        ([SLOW] * 2 + [FAST] * 38, 20),  # two of forty
        ([FAST] * 64 + [SLOW] * 4, 10),  # four of the last 64
        ([DOWN], 5),
        ([DOWN] * 4, 1),
        ([DOWN, FAST], 10),
        ([REFUSING] * 30, 100),  # the endpoint is up, and answers fast
        ([FULL] * 9, 10),
    ],
)
def test_room(outcomes: list[Outcome], expected: int) -> None:
    assert room(tried(EndpointState(LIMITS), *outcomes)) == expected


def test_what_is_under_way_takes_room() -> None:
    endpoint = EndpointState(LIMITS)
    for _ in range(10):
        endpoint.start()
    assert room(endpoint) == 0


def test_one_that_leaves_a_send_overdue_gets_little_until_it_answers() -> None:
    unknown, known = EndpointState(LIMITS), tried(EndpointState(LIMITS), FAST)
    for endpoint in (unknown, known):
        probe = started(endpoint)
        endpoint.overdue += 1
    assert room(unknown) == 0
    assert room(known) == SLOW_SENDS_MAX - 1
    assert room(known, scarce=True) == 0, "while hanging sends take all the room there is"
    known.end(Delivered(200, 5_000), "m", 5.0, was_overdue=True, probe=probe)
    assert room(known) == 10


def test_five_messages_in_a_row_open_the_breaker_and_one_alone_does_not() -> None:
    assert not tried(EndpointState(LIMITS), *[DOWN] * 50, message="the same").breaker.is_open
    assert not tried(EndpointState(LIMITS), *[DOWN] * 4, FAST, *[DOWN] * 4).breaker.is_open
    assert tried(EndpointState(LIMITS), *[DOWN] * 5).breaker.is_open
    assert not tried(EndpointState(EndpointLimits(failures=0)), *[DOWN] * 50).breaker.is_open


def test_an_open_one_is_probed_ever_more_rarely_until_it_answers() -> None:
    endpoint = tried(EndpointState(LIMITS), *[DOWN] * 5)
    now_s, pauses_s = 0.0, []
    for _ in range(8):
        assert room(endpoint, endpoint.breaker.probe_at_s - 0.01) == 0
        assert endpoint.next_try_s(now_s) == endpoint.breaker.probe_at_s
        pauses_s.append(endpoint.breaker.probe_at_s - now_s)
        now_s = endpoint.breaker.probe_at_s
        assert room(endpoint, now_s) == 1
        probe = started(endpoint)
        assert room(endpoint, now_s) == 0, "one probe at a time"
        endpoint.end(DOWN, "m", now_s, was_overdue=False, probe=probe)
    assert pauses_s == [1, 2, 4, 8, 16, PROBE_PAUSE_MAX_S, PROBE_PAUSE_MAX_S, PROBE_PAUSE_MAX_S]
    tried(endpoint, FAST, now_s=now_s)
    assert not endpoint.breaker.is_open
    assert room(endpoint, now_s) == 2, "what was held back goes out at a rising rate"
    rooms = [room(tried(endpoint, FAST), now_s) for _ in range(4)]
    assert rooms == [4, 8, 10, 10]


def test_sends_from_before_it_opened_are_no_probes() -> None:
    endpoint = EndpointState(LIMITS)
    probes = [started(endpoint) for _ in range(10)]
    for number, probe in enumerate(probes):
        endpoint.end(DOWN, f"m{number}", 15.0 + number, was_overdue=False, probe=probe)
    assert endpoint.breaker.probe_at_s == 15.0 + 4 + 1


REFUSED = Failed(Cause.CONNECTION, "refused", 2)


@pytest.mark.parametrize(
    ("outcome", "trusted"),
    [
        (FAST, True),
        (Delivered(200, 5_000), True),
        (REFUSED, True),
        (DOWN, False),
        (Failed(Cause.EGRESS_ROUTE, "the egress proxy answered 502", 5), True),
        (Failed(Cause.EGRESS_ROUTE, "the egress proxy did not answer in time", 15_000), False),
    ],
)
def test_what_fails_at_once_does_not_hang(outcome: Outcome, trusted: bool) -> None:  # a column of the table
    endpoint = tried(EndpointState(LIMITS), outcome)
    assert (endpoint.is_trusted, endpoint.timed_out) == (trusted, not trusted)


@pytest.mark.parametrize(("cause", "opens"), [(Cause.MAIL_RELAY, True), (Cause.MAIL_REFUSED, False)])
def test_a_mail_relay_that_refuses_us_is_down_and_one_that_refuses_a_recipient_is_not(
    cause: Cause,
    opens: bool,  # a column of the table
) -> None:
    relay = EndpointState(LIMITS)
    for number in range(LIMITS.failures):
        tried(relay, Failed(cause, "5.7.1", 5), message=f"m{number}")
    assert relay.breaker.is_open is opens


def test_a_broken_off_send_says_nothing() -> None:
    endpoint = EndpointState(LIMITS)
    probe = started(endpoint)
    endpoint.end(None, "m", 0.0, was_overdue=False, probe=probe)
    assert (room(endpoint), endpoint.is_trusted) == (10, False)


@dataclass
class SendDriver:
    """Starts sends through an admission controller. The test ends each with an outcome."""

    admission: AdmissionController = field(default_factory=lambda: AdmissionController(LIMITS, Clock()))
    under_way: dict[str, list[asyncio.Future[Outcome]]] = field(default_factory=dict)
    messages: count[int] = field(default_factory=count)

    def start(self, key: str) -> AdmittedAttempt:
        """Each send has its own message."""

        def begin() -> asyncio.Future[Outcome]:
            future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            self.under_way.setdefault(key, []).append(future)
            return future

        return self.admission.start(key, f"m{next(self.messages)}", begin)

    async def end(self, key: str, outcome: Outcome) -> None:
        self.under_way[key].pop(0).set_result(outcome)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def hang(self, key: str) -> None:
        """Once, in its turn."""
        await _until(lambda: self.admission.wait_s(key) == 0)
        self.start(key)
        await self.end(key, DOWN)


async def _until(known: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not known():
            await asyncio.sleep(0.05)


async def test_what_has_no_room_begins_when_there_is_some() -> None:
    driver = SendDriver(AdmissionController(LIMITS, StoppedClock()))
    attempts = [driver.start("e") for _ in range(12)]
    assert len(driver.under_way["e"]) == 10
    await driver.end("e", FAST)
    assert attempts[0].result() == FAST
    assert len(driver.under_way["e"]) == 10
    assert not attempts[10].done()
    driver.under_way["e"][-1].set_result(SLOW)
    assert await attempts[10] == SLOW


async def test_what_cannot_begin_within_a_second_is_deferred() -> None:
    driver = SendDriver()
    attempts = [driver.start("hangs") for _ in range(12)]
    assert await asyncio.wait_for(asyncio.gather(*attempts[10:]), PATIENCE_S) == [Deferral.BUSY] * 2
    assert not any(attempt.done() for attempt in attempts[:10])
    assert driver.start("hangs").result() is Deferral.BUSY, "an answer is overdue: there is nothing to wait for"
    driver.start("other")
    assert len(driver.under_way["other"]) == 1


class StoppedClock(Clock):
    """No send waits for too long, however slow the machine is."""

    def now_ms(self) -> int:
        return 1_000


async def test_the_line_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CROWD_DEFERRALS_A_POLL", 0)
    driver = SendDriver(AdmissionController(LIMITS, StoppedClock()))
    attempts = [driver.start("busy") for _ in range(10 + WAITING_MAX)]
    full = asyncio.create_task(driver.admission.room())
    await asyncio.sleep(0)
    assert not full.done()
    await driver.end("busy", FAST)
    assert await asyncio.wait_for(full, PATIENCE_S) == 1, "one has begun"
    attempts[-1].cancel()
    await asyncio.sleep(0)
    assert await driver.admission.room() == 2, "nobody wants another one any more"


async def test_a_crowd_gives_way_before_its_patience_ends() -> None:
    driver = SendDriver(AdmissionController(LIMITS, StoppedClock()))
    attempts = [driver.start("busy") for _ in range(10 + CROWD + 50)]
    await _until(lambda: sum(attempt.done() for attempt in attempts) >= 50)
    aside = [n for n, attempt in enumerate(attempts) if attempt.done()]
    assert aside == list(range(10, 60)), "those that waited for longest, and no more than are too many"


async def test_behind_an_open_breaker_nothing_waits() -> None:
    driver = SendDriver()
    for _ in range(5):
        await driver.hang("dead")
    assert driver.start("dead").result() is Deferral.OPEN


async def test_open_breakers_are_counted_until_they_close_or_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StoppedClock()
    driver = SendDriver(AdmissionController(LIMITS, clock))
    for key in ("closes", "is forgotten"):
        attempts = [driver.start(key) for _ in range(6)]
        for _ in attempts[:5]:
            await driver.end(key, DOWN)
    assert _open_breakers(driver.admission) == 2
    await driver.end("closes", FAST)
    assert _open_breakers(driver.admission) == 1
    await driver.end("is forgotten", DOWN)
    monkeypatch.setattr(module, "ENDPOINTS_REMEMBERED", 2)
    monkeypatch.setattr(clock, "now_ms", lambda: 1_000_000)
    for key in ("new", "newer"):
        driver.start(key)
    assert _open_breakers(driver.admission) == 0


async def test_an_open_breaker_is_reported_and_probes_when_asked() -> None:
    driver = SendDriver(AdmissionController(LIMITS, StoppedClock()))
    key = "111111111111 http://user:secret@down.example/x"
    attempts = [driver.start(key) for _ in range(6)]
    for _ in attempts:
        await driver.end(key, DOWN)
    (breaker,) = driver.admission.open_breakers()
    assert (breaker.account, breaker.endpoint) == ("111111111111", "http://****@down.example/x")
    assert breaker.cause and breaker.probe_at_ms > breaker.since_ms
    assert driver.start(key).result() is Deferral.OPEN
    for account in ("222222222222", breaker.account):
        assert driver.admission.wait_s(key) > 0
        driver.admission.probe(ProbeRequest(account, breaker.endpoint, asked_ms=5))
    assert driver.admission.wait_s(key) == 0
    driver.start(key)
    await driver.end(key, DOWN)
    driver.admission.probe(ProbeRequest(breaker.account, breaker.endpoint, asked_ms=5))
    assert driver.admission.wait_s(key) > 0, "a request lets one send probe"


def _open_breakers(admission: AdmissionController) -> float:
    return next(sample.value for sample in admission.samples() if sample.name == "cns_circuit_breakers_open")


async def test_those_that_wait_are_deferred_when_the_breaker_opens() -> None:
    driver = SendDriver(AdmissionController(LIMITS, StoppedClock()))
    attempts = [driver.start("dead") for _ in range(15)]
    for _ in range(5):
        await driver.end("dead", DOWN)
    assert [attempt.result() for attempt in attempts[10:]] == [Deferral.OPEN] * 5


async def test_many_that_hang_do_not_keep_those_that_work_from_room() -> None:
    driver = SendDriver()
    driver.start("works")
    await driver.end("works", FAST)
    attempts = [driver.start(f"hangs-{number}") for number in range(PROBATION_SENDS_MAX + 100)]
    assert sum(len(sends) for key, sends in driver.under_way.items() if key != "works") == PROBATION_SENDS_MAX
    driver.start("works")
    assert len(driver.under_way["works"]) == 1
    await _until(lambda: all(attempt.done() for attempt in attempts[PROBATION_SENDS_MAX:]))
    assert {attempt.result() for attempt in attempts[PROBATION_SENDS_MAX:]} == {Deferral.BUSY}


async def test_those_that_worked_and_hang_take_from_the_same_room() -> None:
    clock, crashes = Clock(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: crashes.append(context))
    driver = SendDriver(AdmissionController(LIMITS, clock))
    hanging = [f"hangs-{number}" for number in range(PROBATION_SENDS_MAX + 10)]
    for key in hanging:
        driver.start(key)
        await driver.end(key, FAST)
    for key in hanging:
        driver.start(key)
    clock.advance(1_500)
    await _until(lambda: _gauge(driver, "cns_sends_overdue") == len(hanging))
    assert _gauge(driver, "cns_sends_on_probation") == len(hanging)
    assert driver.admission.wait_s("new") > 0
    for key in hanging:
        await driver.end(key, DOWN)
    assert (_gauge(driver, "cns_sends_on_probation"), driver.admission.wait_s("new"), crashes) == (0, 0, [])


def _gauge(driver: SendDriver, name: str) -> float:
    return next(sample.value for sample in driver.admission.samples() if sample.name == name)


async def test_many_that_nobody_knows_yet_take_turns() -> None:
    driver = SendDriver(AdmissionController(LIMITS, StoppedClock()))
    attempts = [driver.start(f"new-{number}") for number in range(PROBATION_SENDS_MAX + 100)]
    for number in range(PROBATION_SENDS_MAX + 100):
        await driver.end(f"new-{number}", FAST)
    assert {attempt.result() for attempt in attempts} == {FAST}


async def test_who_waits_for_room_is_told_of_it() -> None:
    driver, told = SendDriver(), list[str]()
    driver.admission.on_room = told.append
    for _ in range(5):
        await driver.hang("dead")
    assert driver.admission.wait_s("dead") > 0
    driver.admission.await_room("alive")
    driver.start("alive")
    await driver.end("alive", FAST)
    assert told == ["alive"]


async def test_who_lacks_room_on_probation_alone_is_told_of_it_in_turn() -> None:
    driver, told = SendDriver(), list[str]()
    driver.admission.on_room = told.append
    for number in range(PROBATION_SENDS_MAX):
        driver.start(f"hangs-{number}")
    for key in ("first", "second"):
        assert driver.admission.await_room(key) > 1, "who looks again at once has nothing else to do"
    await asyncio.sleep(POLL_INTERVAL_S * 3)
    assert told == []
    for number in range(2):
        await driver.end(f"hangs-{number}", DOWN)
    await _until(lambda: len(told) > 1)
    assert told[:2] == ["first", "second"]


async def test_one_that_hung_is_tried_in_its_turn() -> None:
    driver = SendDriver()
    await driver.hang("e")
    assert driver.start("e").result() is Deferral.BUSY
    await _until(lambda: driver.admission.wait_s("e") == 0)
    driver.start("e")
    assert driver.start("e").result() is Deferral.BUSY, "a turn is for one"
    await driver.end("e", FAST)
    for _ in range(2):
        driver.start("e")
    assert len(driver.under_way["e"]) == 2, "it works"


async def test_who_comes_anew_finds_room_beside_all_that_hung() -> None:
    driver = SendDriver()
    await driver.hang("tried")
    await _until(lambda: driver.admission.wait_s("tried") == 0)
    for number in range(HUNG_SENDS_MAX):
        driver.start(f"hangs-{number}")
    assert driver.start("tried").result() is Deferral.BUSY, "although it is its turn"
    driver.start("new")
    await driver.end("new", FAST)
    await driver.end("hangs-0", DOWN)
    assert driver.admission.wait_s("tried") == 0


async def test_those_that_time_out_together_are_tried_one_after_another() -> None:
    assert max(await _rooms_per_poll(20, until=20)) == TRIED_A_POLL


async def test_of_thousands_many_are_tried_at_once() -> None:
    assert (await _rooms_per_poll(2_000, until=100))[-1] == ceil(2_000 * POLL_INTERVAL_S / TRIED_WITHIN_S)


async def _rooms_per_poll(endpoints: int, until: int) -> list[int]:
    """The number of endpoints, each with one failed send, that get room again in each poll."""
    driver, told, steps = SendDriver(), list[str](), list[int]()
    driver.admission.on_room = told.append
    for number in range(endpoints):
        driver.admission.await_room(f"e{number}")
        driver.start(f"e{number}")
        await driver.end(f"e{number}", DOWN)
    seen = len(told)
    async with asyncio.timeout(PATIENCE_S):
        while len(told) < until:
            await asyncio.sleep(0)
            if len(told) > seen:
                steps.append(len(told) - seen)
                seen = len(told)
    assert len(set(told)) == len(told)
    return steps


async def test_after_a_stop_nothing_waits() -> None:
    driver = SendDriver()
    waiting = [driver.start("e") for _ in range(11)][-1]
    driver.admission.stop()
    assert waiting.result() is Deferral.BUSY
    assert driver.start("e").result() is Deferral.BUSY
