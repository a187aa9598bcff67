"""The accounting of FIFO queues: faults of deduplication, visibility timeouts and dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.faults.round_builder import (
    BACK_S,
    DEAD_LETTERS,
    FIFO,
    JUMP_S,
    KILL_S,
    REDRIVE,
    RoundBuilder,
    at_ns,
    causes_of,
    fault_kinds,
)


@pytest.fixture
def builder(tmp_path: Path) -> RoundBuilder:
    return RoundBuilder(tmp_path / "arrivals")


# -- deduplication ----------------------------------------------------------------------------------------------------


def test_a_repeat_with_the_first_answer_is_valid(builder: RoundBuilder) -> None:
    assert causes_of(builder.sends_in_group(0).receives_in_group(0, 50).repeats(0, "id-0", 0)) == {}


@pytest.mark.parametrize(("message_id", "sequence"), [("other", 0), ("id-0", 1)])
def test_a_repeat_that_was_taken_for_new_is_found(builder: RoundBuilder, message_id: str, sequence: int) -> None:
    assert fault_kinds(builder.sends_in_group(0).receives_in_group(0, 50).repeats(0, message_id, sequence)) == ["dedup"]


def test_a_repeat_that_is_received_is_invented(builder: RoundBuilder) -> None:
    builder.sends_in_group(0).receives_in_group(0, 50).receives_in_group(0, 51)
    builder.ledger.receipts[-1].id = "other"
    assert fault_kinds(builder) == ["invented"]


# -- two in flight ----------------------------------------------------------------------------------------------------


def test_all_that_is_held_counts_not_only_the_last(builder: RoundBuilder) -> None:
    builder.sends_in_group(0, 1, 2).receives_in_group(0, 50, held_s=5).receives_in_group(1, 50).receives_in_group(2, 51)
    builder.ledger.receipts[1].receive_number = builder.ledger.receipts[0].receive_number
    assert fault_kinds(builder) == ["two in flight"]


def test_a_delete_that_was_refused_too_soon_is_found(builder: RoundBuilder) -> None:
    builder.sends_in_group(0).receives_in_group(0, 50).ledger.refusals.append("g-0: HTTP 400")
    assert fault_kinds(builder) == ["refused"]


# -- dead letters -----------------------------------------------------------------------------------------------------


def redrive(builder: RoundBuilder, *numbers: int) -> RoundBuilder:
    return builder.sends_in_group(*numbers, queue=REDRIVE)


def test_a_message_moved_after_its_receives_is_valid(builder: RoundBuilder) -> None:
    redrive(builder, 0, 1).receives_undeleted(0, 50, 51.5).receives_in_group(
        0, 53, queue=DEAD_LETTERS
    ).receives_in_group(1, 53, queue=REDRIVE)
    assert causes_of(builder) == {}


def test_deleted_in_time_is_valid(builder: RoundBuilder) -> None:
    assert causes_of(redrive(builder, 1).receives_undeleted(1, 50).receives_in_group(1, 51.5, queue=REDRIVE)) == {}


def test_neither_deleted_nor_moved_is_lost(builder: RoundBuilder) -> None:
    assert fault_kinds(redrive(builder, 0).receives_undeleted(0, 50, 51.5)) == ["lost"]


def test_moved_after_its_delete_is_found(builder: RoundBuilder) -> None:
    redrive(builder, 1).receives_in_group(1, 50, queue=REDRIVE).receives_in_group(1, 53, queue=DEAD_LETTERS)
    assert fault_kinds(builder) == ["came back"]


def test_a_delete_that_came_too_late_to_be_one_is_valid(builder: RoundBuilder) -> None:
    """Deleting a message that was moved succeeds, as for any message that is gone."""
    redrive(builder, 1).receives_in_group(1, 50, held_s=2, queue=REDRIVE).receives_undeleted(1, 51.2).receives_in_group(
        1, 53, queue=DEAD_LETTERS
    )
    assert causes_of(builder) == {}


def test_a_move_is_one_transaction(builder: RoundBuilder) -> None:
    redrive(builder, 0).receives_undeleted(0, 50, 51.5).receives_in_group(0, 53, queue=DEAD_LETTERS).moves(
        0, KILL_S, BACK_S
    )
    assert fault_kinds(builder) == ["moved again"]


def test_received_once_too_often_is_found(builder: RoundBuilder) -> None:
    redrive(builder, 0).receives_undeleted(0, 50, 51.5, 53).receives_in_group(0, 55, queue=DEAD_LETTERS)
    assert fault_kinds(builder) == ["received too often"]


def test_moved_twice_is_found(builder: RoundBuilder) -> None:
    redrive(builder, 0).receives_undeleted(0, 50, 51.5).receives_in_group(
        0, 53, held_s=9, queue=DEAD_LETTERS
    ).receives_in_group(0, 55, queue=DEAD_LETTERS)
    assert fault_kinds(builder) == ["duplicate"]


@pytest.mark.parametrize(("sequence", "kinds"), [(0, ["came back"]), (7, ["duplicate", "came back"])])
def test_moved_once_more_after_its_delete_is_found(builder: RoundBuilder, sequence: int, kinds: list[str]) -> None:
    """Also after the end of every lease."""
    redrive(builder, 0).receives_undeleted(0, 50, 51.5).receives_in_group(0, 53, queue=DEAD_LETTERS).receives_in_group(
        0, JUMP_S + 1, queue=DEAD_LETTERS
    )
    builder.ledger.receipts[-1].sequence = sequence
    assert fault_kinds(builder) == kinds


def test_enqueued_twice_is_found(builder: RoundBuilder) -> None:
    redrive(builder, 0).receives_undeleted(0, 50, 51.5).receives_in_group(0, 53, held_s=70, queue=DEAD_LETTERS)
    builder.receives_in_group(0, JUMP_S + 1, queue=DEAD_LETTERS).ledger.receipts[-1].sequence = 7
    assert fault_kinds(builder) == ["duplicate"]


def test_a_dead_letter_of_nobody_is_invented(builder: RoundBuilder) -> None:
    assert fault_kinds(redrive(builder).receives_in_group(0, 53, queue=DEAD_LETTERS)) == ["invented"]


def test_a_dead_letter_with_another_id_is_invented(builder: RoundBuilder) -> None:
    redrive(builder, 0).receives_undeleted(0, 50, 51.5).receives_in_group(0, 53, queue=DEAD_LETTERS)
    builder.ledger.receipts[-1].id = "other"
    assert fault_kinds(builder) == ["invented"]


@pytest.mark.parametrize("queue", [REDRIVE, DEAD_LETTERS])
def test_a_group_out_of_order_in_a_queue_with_a_redrive_policy_is_found(builder: RoundBuilder, queue: str) -> None:
    redrive(builder, 1, 2).receives_in_group(2, 50, queue=queue).receives_in_group(1, 53, queue=queue)
    assert fault_kinds(builder) == ["order"]


def test_two_receives_may_not_hold_a_group_of_a_queue_with_a_redrive_policy(builder: RoundBuilder) -> None:
    redrive(builder, 0, 1).receives_undeleted(0, 50).receives_in_group(1, 50.5, queue=REDRIVE).receives_in_group(
        0, 53, queue=DEAD_LETTERS
    )
    assert fault_kinds(builder) == ["two in flight"]


def test_an_answer_that_came_after_its_lease_was_over_is_valid(builder: RoundBuilder) -> None:
    """Another receive got the message meanwhile, and its answer came first."""
    redrive(builder, 0).receives_undeleted(0, 51.2, 51.5).ledger.receipts[-1].asked_ns = at_ns(50)
    assert causes_of(builder.receives_in_group(0, 53, queue=DEAD_LETTERS)) == {}


def test_an_answer_that_came_late_within_its_lease_is_found(builder: RoundBuilder) -> None:
    redrive(builder, 0).receives_undeleted(0, 50.8, 51.5).ledger.receipts[-1].asked_ns = at_ns(50)
    assert fault_kinds(builder.receives_in_group(0, 53, queue=DEAD_LETTERS)) == ["two in flight"]


def test_a_time_out_or_a_jump_of_the_clock_frees_a_group(builder: RoundBuilder) -> None:
    redrive(builder, 0, 1).receives_undeleted(0, 50, JUMP_S - 0.2).receives_in_group(1, JUMP_S + 0.2, queue=REDRIVE)
    assert causes_of(builder.receives_in_group(0, JUMP_S + 0.3, queue=DEAD_LETTERS)) == {}


def test_what_is_left_in_the_dead_letter_queue_is_found(builder: RoundBuilder) -> None:
    redrive(builder, 0).receives_undeleted(0, 50, 51.5).receives("g-0", "id-0", 53, deleted=False, queue=DEAD_LETTERS)
    assert fault_kinds(builder) == ["never deleted"]


def test_the_queues_are_apart(builder: RoundBuilder) -> None:
    assert fault_kinds(redrive(builder, 1).receives_in_group(1, 50, queue=FIFO)) == ["invented", "lost"]
