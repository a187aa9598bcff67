"""The messages that a popper takes, and their order: the worked example of seed 003."""

from __future__ import annotations

import pytest

from cns_common.clock import Clock
from cqs.engines.pipes.selection import SelectedMessage, take_in_turn, take_oldest
from cqs.engines.pipes.view import Item, PipeView

PUSHED = {1: 4, 2: 1, 3: 6, 4: 1, 5: 1, 6: 7, 7: 8, 8: 1, 9: 2, 10: 3, 11: 5}
"""Message and pipe: M1:P4 M2:P1 M3:P6 …, pushed in the order of their numbers."""
IN_TURN = [2, 9, 10, 1, 11, 3, 6, 7, 4, 5, 8]


def first(view: PipeView) -> Item | None:
    return view.first(can_pop_waiting=True)


def pipes() -> list[PipeView]:
    views = {pipe: PipeView(f"P{pipe}", Clock()) for pipe in sorted(set(PUSHED.values()))}
    for message, pipe in PUSHED.items():
        views[pipe].add_waiting([(message, message, 0, 0, 0)])  # due in the order in which they were pushed
    return list(views.values())


def numbers(taken: list[SelectedMessage]) -> list[int]:
    return [one.item.place for one in taken]


@pytest.mark.parametrize("batch", [1, 2, 3, 8, 11, 20])
def test_the_worked_example_in_turns(batch: int) -> None:
    views, order, served = pipes(), list[int](), ""
    while taken := take_in_turn(views, batch, first, served):
        order += numbers(taken)
        served = taken[-1].view.name
    assert order == IN_TURN


@pytest.mark.parametrize("batch", [1, 4, 11])
def test_the_oldest_of_all_pipes(batch: int) -> None:
    views, order = pipes(), list[int]()
    while taken := take_oldest(views, batch, first):
        order += numbers(taken)
    assert order == sorted(PUSHED)


def test_a_message_that_was_rolled_back_is_at_the_tail() -> None:
    (view,) = [one for one in pipes() if one.name == "P1"]
    item = first(view)
    assert item is not None
    view.take(item)
    view.popped(item, lease=7, due_ms=100)  # its lease ends when all others are visible
    assert numbers(take_oldest([view], 9, first)) == [4, 5, 8, 2]


def test_only_the_owner_takes_what_waits() -> None:
    view = PipeView("P", Clock())
    view.add_waiting([(0, 5, 0, 0, 0)])
    view.set_pending([(1, 7, 6, 0, 1, 1)], tick=view.tick)
    assert first(view) is not None
    item = view.first(can_pop_waiting=False)
    assert item is not None
    assert item.place == 1
    assert numbers(take_oldest([view], 9, first)) == [0, 1]
