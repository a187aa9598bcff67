"""The accounting of kill rounds: faults, and duplicates with a permitted cause."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.faults.accounting.causes import CLIENT_RETRY, CRASH_BEFORE_RECEIVE, CRASH_BEFORE_SETTLE, LEASE_OVER
from tests.unit.faults.round_builder import (
    BACK_S,
    FIFO,
    JUMP_S,
    KILL_S,
    WIDE,
    RoundBuilder,
    at_ns,
    causes_of,
    fault_kinds,
)


@pytest.fixture
def builder(tmp_path: Path) -> RoundBuilder:
    return RoundBuilder(tmp_path / "arrivals")


# -- queues -----------------------------------------------------------------------------------------------------------


def test_a_round_in_which_nothing_happens_is_valid(builder: RoundBuilder) -> None:
    assert causes_of(builder.sends("a", "1").receives("a", "1", 50)) == {}


def test_an_acknowledged_message_that_never_came_is_lost(builder: RoundBuilder) -> None:
    assert fault_kinds(builder.sends("a", "1")) == ["lost"]


def test_a_message_that_nobody_sent_is_invented(builder: RoundBuilder) -> None:
    assert fault_kinds(builder.receives("a", "1", 50)) == ["invented"]


def test_a_message_with_a_spoilt_body_is_invented_and_the_true_one_lost(builder: RoundBuilder) -> None:
    assert fault_kinds(builder.sends("a", "1").receives("b", "1", 50)) == ["invented", "lost"]


def test_one_message_more_than_attempts_is_invented(builder: RoundBuilder) -> None:
    assert fault_kinds(
        builder.sends("a", "1", open=1).receives("a", "1", 50).receives("a", "2", 50).receives("a", "3", 50)
    ) == ["invented"]


def test_a_retry_after_an_unknown_outcome_makes_a_duplicate(builder: RoundBuilder) -> None:
    assert causes_of(builder.sends("a", "2", open=1).receives("a", "1", 50).receives("a", "2", 50)) == {CLIENT_RETRY: 1}


def test_a_message_may_not_come_back_after_its_delete(builder: RoundBuilder) -> None:
    assert fault_kinds(builder.sends("a", "1").receives("a", "1", KILL_S - 0.1).receives("a", "1", BACK_S)) == [
        "came back"
    ]


def test_a_message_may_not_stay(builder: RoundBuilder) -> None:
    assert fault_kinds(builder.sends("a", "1").receives("a", "1", 50, deleted=False)) == ["never deleted"]


@pytest.mark.parametrize(
    ("first_s", "again_s", "cause"),
    [
        (KILL_S - 0.5, BACK_S, CRASH_BEFORE_RECEIVE),
        (KILL_S - 0.5, KILL_S + 31, LEASE_OVER),
        (JUMP_S - 1, JUMP_S + 1, LEASE_OVER),
    ],
)
def test_a_message_comes_twice_with_a_cause(builder: RoundBuilder, first_s: float, again_s: float, cause: str) -> None:
    builder.sends("a", "1").receives("a", "1", first_s, deleted=False).receives("a", "1", again_s)
    assert causes_of(builder) == {cause: 1}


@pytest.mark.parametrize(
    ("first_s", "again_s"), [(50.0, 60.0), (KILL_S - 5, BACK_S), (KILL_S + 1, BACK_S), (KILL_S - 0.5, KILL_S - 0.2)]
)
def test_a_message_may_not_come_twice_without_a_cause(builder: RoundBuilder, first_s: float, again_s: float) -> None:
    builder.sends("a", "1").receives("a", "1", first_s, deleted=False).receives("a", "1", again_s)
    assert fault_kinds(builder) == ["duplicate"]


# -- FIFO groups ------------------------------------------------------------------------------------------------------


def test_a_group_in_order_is_valid(builder: RoundBuilder) -> None:
    assert causes_of(builder.sends_in_group(0, 1).receives_in_group(0, 50).receives_in_group(1, 51)) == {}


def test_a_group_out_of_order_is_found(builder: RoundBuilder) -> None:
    assert fault_kinds(builder.sends_in_group(0, 1).receives_in_group(1, 50).receives_in_group(0, 51)) == [
        "order",
        "sequence",
    ]


def test_a_gap_in_a_group_is_a_loss_and_breaks_its_order(builder: RoundBuilder) -> None:
    assert fault_kinds(builder.sends_in_group(0, 1, 2).receives_in_group(0, 50).receives_in_group(2, 51)) == [
        "lost",
        "order",
    ]


def test_two_receives_may_not_hold_one_group(builder: RoundBuilder) -> None:
    builder.sends_in_group(0, 1).receives_in_group(0, 50, held_s=2).receives_in_group(1, 51)
    assert fault_kinds(builder) == ["two in flight"]


def test_a_crash_excuses_no_fifo_message_that_comes_twice(builder: RoundBuilder) -> None:
    builder.sends_in_group(0).receives_in_group(0, KILL_S - 0.5, held_s=9).receives_in_group(0, BACK_S)
    assert "duplicate" in fault_kinds(builder)


def test_deduplication_leaves_a_fifo_sender_no_duplicate(builder: RoundBuilder) -> None:
    builder.sends_in_group(0).receives_in_group(0, 50)
    builder.ledger.sent[FIFO]["g-0"].unknown_outcomes = 1
    builder.ledger.receipts.append(replace(builder.ledger.receipts[0], id="other", received_ns=at_ns(51)))
    assert fault_kinds(builder) == ["invented"]


# -- notifications ----------------------------------------------------------------------------------------------------


def test_a_notification_at_every_subscriber_is_valid(builder: RoundBuilder) -> None:
    builder.publishes("a", "n").receives_envelope("a", "n", 50).arrives("n", (1, 50), (2, 50))
    assert causes_of(builder) == {}


@pytest.mark.parametrize("missing", ["queue", "endpoint"])
@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_notification_that_came_to_some_must_come_to_all(
    builder: RoundBuilder, missing: str, acknowledged: bool
) -> None:
    builder.publishes("a", *["n"] if acknowledged else [], open=1)
    if missing == "endpoint":
        builder.receives_envelope("a", "n", 50)
    builder.arrives("n", (1, 50), *[(2, 50.0)] if missing == "queue" else [])
    assert set(fault_kinds(builder)) == {"notification lost"}


def test_a_notification_that_nobody_published_is_invented(builder: RoundBuilder) -> None:
    builder.publishes("a", "n").receives_envelope("a", "n", 50).arrives("n", (1, 50), (2, 50))
    builder.receives_envelope("a", "m", 50).arrives("m", (1, 50), (2, 50))
    assert set(fault_kinds(builder)) == {"invented"}


@pytest.mark.parametrize(
    ("first_s", "cause"),
    [
        (KILL_S - 0.99, CRASH_BEFORE_SETTLE),
        (KILL_S + 0.5, CRASH_BEFORE_SETTLE),
        (JUMP_S - 0.5, LEASE_OVER),
        (JUMP_S + 1.5, LEASE_OVER),
    ],
)
def test_a_notification_comes_twice_with_a_cause(builder: RoundBuilder, first_s: float, cause: str) -> None:
    builder.publishes("a", "n").receives_envelope("a", "n", first_s).receives_envelope("a", "n", JUMP_S + 5, copy=1)
    builder.arrives("n", (1, first_s), (1, JUMP_S + 5), (2, first_s))
    assert causes_of(builder) == {cause: 2}


def test_what_was_published_after_a_jump_has_no_lease_that_it_ended(builder: RoundBuilder) -> None:
    builder.publishes("a", "n", at_s=JUMP_S + 0.1).receives_envelope("a", "n", JUMP_S + 0.5)
    builder.arrives("n", (1, JUMP_S + 0.5), (1, JUMP_S + 5), (2, JUMP_S + 0.5))
    assert fault_kinds(builder) == ["duplicate"]


@pytest.mark.parametrize("first_s", [50.0, KILL_S - 3, BACK_S + 2, JUMP_S + 2.5])
def test_a_notification_may_not_come_twice_without_a_cause(builder: RoundBuilder, first_s: float) -> None:
    builder.publishes("a", "n").receives_envelope("a", "n", 50)
    builder.arrives("n", (1, first_s), (1, JUMP_S + 5), (2, 50))
    assert fault_kinds(builder) == ["duplicate"]


@pytest.mark.parametrize(("before_s", "faults"), [(0.99, []), (1.01, ["duplicate"])])
def test_what_was_answered_more_than_a_second_before_a_crash_may_not_be_sent_again(
    builder: RoundBuilder, before_s: float, faults: list[str]
) -> None:
    builder.publishes("a", "n", topic=WIDE).arrives("n", (1, KILL_S - before_s), (1, BACK_S), topic=WIDE)
    assert fault_kinds(builder) == faults
    assert builder.account().repeated_ns == pytest.approx(at_ns(before_s))


@pytest.mark.parametrize(("before_s", "faults"), [(0.99, []), (1.01, ["duplicate"])])
def test_nor_what_was_put_into_a_queue(builder: RoundBuilder, before_s: float, faults: list[str]) -> None:
    builder.publishes("a", "n").arrives("n", (1, 50), (2, 50))
    builder.receives_envelope("a", "n", KILL_S - before_s).receives_envelope("a", "n", BACK_S, copy=1)
    assert fault_kinds(builder) == faults


def test_the_longest_time_between_a_first_arrival_and_a_crash_is_reported(builder: RoundBuilder) -> None:
    builder.publishes("a", "n", "m").receives_envelope("a", "n", 50).receives_envelope("a", "m", 50)
    builder.arrives("n", (1, KILL_S - 0.25), (1, BACK_S), (2, KILL_S - 0.5), (2, BACK_S + 1))
    builder.arrives("m", (1, KILL_S - 0.75), (2, BACK_S))
    assert builder.account().repeated_ns == pytest.approx(at_ns(0.5))
    builder.arrives("m", (1, KILL_S - 0.7))  # received again, but not after the kill
    assert builder.account().repeated_ns == pytest.approx(at_ns(0.5))
