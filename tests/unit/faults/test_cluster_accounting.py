"""The accounting of the cluster's rounds: causes of duplicates by kind of round, and faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.faults.accounting.causes import (
    CLIENT_RETRY,
    CRASH_BEFORE_SETTLE,
    HIDING_LOST,
    LEASE_OVER,
    MOVE_CUT_OFF,
    SETTLEMENT_FAILED,
    ClusterCauses,
)
from lab.faults.cluster.plan import API, CLUSTER_KINDS, NODE, PERMITTED_CAUSES, REDIS, WORKER
from lab.faults.service.resources import JUMP_S as JUMP_LENGTH_S
from tests.unit.faults.round_builder import (
    BACK_S,
    DEAD_LETTERS,
    JUMP_S,
    KILL_S,
    REDRIVE,
    WIDE,
    RoundBuilder,
    at_ns,
    causes_of,
    fault_kinds,
)

AHEAD_MS = 1_000_000


@pytest.fixture(params=CLUSTER_KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def builder(tmp_path: Path, kind: str) -> RoundBuilder:
    made = RoundBuilder(tmp_path / "arrivals")
    made.causes = ClusterCauses(made.ledger, PERMITTED_CAUSES[kind])
    return made


def _expect(builder: RoundBuilder, cause: str) -> None:
    """Assert that the duplicate has this cause if the kind of round permits it, else none."""
    if cause:
        assert causes_of(builder) == {cause: 1}
    else:
        assert fault_kinds(builder) == ["duplicate"]


# -- queues -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first_s", "again_s", "hiding_lost"),
    [
        (KILL_S - 0.1, KILL_S + 0.1, True),  # held when Redis fell
        (KILL_S + 1, KILL_S + 1.5, True),  # received from two processes that each hide messages on their own
        (KILL_S + 1, BACK_S + 1, True),  # in flight when Redis came back empty
        (BACK_S + 2, BACK_S + 2.1, True),  # one of the two has not asked Redis again
        (KILL_S - 2, KILL_S - 1, False),  # before any cause
        (BACK_S + 3, BACK_S + 4, False),  # after all processes hide messages together again
    ],
)
def test_a_message_comes_twice_because_its_hiding_is_lost(
    builder: RoundBuilder, kind: str, first_s: float, again_s: float, hiding_lost: bool
) -> None:
    builder.sends("a", "1").receives("a", "1", first_s, deleted=False).receives("a", "1", again_s)
    _expect(builder, HIDING_LOST if hiding_lost and kind == REDIS else "")


def test_a_message_that_was_deleted_before_redis_fell_has_no_cause_to_come_again(builder: RoundBuilder) -> None:
    builder.sends("a", "1").receives("a", "1", KILL_S - 5).receives("a", "1", KILL_S + 1)
    builder.ledger.receipts[1].asked_ns = at_ns(KILL_S - 6)  # too long before the answer to explain it
    assert fault_kinds(builder) == ["duplicate"]


def test_a_message_comes_twice_because_its_lease_ran_out(builder: RoundBuilder) -> None:
    builder.sends("a", "1").receives("a", "1", JUMP_S - 1, deleted=False).receives("a", "1", JUMP_S + 1)
    _expect(builder, LEASE_OVER)


@pytest.mark.parametrize(("unknown_deletes", "cause"), [(1, CLIENT_RETRY), (0, "")])
def test_a_message_comes_twice_because_its_delete_had_no_answer(
    builder: RoundBuilder, unknown_deletes: int, cause: str
) -> None:
    builder.sends("a", "1").receives("a", "1", 50, deleted=False).receives("a", "1", 55)
    before = builder.ledger.receipts[0]
    before.delete_asked_ns, before.unknown_deletes, before.deleted_ns = at_ns(51), unknown_deletes, at_ns(56)
    _expect(builder, cause)


@pytest.mark.parametrize(("asked_s", "came_back"), [(KILL_S + 0.1, True), (KILL_S - 0.5, False)])
def test_a_message_may_not_come_to_who_asks_after_its_delete(
    builder: RoundBuilder, kind: str, asked_s: float, came_back: bool
) -> None:
    builder.sends("a", "1").receives("a", "1", KILL_S).receives("a", "1", KILL_S + 0.5)
    builder.ledger.receipts[1].asked_ns = at_ns(asked_s)
    if came_back:
        assert fault_kinds(builder) == ["came back"]
    else:
        _expect(builder, HIDING_LOST if kind == REDIS else "")


# -- FIFO queues -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first_s", "again_s"),
    [(KILL_S - 0.1, KILL_S + 0.1), (KILL_S + 1, BACK_S + 1), (BACK_S + 2, BACK_S + 2.1), (JUMP_S + 1, JUMP_S + 30)],
)
def test_no_fault_makes_a_fifo_message_come_twice(builder: RoundBuilder, first_s: float, again_s: float) -> None:
    builder.sends_in_group(0).receives_in_group(0, first_s, held_s=50).receives_in_group(0, again_s)
    assert set(fault_kinds(builder)) == {"duplicate", "two in flight"}


def test_nor_does_a_delete_that_had_no_answer(builder: RoundBuilder) -> None:
    builder.sends_in_group(0).receives_in_group(0, 50, held_s=1).receives_in_group(0, 55)
    before = builder.ledger.receipts[0]
    before.unknown_deletes, before.deleted_ns = 1, at_ns(56)
    assert fault_kinds(builder) == ["duplicate"]


@pytest.mark.parametrize(("asked_s", "again_s"), [(JUMP_S - 1, JUMP_S + 1), (50, 80.5)])
def test_a_fifo_message_comes_twice_because_its_lease_ran_out(
    builder: RoundBuilder, asked_s: float, again_s: float
) -> None:
    """A lease begins no earlier than its receive."""
    builder.sends_in_group(0).receives_in_group(0, asked_s + 0.8, held_s=50).receives_in_group(0, again_s)
    builder.ledger.receipts[0].asked_ns = at_ns(asked_s)
    assert causes_of(builder) == {LEASE_OVER: 1}


@pytest.mark.parametrize(
    ("first_s", "by_crash"), [(KILL_S - 0.5, True), (KILL_S + 1, True), (KILL_S - 2.5, False), (BACK_S + 1, False)]
)
def test_a_move_that_was_cut_off_is_done_again(
    builder: RoundBuilder, kind: str, first_s: float, by_crash: bool
) -> None:
    builder.sends_in_group(0, queue=REDRIVE).receives_undeleted(0, 50, 51.5).receives_in_group(
        0, 120, queue=DEAD_LETTERS
    )
    builder.moves(0, first_s, JUMP_S + 1)
    if by_crash and kind in (API, NODE):
        assert causes_of(builder) == {MOVE_CUT_OFF: 1}
    else:
        assert fault_kinds(builder) == ["moved again"]


# -- notifications ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first_s", "again_s", "by_kind"),
    [
        (KILL_S - 1, KILL_S + 1, {WORKER: CRASH_BEFORE_SETTLE, REDIS: HIDING_LOST}),
        (KILL_S + 1, BACK_S + 1, {REDIS: HIDING_LOST}),  # the other workers settle what they send
        (KILL_S - 3, BACK_S + 1, {}),  # settled before the fault
        (KILL_S - 1, KILL_S - 0.5, {}),  # before any fault
        (BACK_S + 3, BACK_S + 4, {}),  # published after the recovery
        (JUMP_S - 0.5, JUMP_S + 0.5, dict.fromkeys(CLUSTER_KINDS, LEASE_OVER)),
        (JUMP_S + 1, JUMP_S + 1.5, dict.fromkeys(CLUSTER_KINDS, LEASE_OVER)),  # some processes still have the old clock
    ],
)
def test_a_notification_comes_twice(
    builder: RoundBuilder, kind: str, first_s: float, again_s: float, by_kind: dict[str, str]
) -> None:
    builder.publishes("a", "n", at_s=first_s - 0.1).receives_envelope("a", "n", 50)
    builder.arrives("n", (1, first_s), (1, again_s), (2, 50))
    _expect(builder, by_kind.get(kind, ""))


@pytest.mark.parametrize(("published_s", "excused"), [(KILL_S - 1, True), (KILL_S + 0.1, False)])
def test_a_fan_out_that_was_cut_off_is_done_again(
    builder: RoundBuilder, kind: str, published_s: float, excused: bool
) -> None:
    """Another worker may make the first delivery at any time after the crash."""
    builder.publishes("a", "n", at_s=published_s, topic=WIDE).arrives("n", (1, BACK_S + 5), (1, JUMP_S + 3), topic=WIDE)
    _expect(builder, CRASH_BEFORE_SETTLE if excused and kind == WORKER else HIDING_LOST if kind == REDIS else "")


@pytest.mark.parametrize(("failed_s", "excused"), [(KILL_S + 12, True), (KILL_S - 1, False)])
def test_a_failed_settlement_is_a_cause_if_a_worker_logged_it(
    builder: RoundBuilder, kind: str, failed_s: float, excused: bool
) -> None:
    builder.ledger.failures_ns.append(at_ns(failed_s))
    builder.publishes("a", "n", at_s=KILL_S + 3).receives_envelope("a", "n", 50)
    builder.arrives("n", (1, KILL_S + 6), (1, KILL_S + 7), (2, 50))
    if kind != REDIS:
        _expect(builder, SETTLEMENT_FAILED if excused and kind == NODE else "")


def test_times_of_the_moved_clock_are_converted_to_wall_time(builder: RoundBuilder) -> None:
    builder.ledger.clock_offset_ms = AHEAD_MS
    assert builder.ledger.wall_ns(int(KILL_S * 1000) + AHEAD_MS) == at_ns(KILL_S)
    assert builder.ledger.wall_ns(int((JUMP_S + 1 + JUMP_LENGTH_S) * 1000) + AHEAD_MS) == at_ns(JUMP_S + 1)
    assert builder.ledger.wall_ns(int((JUMP_S - 1) * 1000) + AHEAD_MS) == at_ns(JUMP_S - 1)
