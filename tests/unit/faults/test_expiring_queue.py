"""The accounting of FIFO queues: deduplication, time-outs and dead letters, and what of them is a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.faults.round_builder import (
    BACK_S,
    DEAD,
    EXPIRING,
    FIFO,
    JUMP_S,
    KILL_S,
    RoundBuilder,
    at_ns,
    causes_of,
    fault_kinds,
)


@pytest.fixture
def builder(tmp_path: Path) -> RoundBuilder:
    return RoundBuilder(tmp_path / "arrivals")


# -- deduplication ----------------------------------------------------------------------------------------------------


def test_an_echo_of_the_first_answer_is_valid(builder: RoundBuilder) -> None:
    assert causes_of(builder.sends_in_group(0).gets_of_group(0, 50).echoes(0, "id-0", 0)) == {}


@pytest.mark.parametrize(("message_id", "sequence"), [("other", 0), ("id-0", 1)])
def test_an_echo_that_was_taken_for_new_is_found(builder: RoundBuilder, message_id: str, sequence: int) -> None:
    assert fault_kinds(builder.sends_in_group(0).gets_of_group(0, 50).echoes(0, message_id, sequence)) == ["dedup"]


def test_an_echo_that_comes_out_is_invented(builder: RoundBuilder) -> None:
    builder.sends_in_group(0).gets_of_group(0, 50).gets_of_group(0, 51)
    builder.ledger.receipts[-1].id = "other"
    assert fault_kinds(builder) == ["invented"]


# -- two in flight ----------------------------------------------------------------------------------------------------


def test_all_that_is_held_counts_not_only_the_last(builder: RoundBuilder) -> None:
    builder.sends_in_group(0, 1, 2).gets_of_group(0, 50, held_s=5).gets_of_group(1, 50).gets_of_group(2, 51)
    builder.ledger.receipts[1].take = builder.ledger.receipts[0].take
    assert fault_kinds(builder) == ["two in flight"]


def test_a_delete_that_was_refused_too_soon_is_found(builder: RoundBuilder) -> None:
    builder.sends_in_group(0).gets_of_group(0, 50).ledger.refusals.append("g-0: HTTP 400")
    assert fault_kinds(builder) == ["refused"]


# -- dead letters -----------------------------------------------------------------------------------------------------


def expiring(builder: RoundBuilder, *numbers: int) -> RoundBuilder:
    return builder.sends_in_group(*numbers, queue=EXPIRING)


def test_worn_out_and_moved_is_valid(builder: RoundBuilder) -> None:
    expiring(builder, 0, 1).times_out(0, 50, 51.5).gets_of_group(0, 53, queue=DEAD).gets_of_group(1, 53, queue=EXPIRING)
    assert causes_of(builder) == {}


def test_deleted_in_time_is_valid(builder: RoundBuilder) -> None:
    assert causes_of(expiring(builder, 1).times_out(1, 50).gets_of_group(1, 51.5, queue=EXPIRING)) == {}


def test_neither_deleted_nor_moved_is_lost(builder: RoundBuilder) -> None:
    assert fault_kinds(expiring(builder, 0).times_out(0, 50, 51.5)) == ["lost"]


def test_moved_after_its_delete_is_found(builder: RoundBuilder) -> None:
    expiring(builder, 1).gets_of_group(1, 50, queue=EXPIRING).gets_of_group(1, 53, queue=DEAD)
    assert fault_kinds(builder) == ["came back"]


def test_a_delete_that_came_too_late_to_be_one_is_valid(builder: RoundBuilder) -> None:
    """Of a message that has been moved, it succeeds as that of any that is gone."""
    expiring(builder, 1).gets_of_group(1, 50, held_s=2, queue=EXPIRING).times_out(1, 51.2).gets_of_group(
        1, 53, queue=DEAD
    )
    assert causes_of(builder) == {}


def test_a_move_is_one_transaction(builder: RoundBuilder) -> None:
    expiring(builder, 0).times_out(0, 50, 51.5).gets_of_group(0, 53, queue=DEAD).moves(0, KILL_S, BACK_S)
    assert fault_kinds(builder) == ["moved again"]


def test_received_once_too_often_is_found(builder: RoundBuilder) -> None:
    expiring(builder, 0).times_out(0, 50, 51.5, 53).gets_of_group(0, 55, queue=DEAD)
    assert fault_kinds(builder) == ["received too often"]


def test_moved_twice_is_found(builder: RoundBuilder) -> None:
    expiring(builder, 0).times_out(0, 50, 51.5).gets_of_group(0, 53, held_s=9, queue=DEAD).gets_of_group(
        0, 55, queue=DEAD
    )
    assert fault_kinds(builder) == ["duplicate"]


@pytest.mark.parametrize(("sequence", "kinds"), [(0, ["came back"]), (7, ["duplicate", "came back"])])
def test_moved_once_more_after_its_delete_is_found(builder: RoundBuilder, sequence: int, kinds: list[str]) -> None:
    """Even when any lease would be over."""
    expiring(builder, 0).times_out(0, 50, 51.5).gets_of_group(0, 53, queue=DEAD).gets_of_group(
        0, JUMP_S + 1, queue=DEAD
    )
    builder.ledger.receipts[-1].sequence = sequence
    assert fault_kinds(builder) == kinds


def test_enqueued_twice_is_found(builder: RoundBuilder) -> None:
    expiring(builder, 0).times_out(0, 50, 51.5).gets_of_group(0, 53, held_s=70, queue=DEAD)
    builder.gets_of_group(0, JUMP_S + 1, queue=DEAD).ledger.receipts[-1].sequence = 7
    assert fault_kinds(builder) == ["duplicate"]


def test_a_dead_letter_of_nobody_is_invented(builder: RoundBuilder) -> None:
    assert fault_kinds(expiring(builder).gets_of_group(0, 53, queue=DEAD)) == ["invented"]


def test_a_dead_letter_with_another_id_is_invented(builder: RoundBuilder) -> None:
    expiring(builder, 0).times_out(0, 50, 51.5).gets_of_group(0, 53, queue=DEAD)
    builder.ledger.receipts[-1].id = "other"
    assert fault_kinds(builder) == ["invented"]


@pytest.mark.parametrize("queue", [EXPIRING, DEAD])
def test_a_worn_group_out_of_order_is_found(builder: RoundBuilder, queue: str) -> None:
    expiring(builder, 1, 2).gets_of_group(2, 50, queue=queue).gets_of_group(1, 53, queue=queue)
    assert fault_kinds(builder) == ["order"]


def test_two_receives_may_not_hold_a_worn_group(builder: RoundBuilder) -> None:
    expiring(builder, 0, 1).times_out(0, 50).gets_of_group(1, 50.5, queue=EXPIRING).gets_of_group(0, 53, queue=DEAD)
    assert fault_kinds(builder) == ["two in flight"]


def test_an_answer_that_came_after_its_lease_was_over_is_valid(builder: RoundBuilder) -> None:
    """Another got the message meanwhile, and was answered sooner."""
    expiring(builder, 0).times_out(0, 51.2, 51.5).ledger.receipts[-1].asked_ns = at_ns(50)
    assert causes_of(builder.gets_of_group(0, 53, queue=DEAD)) == {}


def test_an_answer_that_came_late_within_its_lease_is_found(builder: RoundBuilder) -> None:
    expiring(builder, 0).times_out(0, 50.8, 51.5).ledger.receipts[-1].asked_ns = at_ns(50)
    assert fault_kinds(builder.gets_of_group(0, 53, queue=DEAD)) == ["two in flight"]


def test_a_time_out_or_a_jump_of_the_clock_frees_a_group(builder: RoundBuilder) -> None:
    expiring(builder, 0, 1).times_out(0, 50, JUMP_S - 0.2).gets_of_group(1, JUMP_S + 0.2, queue=EXPIRING)
    assert causes_of(builder.gets_of_group(0, JUMP_S + 0.3, queue=DEAD)) == {}


def test_what_is_left_in_the_dead_letter_queue_is_found(builder: RoundBuilder) -> None:
    expiring(builder, 0).times_out(0, 50, 51.5).gets("g-0", "id-0", 53, deleted=False, queue=DEAD)
    assert fault_kinds(builder) == ["never deleted"]


def test_the_queues_are_apart(builder: RoundBuilder) -> None:
    assert fault_kinds(expiring(builder, 1).gets_of_group(1, 50, queue=FIFO)) == ["invented", "lost"]
