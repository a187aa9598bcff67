"""Stamps, handles and states of `bdqs`: their text forms and their order."""

from __future__ import annotations

import pytest

from cns_common.clock import Clock
from cqs.engines.bdqs.ids import (
    DeliveryHandle,
    MessageKey,
    Position,
    Stamps,
    generation_of,
    parse_handle,
    slot_name,
    stamp_us,
    window_of,
    window_start,
)
from cqs.engines.bdqs.message_state import parse_state, sent_state
from tests.machine_clocks import MachineClocks

KEY = MessageKey("000003" + "0123456789ab" + "deadbeef" + "00000f", 5 << 40)


def _stamps(machine: MachineClocks, node: str) -> Stamps:
    return Stamps(machine.clock(), node, lambda: 0)


def test_stamps_rise_although_time_stands_still() -> None:
    stamps = _stamps(MachineClocks(), "aaaaaaaa")
    some = [stamps.next() for _ in range(5)]
    assert some == sorted(set(some))
    assert [stamp_us(one) for one in some] == sorted({stamp_us(one) for one in some})


def test_a_stamp_is_above_those_of_a_clock_that_is_ahead() -> None:
    ahead, behind = MachineClocks(), MachineClocks()
    ahead.run(60 * 1_000_000_000)
    before = _stamps(ahead, "ffffffff").next()
    after = _stamps(behind, "00000000").next(before)
    assert after > before
    assert stamp_us(after) > stamp_us(before)


def test_a_handle_is_read_back() -> None:
    stamps = Stamps(Clock(), "deadbeef")
    for taken_from in ("", stamps.next()):
        handle = DeliveryHandle(stamps.next(), taken_from, 1_795_493_059_939, slot_name(3, 20_000, 7), KEY)
        assert parse_handle(handle.encode()) == handle


@pytest.mark.parametrize("handle", [b"", b"x", b"....", b"0" * 24 + b"..0." + b"0" * 22 + b"." + b"0" * 47])
def test_what_is_no_handle(handle: bytes) -> None:
    assert parse_handle(handle) is None


def test_a_state_is_read_back() -> None:
    state = sent_state(Stamps(Clock(), "deadbeef").next(), 17, slot_name(0, 0, 0), 4, 12)
    assert parse_state(state.encode()) == state


def test_slots_sort_by_generation_then_time_then_part() -> None:
    slots = [slot_name(0, 20_000, 1), slot_name(1, 0, 0), slot_name(1, 20_000, 0), slot_name(1, 20_000, 10)]
    assert slots == sorted(slots)
    assert [generation_of(slot) for slot in slots] == [0, 1, 1, 1]
    assert [window_start(slot) for slot in slots] == [20_000, 0, 20_000, 20_000]
    assert [window_of(due_ms) for due_ms in (0, 19_999, 20_000)] == [0, 0, 20_000]


def test_positions_sort_by_time_then_arrival() -> None:
    positions = [Position(1, 9, "b", "s"), Position(2, 1, "z", "s"), Position(2, 2, "a", "s"), Position(2, 2, "a", "t")]
    assert positions == sorted(positions)
