"""Random outcomes in random order: no send waits forever, no limit is exceeded, and all counters return to zero."""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cns.delivery.observers.contract import Deferral
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns_common.clock import Clock
from cns_workers.delivery.traffic import admission as module
from cns_workers.delivery.traffic.admission import POLL_INTERVAL_S, WAIT_MAX_S, AdmissionController
from cns_workers.delivery.traffic.endpoint_state import BLOCKED_S, EndpointLimits
from cns_workers.delivery.traffic.sends import AdmittedAttempt
from tests.marks import examples

SENDS_MAX, SENDS_FAST_MAX, FAILURES, PROBATION, HUNG = 2, 4, 2, 3, 2
KEYS = "abcd"
ANSWERS: dict[str, Callable[[int], Outcome | None]] = {
    "well": lambda dwell_ms: Delivered(200, dwell_ms),
    "down": lambda dwell_ms: Failed(Cause.TIMEOUT, "", dwell_ms),
    "no": lambda dwell_ms: Failed(Cause.STATUS, "", dwell_ms, permanent=True),
    "broken": lambda dwell_ms: None,  # the send raises
}
events = st.tuples(
    st.sampled_from(KEYS),
    st.sampled_from(sorted(ANSWERS)),
    st.sampled_from([0, 10, 300, 999, 1_500, 15_000]),  # ms until the answer
    st.sampled_from([0, 0, 0, 100, 700, 1_200, 40_000]),  # ms until the next event
    st.booleans(),  # somebody asks for room at a time
)


class _TimeSkippingSelector(selectors.SelectSelector):
    """Advances the clock instead of waiting."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now_s += timeout or 0.0
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _TimeSkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now_s


class _LoopClock(Clock):
    def now_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)  # nearly a sum of whole milliseconds


@dataclass
class RandomLoad:
    admission: AdmissionController = field(
        default_factory=lambda: AdmissionController(
            EndpointLimits(sends=SENDS_MAX, sends_fast=SENDS_FAST_MAX, failures=FAILURES), _LoopClock()
        )
    )
    under_way: Counter[str] = field(default_factory=Counter)
    wanted: list[tuple[float, AdmittedAttempt]] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)
    asked: dict[str, float] = field(default_factory=dict)  # the latest time of the next look at it

    def send(self, key: str, answer: str, after_ms: int) -> None:
        loop = asyncio.get_running_loop()

        def begin() -> asyncio.Future[Outcome]:
            self.under_way[key] += 1
            assert self.under_way[key] <= SENDS_FAST_MAX
            future: asyncio.Future[Outcome] = loop.create_future()
            loop.call_later(after_ms / 1000, end, future)
            return future

        def end(future: asyncio.Future[Outcome]) -> None:
            self.under_way[key] -= 1
            outcome = ANSWERS[answer](after_ms)
            if outcome is None:
                future.set_exception(RuntimeError("broken"))
            else:
                future.set_result(outcome)

        began_s = loop.time()
        attempt = self.admission.start(key, f"m{len(self.wanted)}", begin)
        self.wanted.append((began_s, attempt))
        attempt.add_done_callback(lambda done: self._see(done, loop.time() - began_s))

    def _see(self, done: asyncio.Future[Outcome] | asyncio.Future[Outcome | Deferral], took_s: float) -> None:
        if done.exception() is None and isinstance(done.result(), Deferral):
            self.waited_s.append(took_s)

    def ask(self, key: str) -> None:
        wait_s = self.admission.await_room(key)
        assert 0 <= wait_s <= BLOCKED_S + 0.001
        if wait_s:
            self.asked[key] = asyncio.get_running_loop().time() + wait_s
        else:
            self.asked.pop(key, None)

    def told(self, key: str) -> None:
        """Ask again for an endpoint that was announced to have room; keeps the new time if it has none."""
        if key in self.asked:
            self.ask(key)

    async def settled(self) -> None:
        """Wait for the end of all sends; then every endpoint that was asked for has room when it was announced."""
        attempts = [attempt for _, attempt in self.wanted]
        async with asyncio.timeout(3_600):
            await asyncio.gather(*attempts, return_exceptions=True)
        await asyncio.sleep(POLL_INTERVAL_S * 2)
        for key, due_s in self.asked.items():
            rest_s = self.admission.wait_s(key)
            now_s = asyncio.get_running_loop().time()
            assert due_s <= now_s + max(rest_s, 0.001) + 1e-6, (  # a due time is a sum of other floats
                f"{key} has had room for a while, or will sooner than it was told"
            )


@given(st.lists(events, max_size=60))
@settings(max_examples=examples(150), deadline=None)
def test_nobody_waits_for_ever_and_all_is_counted_back(happened: list[tuple[str, str, int, int, bool]]) -> None:
    async def run() -> None:
        load = RandomLoad()
        load.admission.on_room = load.told
        for key, answer, after_ms, pause_ms, asks in happened:
            if asks:
                load.ask(key)
            load.send(key, answer, after_ms)
            await asyncio.sleep(pause_ms / 1000)
        await load.settled()
        found = {sample.name: sample.value for sample in load.admission.samples()}
        assert (found["cns_sends_overdue"], found["cns_sends_on_probation"]) == (0, 0)
        assert max(load.waited_s, default=0.0) <= 60 * WAIT_MAX_S
        assert not +load.under_way

    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=_Loop) as runner:
        patch.setattr(module, "PROBATION_SENDS_MAX", PROBATION)
        patch.setattr(module, "HUNG_SENDS_MAX", HUNG)
        runner.run(run())
