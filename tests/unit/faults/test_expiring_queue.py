"""The accounting of FIFO queues: deduplication, time-outs and dead letters, and what of them is a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.faults.round_builder import (
    BACK_S,
    DEAD,
    FIFO,
    JUMP_S,
    KILL_S,
    WORN,
    Story,
    at_ns,
    causes_of,
    fault_kinds,
)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "arrivals")


# -- deduplication ----------------------------------------------------------------------------------------------------


def test_an_echo_of_the_first_answer_is_valid(story: Story) -> None:
    assert causes_of(story.sends_in_group(0).gets_of_group(0, 50).echoes(0, "id-0", 0)) == {}


@pytest.mark.parametrize(("message_id", "sequence"), [("other", 0), ("id-0", 1)])
def test_an_echo_that_was_taken_for_new_is_found(story: Story, message_id: str, sequence: int) -> None:
    assert fault_kinds(story.sends_in_group(0).gets_of_group(0, 50).echoes(0, message_id, sequence)) == ["dedup"]


def test_an_echo_that_comes_out_is_invented(story: Story) -> None:
    story.sends_in_group(0).gets_of_group(0, 50).gets_of_group(0, 51)
    story.ledger.receipts[-1].id = "other"
    assert fault_kinds(story) == ["invented"]


# -- two in flight ----------------------------------------------------------------------------------------------------


def test_all_that_is_held_counts_not_only_the_last(story: Story) -> None:
    story.sends_in_group(0, 1, 2).gets_of_group(0, 50, held_s=5).gets_of_group(1, 50).gets_of_group(2, 51)
    story.ledger.receipts[1].take = story.ledger.receipts[0].take
    assert fault_kinds(story) == ["two in flight"]


def test_a_delete_that_was_refused_too_soon_is_found(story: Story) -> None:
    story.sends_in_group(0).gets_of_group(0, 50).ledger.refusals.append("g-0: HTTP 400")
    assert fault_kinds(story) == ["refused"]


# -- dead letters -----------------------------------------------------------------------------------------------------


def worn(story: Story, *numbers: int) -> Story:
    return story.sends_in_group(*numbers, queue=WORN)


def test_worn_out_and_moved_is_valid(story: Story) -> None:
    worn(story, 0, 1).wears(0, 50, 51.5).gets_of_group(0, 53, queue=DEAD).gets_of_group(1, 53, queue=WORN)
    assert causes_of(story) == {}


def test_deleted_in_time_is_valid(story: Story) -> None:
    assert causes_of(worn(story, 1).wears(1, 50).gets_of_group(1, 51.5, queue=WORN)) == {}


def test_neither_deleted_nor_moved_is_lost(story: Story) -> None:
    assert fault_kinds(worn(story, 0).wears(0, 50, 51.5)) == ["lost"]


def test_moved_after_its_delete_is_found(story: Story) -> None:
    worn(story, 1).gets_of_group(1, 50, queue=WORN).gets_of_group(1, 53, queue=DEAD)
    assert fault_kinds(story) == ["came back"]


def test_a_delete_that_came_too_late_to_be_one_is_valid(story: Story) -> None:
    """Of a message that has been moved, it succeeds as that of any that is gone."""
    worn(story, 1).gets_of_group(1, 50, held_s=2, queue=WORN).wears(1, 51.2).gets_of_group(1, 53, queue=DEAD)
    assert causes_of(story) == {}


def test_a_move_is_one_transaction(story: Story) -> None:
    worn(story, 0).wears(0, 50, 51.5).gets_of_group(0, 53, queue=DEAD).moves(0, KILL_S, BACK_S)
    assert fault_kinds(story) == ["moved again"]


def test_received_once_too_often_is_found(story: Story) -> None:
    worn(story, 0).wears(0, 50, 51.5, 53).gets_of_group(0, 55, queue=DEAD)
    assert fault_kinds(story) == ["received too often"]


def test_moved_twice_is_found(story: Story) -> None:
    worn(story, 0).wears(0, 50, 51.5).gets_of_group(0, 53, held_s=9, queue=DEAD).gets_of_group(0, 55, queue=DEAD)
    assert fault_kinds(story) == ["duplicate"]


@pytest.mark.parametrize(("sequence", "kinds"), [(0, ["came back"]), (7, ["duplicate", "came back"])])
def test_moved_once_more_after_its_delete_is_found(story: Story, sequence: int, kinds: list[str]) -> None:
    """Even when any lease would be over."""
    worn(story, 0).wears(0, 50, 51.5).gets_of_group(0, 53, queue=DEAD).gets_of_group(0, JUMP_S + 1, queue=DEAD)
    story.ledger.receipts[-1].sequence = sequence
    assert fault_kinds(story) == kinds


def test_enqueued_twice_is_found(story: Story) -> None:
    worn(story, 0).wears(0, 50, 51.5).gets_of_group(0, 53, held_s=70, queue=DEAD)
    story.gets_of_group(0, JUMP_S + 1, queue=DEAD).ledger.receipts[-1].sequence = 7
    assert fault_kinds(story) == ["duplicate"]


def test_a_dead_letter_of_nobody_is_invented(story: Story) -> None:
    assert fault_kinds(worn(story).gets_of_group(0, 53, queue=DEAD)) == ["invented"]


def test_a_dead_letter_with_another_id_is_invented(story: Story) -> None:
    worn(story, 0).wears(0, 50, 51.5).gets_of_group(0, 53, queue=DEAD)
    story.ledger.receipts[-1].id = "other"
    assert fault_kinds(story) == ["invented"]


@pytest.mark.parametrize("queue", [WORN, DEAD])
def test_a_worn_group_out_of_order_is_found(story: Story, queue: str) -> None:
    worn(story, 1, 2).gets_of_group(2, 50, queue=queue).gets_of_group(1, 53, queue=queue)
    assert fault_kinds(story) == ["order"]


def test_two_receives_may_not_hold_a_worn_group(story: Story) -> None:
    worn(story, 0, 1).wears(0, 50).gets_of_group(1, 50.5, queue=WORN).gets_of_group(0, 53, queue=DEAD)
    assert fault_kinds(story) == ["two in flight"]


def test_an_answer_that_came_after_its_lease_was_over_is_valid(story: Story) -> None:
    """Another got the message meanwhile, and was answered sooner."""
    worn(story, 0).wears(0, 51.2, 51.5).ledger.receipts[-1].asked_ns = at_ns(50)
    assert causes_of(story.gets_of_group(0, 53, queue=DEAD)) == {}


def test_an_answer_that_came_late_within_its_lease_is_found(story: Story) -> None:
    worn(story, 0).wears(0, 50.8, 51.5).ledger.receipts[-1].asked_ns = at_ns(50)
    assert fault_kinds(story.gets_of_group(0, 53, queue=DEAD)) == ["two in flight"]


def test_a_time_out_or_a_jump_of_the_clock_frees_a_group(story: Story) -> None:
    worn(story, 0, 1).wears(0, 50, JUMP_S - 0.2).gets_of_group(1, JUMP_S + 0.2, queue=WORN)
    assert causes_of(story.gets_of_group(0, JUMP_S + 0.3, queue=DEAD)) == {}


def test_what_is_left_in_the_dead_letter_queue_is_found(story: Story) -> None:
    worn(story, 0).wears(0, 50, 51.5).gets("g-0", "id-0", 53, deleted=False, queue=DEAD)
    assert fault_kinds(story) == ["never deleted"]


def test_the_queues_are_apart(story: Story) -> None:
    assert fault_kinds(worn(story, 1).gets_of_group(1, 50, queue=FIFO)) == ["invented", "lost"]
