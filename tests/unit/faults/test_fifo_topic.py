"""The accounting of the FIFO topic and its FIFO queues: no loss, no duplicate, each group in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.faults.accounting.causes import LEASE_OVER, ClusterCauses
from lab.faults.accounting.ledger import NS_PER_S, Receipt, SentMessage, body_of, sized, text_of
from lab.faults.cluster.plan import CLUSTER_KINDS, PERMITTED_CAUSES
from tests.unit.faults.round_builder import (
    BACK_S,
    IN_ENVELOPES,
    IN_ORDER,
    IN_PART,
    JUMP_S,
    KILL_S,
    ORDERED,
    RoundBuilder,
    causes_of,
    fault_kinds,
)

QUEUES = (IN_ORDER, IN_ENVELOPES, IN_PART)


@pytest.fixture(params=["embedded", *CLUSTER_KINDS])
def builder(tmp_path: Path, request: pytest.FixtureRequest) -> RoundBuilder:
    made = RoundBuilder(tmp_path / "arrivals")
    if request.param != "embedded":
        made.causes = ClusterCauses(made.ledger, PERMITTED_CAUSES[request.param])
    return made


def _message(builder: RoundBuilder, number: int) -> SentMessage:
    return builder.ledger.sent[ORDERED][f"g-{number}"]


def _last(builder: RoundBuilder, queue: str) -> Receipt:
    return builder.ledger.receipts_of(queue)[-1]


def test_each_once_and_in_order_is_valid(builder: RoundBuilder) -> None:
    assert causes_of(builder.publishes_in_order(0, 1, 2).delivers(0, 50).delivers(1, 51).delivers(2, 52)) == {}


@pytest.mark.parametrize("queue", QUEUES)
def test_what_does_not_come_to_one_queue_is_lost(builder: RoundBuilder, queue: str) -> None:
    builder.publishes_in_order(0).delivers(0, 50, *(other for other in QUEUES if other != queue))
    assert fault_kinds(builder) == ["notification lost"]
    assert builder.account().missing


def test_what_was_not_acknowledged_may_be_missing(builder: RoundBuilder) -> None:
    builder.publishes_in_order(0)
    _message(builder, 0).ids.clear()
    assert causes_of(builder) == {}


@pytest.mark.parametrize("queue", QUEUES)
def test_what_nobody_published_is_invented(builder: RoundBuilder, queue: str) -> None:
    assert fault_kinds(builder.delivers(0, 50, queue)) == ["invented"]


def test_what_the_filter_rejects_is_invented_there(builder: RoundBuilder) -> None:
    builder.publishes_in_order(0, 1).delivers(0, 50).delivers(1, 51).delivers(1, 51, IN_PART)
    assert fault_kinds(builder) == ["invented"]


def test_another_notification_of_the_same_text_is_invented(builder: RoundBuilder) -> None:
    builder.publishes_in_order(0).delivers(0, 50)
    _last(builder, IN_ENVELOPES).notification = "another"
    assert fault_kinds(builder) == ["invented"]


# -- duplicates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize(
    ("first_s", "again_s"),
    [(50.0, 51.0), (KILL_S - 0.5, BACK_S), (KILL_S + 0.5, BACK_S + 1), (JUMP_S - 0.5, JUMP_S + 1)],
    ids=["in peace", "around a kill", "while away", "around a jump"],
)
def test_nothing_excuses_a_second_copy(builder: RoundBuilder, queue: str, first_s: float, again_s: float) -> None:
    builder.publishes_in_order(0).delivers(0, first_s).delivers(0, again_s, queue, copy=1)
    builder.ledger.failures_ns.append(int(first_s * NS_PER_S))
    _message(builder, 0).unknown_outcomes = 1
    assert fault_kinds(builder) == ["duplicate"]


@pytest.mark.parametrize("queue", QUEUES)
def test_one_message_comes_again_when_its_lease_is_over(builder: RoundBuilder, queue: str) -> None:
    builder.publishes_in_order(0).delivers(0, JUMP_S - 1).delivers(0, JUMP_S + 1, queue)
    first = next(receipt for receipt in builder.ledger.receipts if receipt.queue == queue)
    first.deleted_ns = first.delete_asked_ns = 0
    assert causes_of(builder) == {LEASE_OVER: 1}


@pytest.mark.parametrize("queue", QUEUES)
def test_one_message_may_not_come_again_before(builder: RoundBuilder, queue: str) -> None:
    builder.publishes_in_order(0).delivers(0, KILL_S - 0.5).delivers(0, BACK_S, queue)
    first = next(receipt for receipt in builder.ledger.receipts if receipt.queue == queue)
    first.deleted_ns = first.delete_asked_ns = 0
    assert set(fault_kinds(builder)) == {"duplicate", "two in flight"}


def test_a_message_may_neither_come_back_nor_stay(builder: RoundBuilder) -> None:
    builder.publishes_in_order(0, 1).delivers(0, 50).delivers(0, JUMP_S + 1, IN_ORDER).delivers(1, JUMP_S + 2)
    _last(builder, IN_ORDER).deleted_ns = 0
    assert sorted(fault_kinds(builder)) == ["came back", "never deleted"]


@pytest.mark.parametrize(("message_id", "sequence"), [("other", 0), ("id-0", 1)])
def test_a_repeat_that_was_taken_for_new_is_found(builder: RoundBuilder, message_id: str, sequence: int) -> None:
    builder.publishes_in_order(0).delivers(0, 50).repeats(0, message_id, sequence, ORDERED)
    assert fault_kinds(builder) == ["dedup"]


def test_a_repeat_with_the_first_answer_is_valid(builder: RoundBuilder) -> None:
    assert causes_of(builder.publishes_in_order(0).delivers(0, 50).repeats(0, "id-0", 0, ORDERED)) == {}


# -- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", QUEUES)
def test_a_group_out_of_order_is_found(builder: RoundBuilder, queue: str) -> None:
    builder.publishes_in_order(0, 3)
    for other in QUEUES:
        first, second = (3, 0) if other == queue else (0, 3)
        builder.delivers(first, 50, other).delivers(second, 51, other)
    assert fault_kinds(builder) == ["order", "sequence"]


def test_enqueued_out_of_order_is_found_whatever_the_numbers(builder: RoundBuilder) -> None:
    """The queue numbers messages in the order of their sends."""
    builder.publishes_in_order(0, 1).delivers(1, 50).delivers(0, 51, IN_PART)
    builder.delivers(0, 51, IN_ORDER, IN_ENVELOPES)
    for receipt in builder.ledger.receipts:
        receipt.sequence = 1 - receipt.sequence
    assert fault_kinds(builder) == ["order", "order"]


def test_a_gap_that_is_filled_later_breaks_the_order(builder: RoundBuilder) -> None:
    builder.publishes_in_order(0, 1, 2)
    builder.delivers(0, 50).delivers(2, 51).delivers(1, 52, IN_ENVELOPES).delivers(1, 52, IN_ORDER)
    assert set(fault_kinds(builder)) == {"order", "sequence"}


def test_another_group_than_was_published_to_is_found(builder: RoundBuilder) -> None:
    builder.publishes_in_order(0).delivers(0, 50)
    _last(builder, IN_ORDER).group = "h"
    assert fault_kinds(builder) == ["order"]


def test_an_envelope_has_the_acknowledged_sequence_number(builder: RoundBuilder) -> None:
    builder.publishes_in_order(0).delivers(0, 50)
    _last(builder, IN_ENVELOPES).published = 7
    assert fault_kinds(builder) == ["sequence"]


def test_acknowledged_sequence_numbers_rise(builder: RoundBuilder) -> None:
    builder.publishes_in_order(0, 1).delivers(0, 50).delivers(1, 51)
    _message(builder, 1).sequence = _last(builder, IN_ENVELOPES).published = 0
    assert fault_kinds(builder) == ["sequence"]


@pytest.mark.parametrize("queue", QUEUES)
def test_two_receives_may_not_hold_one_group(builder: RoundBuilder, queue: str) -> None:
    builder.publishes_in_order(0, 3).delivers(0, 50).delivers(3, 51)
    first = next(receipt for receipt in builder.ledger.receipts if receipt.queue == queue)
    first.delete_asked_ns = first.deleted_ns = int(52 * NS_PER_S)
    assert fault_kinds(builder) == ["two in flight"]


# -- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 10, 20])
def test_a_large_body_is_known_whole(times: int) -> None:
    body = body_of(sized("g-1", times))
    assert len(body) > 900 * times
    assert text_of(body) == sized("g-1", times)
    assert text_of(body[:-1]) == body[:-1]
