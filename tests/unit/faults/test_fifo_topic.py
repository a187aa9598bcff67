"""The accounting of the FIFO topic and its FIFO queues: no loss, no duplicate, each group in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.faults.accounting.causes import LEASE_OVER, ClusterCauses
from lab.faults.accounting.ledger import NS_PER_S, Receipt, SentMessage, body_of, sized, text_of
from lab.faults.cluster.plan import NODE, PERMITTED_CAUSES
from tests.unit.faults.round_builder import (
    BACK_S,
    IN_ENVELOPES,
    IN_ORDER,
    IN_PART,
    JUMP_S,
    KILL_S,
    ORDERED,
    RoundBuilder,
    at_ns,
    causes_of,
    fault_kinds,
)

QUEUES = (IN_ORDER, IN_ENVELOPES, IN_PART)
each_queue = pytest.mark.parametrize("queue", QUEUES)


@pytest.fixture(params=["embedded", NODE])
def builder(tmp_path: Path, request: pytest.FixtureRequest) -> RoundBuilder:
    made = RoundBuilder(tmp_path / "arrivals")
    if request.param != "embedded":
        made.causes = ClusterCauses(made.ledger, PERMITTED_CAUSES[request.param])
    return made


def _message(builder: RoundBuilder, number: int) -> SentMessage:
    return builder.ledger.sent[ORDERED][f"g-{number}"]


def _first(builder: RoundBuilder, queue: str) -> Receipt:
    return builder.ledger.receipts_of(queue)[0]


def _last(builder: RoundBuilder, queue: str) -> Receipt:
    return builder.ledger.receipts_of(queue)[-1]


def test_each_once_and_in_order_is_valid(builder: RoundBuilder) -> None:
    assert causes_of(builder.publishes_in_order(0, 1, 2).delivers(0, 50).delivers(1, 51).delivers(2, 52)) == {}


def test_what_was_not_acknowledged_may_be_missing(builder: RoundBuilder) -> None:
    builder.publishes_in_order(0)
    _message(builder, 0).ids.clear()
    assert causes_of(builder) == {}


@each_queue
def test_what_does_not_come_to_one_queue_is_lost(builder: RoundBuilder, queue: str) -> None:
    builder.publishes_in_order(0).delivers(0, 50, *(other for other in QUEUES if other != queue))
    assert fault_kinds(builder) == ["notification lost"]
    assert builder.account().missing


@pytest.mark.parametrize(
    ("build", "kinds"),
    [
        (lambda made: made.delivers(0, 50, IN_ORDER), ["invented"]),
        (
            lambda made: made.publishes_in_order(0, 1).delivers(0, 50).delivers(1, 51).delivers(1, 51, IN_PART),
            ["invented"],
        ),
        (lambda made: made.publishes_in_order(0).delivers(0, 50).repeats(0, "other", 0, ORDERED), ["dedup"]),
        (lambda made: made.publishes_in_order(0).delivers(0, 50).repeats(0, "id-0", 1, ORDERED), ["dedup"]),
    ],
    ids=["published by nobody", "rejected by the filter", "a repeat with another id", "with another number"],
)
def test_a_fault_is_found(
    builder: RoundBuilder, build: Callable[[RoundBuilder], RoundBuilder], kinds: list[str]
) -> None:
    assert fault_kinds(build(builder)) == kinds


@pytest.mark.parametrize(
    ("queue", "member", "value", "kinds"),
    [
        (IN_ENVELOPES, "notification", "another", ["invented"]),
        (IN_ENVELOPES, "published", 7, ["sequence"]),
        (IN_ORDER, "group", "h", ["order"]),
    ],
)
def test_what_is_not_as_it_was_published_is_found(
    builder: RoundBuilder, queue: str, member: str, value: object, kinds: list[str]
) -> None:
    builder.publishes_in_order(0).delivers(0, 50)
    setattr(_last(builder, queue), member, value)
    assert fault_kinds(builder) == kinds


# -- duplicates -------------------------------------------------------------------------------------------------------


@each_queue
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


@each_queue
def test_one_message_comes_again_when_its_lease_is_over_only(builder: RoundBuilder, queue: str) -> None:
    builder.publishes_in_order(0).delivers(0, JUMP_S - 1).delivers(0, JUMP_S + 1, queue)
    first = _first(builder, queue)
    first.deleted_ns = first.delete_asked_ns = 0
    assert causes_of(builder) == {LEASE_OVER: 1}
    builder.ledger.jumps_ns.clear()
    assert set(fault_kinds(builder)) == {"duplicate", "two in flight"}


def test_a_message_may_neither_come_back_nor_stay(builder: RoundBuilder) -> None:
    builder.publishes_in_order(0, 1).delivers(0, 50).delivers(0, JUMP_S + 1, IN_ORDER).delivers(1, JUMP_S + 2)
    _last(builder, IN_ORDER).deleted_ns = 0
    assert sorted(fault_kinds(builder)) == ["came back", "never deleted"]


# -- order ------------------------------------------------------------------------------------------------------------


@each_queue
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


def test_acknowledged_sequence_numbers_rise(builder: RoundBuilder) -> None:
    builder.publishes_in_order(0, 1).delivers(0, 50).delivers(1, 51)
    _message(builder, 1).sequence = _last(builder, IN_ENVELOPES).published = 0
    assert fault_kinds(builder) == ["sequence"]


@each_queue
def test_two_receives_may_not_hold_one_group(builder: RoundBuilder, queue: str) -> None:
    builder.publishes_in_order(0, 3).delivers(0, 50).delivers(3, 51)
    first = _first(builder, queue)
    first.delete_asked_ns = first.deleted_ns = at_ns(52)
    assert fault_kinds(builder) == ["two in flight"]


@pytest.mark.parametrize("times", [1, 10, 20])
def test_a_large_body_is_known_whole(times: int) -> None:
    body = body_of(sized("g-1", times))
    assert len(body) > 900 * times
    assert text_of(body) == sized("g-1", times)
    assert text_of(body[:-1]) == body[:-1]
