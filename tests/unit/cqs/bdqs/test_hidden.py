"""The hidden positions that a process knows: those that are past due go, and do not count against the limit."""

from __future__ import annotations

import pytest

from cqs.engines.bdqs import hidden
from cqs.engines.bdqs.hidden import NOTES_TO_PRUNE, HiddenPositions
from cqs.engines.bdqs.ids import IndexRow, Position, slot_name


def entry(number: int, due_ms: int) -> IndexRow:
    return IndexRow(slot_name(0, 0, 0), Position(due_ms, number, "", ""), True, 0)


def test_past_due_ones_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "HIDDEN_MAX", 10)
    positions = HiddenPositions(0)
    positions.begin_reading()
    positions.end_reading({}, 0)
    for now_ms in range(5 * NOTES_TO_PRUNE):
        positions.note([entry(now_ms, now_ms + 5), entry(-now_ms, now_ms)], now_ms)
        assert len(positions._known or ()) <= NOTES_TO_PRUNE + 10
    assert positions.count(now_ms) == (5, 0)


def test_too_many_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "HIDDEN_MAX", 10)
    positions = HiddenPositions(0)
    positions.begin_reading()
    positions.end_reading({}, 0)
    positions.note([entry(number, 1) for number in range(NOTES_TO_PRUNE)], 0)
    assert positions.count(0) is None
