"""The clock when the machine's clocks are set, stopped and suspended."""

from __future__ import annotations

import asyncio

import pytest
import structlog

from cns_common.clock import READ_NS_MAX, STEP_NS, STEP_SHOWN_NS
from cns_common.durations import HOUR_MS
from lab.harness.waiting import PATIENCE_S
from tests.machine_clocks import MachineClocks

S_NS = 1_000_000_000


@pytest.fixture
def machine() -> MachineClocks:
    return MachineClocks()


def test_time_goes_on_with_the_machine(machine: MachineClocks) -> None:
    clock = machine.clock()
    before_ms = clock.now_ms()
    machine.run(7 * S_NS)
    assert (clock.now_ms() - before_ms, clock.now_ms(), clock.warning()) == (7_000, clock.real_ms(), "")


@pytest.mark.parametrize("by_ns", [3_600 * S_NS, STEP_NS])
def test_a_step_forward_is_followed_logged_once_and_shown_for_an_hour(machine: MachineClocks, by_ns: int) -> None:
    clock = machine.clock()
    machine.step(by_ns)
    with structlog.testing.capture_logs() as logged:
        assert clock.now_ms() == clock.wall_ms() == clock.real_ms() == machine.wall_ns // 1_000_000
    assert [(entry["event"], entry["seconds"]) for entry in logged] == [("clock.stepped_forward", by_ns // S_NS)]
    assert f"stepped forward by {by_ns // S_NS} s" in clock.warning()
    machine.run(STEP_SHOWN_NS)
    assert clock.warning() == ""


def test_a_step_back_is_not_followed_and_shown_until_time_has_come(machine: MachineClocks) -> None:
    clock = machine.clock()
    before_ms = clock.now_ms()
    machine.step(-3_600 * S_NS)
    with structlog.testing.capture_logs() as logged:
        assert clock.now_ms() == before_ms
        machine.run(S_NS)
        assert clock.now_ms() == before_ms + 1_000, "time goes on"
        assert clock.warning() == "the wall clock is 3600 s behind the time of messages"
    assert [entry["event"] for entry in logged] == ["clock.stepped_back"]
    assert clock.real_ms() == machine.wall_ns // 1_000_000
    machine.step(3_600 * S_NS)
    assert (clock.now_ms(), clock.warning()) == (before_ms + 1_000, "")


def test_a_difference_below_a_minute_is_no_step(machine: MachineClocks) -> None:
    clock = machine.clock()
    before_ms = clock.now_ms()
    with structlog.testing.capture_logs() as logged:
        for by_ns in (STEP_NS - 1, 1 - STEP_NS, 1 - STEP_NS):
            machine.step(by_ns)
            assert (clock.now_ms(), clock.warning()) == (before_ms, "")
    assert logged == []


def test_a_process_that_is_stopped_between_two_readings_has_seen_no_step(machine: MachineClocks) -> None:
    clock = machine.clock()
    machine.stopped_ns = max(READ_NS_MAX + 1, 2 * STEP_NS)
    for _ in range(3):
        assert clock.now_ms() <= machine.wall_ns // 1_000_000
    machine.stopped_ns = 0
    assert (clock.now_ms(), clock.warning()) == (machine.wall_ns // 1_000_000, "")


def test_a_clock_that_was_behind_the_store_is_not_ahead_once_it_is_right(machine: MachineClocks) -> None:
    """A machine without a battery starts with a past time, which is corrected some seconds later."""
    clock = machine.clock()
    clock.not_before(clock.now_ms() + HOUR_MS)
    high_ms = clock.now_ms()
    assert "3600 s behind" in clock.warning()
    machine.step(2 * 3_600 * S_NS)
    assert clock.now_ms() == clock.real_ms() == high_ms + HOUR_MS
    assert clock.offset_ms == 0


def test_a_clock_that_is_put_right_in_part_does_not_go_back(machine: MachineClocks) -> None:
    clock = machine.clock()
    clock.not_before(clock.now_ms() + HOUR_MS)
    high_ms = clock.now_ms()
    machine.step(1_800 * S_NS)
    assert clock.now_ms() == high_ms
    assert "1800 s behind" in clock.warning()


def test_a_test_clock_keeps_its_offset_over_a_step_and_signatures_know_neither(machine: MachineClocks) -> None:
    clock = machine.clock(test=True)
    clock.advance(HOUR_MS)
    machine.step(600 * S_NS)
    assert clock.now_ms() == machine.wall_ns // 1_000_000 + HOUR_MS
    assert (clock.offset_ms, clock.real_ms()) == (HOUR_MS, machine.wall_ns // 1_000_000)
    assert "behind" not in clock.warning(), "a test clock is ahead because a test put it there"


async def test_timers_that_a_step_makes_due_fire(machine: MachineClocks) -> None:
    clock = machine.clock()
    fired = asyncio.Event()
    clock.call_at(clock.now_ms() + HOUR_MS, fired.set)
    cancelled = clock.call_at(clock.now_ms() + HOUR_MS, lambda: pytest.fail("it was cancelled"))
    machine.step(3_601 * S_NS)
    await asyncio.to_thread(clock.now_ms)  # the first to notice may be a thread without a loop
    cancelled.cancel()
    await asyncio.wait_for(fired.wait(), PATIENCE_S)


def test_a_correction_moves_time_forward_at_once(machine: MachineClocks) -> None:
    clock = machine.clock(test=True)
    clock.advance(HOUR_MS)
    before_ms = clock.now_ms()
    clock.correct(60_000)
    assert clock.now_ms() == before_ms + 60_000
    assert clock.wall_ms() == clock.now_ms() - HOUR_MS == clock.real_ms() + 60_000


def test_a_correction_back_lets_time_stand_still_until_it_has_come(machine: MachineClocks) -> None:
    clock = machine.clock(test=True)
    clock.advance(HOUR_MS)
    before_ms = clock.now_ms()
    clock.correct(-60_000)
    for _ in range(2):
        assert (clock.now_ms(), clock.wall_ms()) == (before_ms, before_ms - HOUR_MS)
        machine.run(30 * S_NS)
    machine.run(S_NS)
    assert (clock.now_ms(), clock.wall_ms()) == (before_ms + 1_000, before_ms - HOUR_MS + 1_000)


def test_a_test_clock_that_stands_still_is_advanced(machine: MachineClocks) -> None:
    clock = machine.clock(test=True)
    before_ms = clock.now_ms()
    clock.correct(-60_000)
    clock.advance(HOUR_MS)
    assert (clock.now_ms(), clock.wall_ms()) == (before_ms + HOUR_MS, before_ms)


def test_time_that_nobody_has_asked_for_is_set_back(machine: MachineClocks) -> None:
    clock = machine.clock()
    clock.correct(-60_000, unused=True)
    assert clock.now_ms() == clock.wall_ms() == clock.real_ms() - 60_000


def test_a_corrected_clock_does_not_follow_steps(machine: MachineClocks) -> None:
    clock = machine.clock()
    clock.correct(0, unused=True)
    before_ms = clock.now_ms()
    machine.step(3_600 * S_NS)
    assert (clock.now_ms(), clock.wall_ms(), clock.warning()) == (before_ms, before_ms, "")


async def test_a_correction_sets_timers_again(machine: MachineClocks) -> None:
    clock, fired = machine.clock(), asyncio.Event()
    clock.call_at(clock.now_ms() + HOUR_MS, fired.set)
    clock.correct(HOUR_MS)
    async with asyncio.timeout(PATIENCE_S):
        await fired.wait()
