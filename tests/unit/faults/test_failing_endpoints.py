"""The accounting of failing endpoints: late deliveries, dead letters and too many attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.faults.accounting.causes import CRASH_BEFORE_SETTLE
from tests.unit.faults.round_builder import (
    BACK_S,
    FAILING_RESOURCES,
    FAILING_TOPIC,
    JUMP_S,
    KILL_S,
    UNDELIVERED,
    RoundBuilder,
    causes_of,
    fault_kinds,
)

FAILING, DOOMED = 1, 2


@pytest.fixture
def builder(tmp_path: Path) -> RoundBuilder:
    """A round with one publish, attempted at the endpoint whose messages may become dead letters."""
    builder = RoundBuilder(tmp_path / "arrivals")
    builder.resources = FAILING_RESOURCES
    return builder.publishes("a", "n", topic=FAILING_TOPIC, at_s=40)


def test_what_failed_and_came_later_is_valid(builder: RoundBuilder) -> None:
    _fails(builder, FAILING, 50, 71).arrives("n", (FAILING, JUMP_S + 1), (DOOMED, 50), topic=FAILING_TOPIC)
    assert causes_of(builder) == {}


def test_a_dead_letter_is_no_loss(builder: RoundBuilder) -> None:
    builder.arrives("n", (FAILING, 50), topic=FAILING_TOPIC)
    _fails(builder, DOOMED, 50).receives_envelope("a", "n", 50, queue=UNDELIVERED)
    assert causes_of(builder) == {}


def test_what_only_failed_is_lost(builder: RoundBuilder) -> None:
    _fails(builder, FAILING, 50).arrives("n", (DOOMED, 50), topic=FAILING_TOPIC)
    assert fault_kinds(builder) == ["notification lost"]


def test_one_subscription_s_dead_letter_is_not_another_s_delivery(builder: RoundBuilder) -> None:
    builder.arrives("n", (DOOMED, 50), topic=FAILING_TOPIC).receives_envelope("a", "n", 50, queue=UNDELIVERED)
    assert fault_kinds(builder) == ["notification lost"]


def test_a_dead_letter_may_not_stay(builder: RoundBuilder) -> None:
    builder.arrives("n", (FAILING, 50), topic=FAILING_TOPIC).receives_envelope("a", "n", 50, queue=UNDELIVERED)
    builder.ledger.receipts[-1].deleted_ns = 0
    assert fault_kinds(builder) == ["never deleted"]


def test_a_dead_letter_that_nobody_published_is_invented(builder: RoundBuilder) -> None:
    builder.arrives("n", (FAILING, 50), (DOOMED, 50), topic=FAILING_TOPIC).receives_envelope(
        "b", "m", 50, queue=UNDELIVERED
    )
    assert set(fault_kinds(builder)) == {"invented", "notification lost"}


@pytest.mark.parametrize(("before_s", "faults"), [(0.99, []), (1.01, ["duplicate"])])
def test_a_failure_answered_more_than_a_second_before_a_crash_may_not_be_had_again(
    builder: RoundBuilder, before_s: float, faults: list[str]
) -> None:
    _fails(builder, FAILING, KILL_S - before_s, BACK_S).arrives("n", (FAILING, 130), (DOOMED, 50), topic=FAILING_TOPIC)
    assert fault_kinds(builder) == faults


@pytest.mark.parametrize(("before_s", "faults"), [(0.99, []), (1.01, ["duplicate"])])
@pytest.mark.parametrize("again", [500, 200])
def test_nor_a_last_attempt(builder: RoundBuilder, again: int, before_s: float, faults: list[str]) -> None:
    _fails(builder, DOOMED, KILL_S - before_s).arrives("n", (FAILING, 50), topic=FAILING_TOPIC)
    builder.arrives("n", (DOOMED, JUMP_S + 5), topic=FAILING_TOPIC, status=again)
    builder.receives_envelope("a", "n", JUMP_S + 5, queue=UNDELIVERED)
    assert fault_kinds(builder) == faults


@pytest.mark.parametrize(("first_s", "faults"), [(KILL_S - 0.5, []), (KILL_S - 2, ["duplicate"])])
def test_a_dead_letter_comes_twice_with_a_cause(builder: RoundBuilder, first_s: float, faults: list[str]) -> None:
    builder.arrives("n", (FAILING, 50), topic=FAILING_TOPIC).receives_envelope("a", "n", first_s, queue=UNDELIVERED)
    builder.receives_envelope("a", "n", BACK_S, copy=1, queue=UNDELIVERED)
    assert fault_kinds(builder) == faults
    if not faults:
        assert causes_of(builder) == {CRASH_BEFORE_SETTLE: 1}


def test_failed_attempts_at_healthy_endpoints_are_found(tmp_path: Path) -> None:
    builder = RoundBuilder(tmp_path / "arrivals").publishes("a", "n").receives_envelope("a", "n", 50)
    builder.arrives("n", (1, 49), status=500).arrives("n", (1, 50), (2, 50))
    assert fault_kinds(builder) == ["failed"]


def _fails(builder: RoundBuilder, endpoint: int, *at_s: float) -> RoundBuilder:
    return builder.arrives("n", *[(endpoint, second) for second in at_s], topic=FAILING_TOPIC, status=500)
