"""The accounting of kill rounds: each fault is found, and a duplicate is excused by its cause only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.faults.accounting.causes import CLIENT_RETRY, CRASH_BEFORE_RECEIVE, CRASH_BEFORE_SETTLE, LEASE_OVER
from tests.unit.faults.round_builder import (
    BACK_S,
    DEAD_LETTERS,
    FAILING_RESOURCES,
    FAILING_TOPIC,
    FIFO,
    JUMP_S,
    KILL_S,
    REDRIVE,
    UNDELIVERED,
    WIDE,
    RoundBuilder,
    at_ns,
    causes_of,
    fault_kinds,
)

FAILING, DOOMED = 1, 2
Build = Callable[[RoundBuilder], object]


@pytest.fixture
def builder(tmp_path: Path) -> RoundBuilder:
    return RoundBuilder(tmp_path / "arrivals")


@pytest.fixture
def failing(builder: RoundBuilder) -> RoundBuilder:
    """A round with one publish to failing endpoints."""
    builder.resources = FAILING_RESOURCES
    return builder.publishes("a", "n", topic=FAILING_TOPIC, at_s=40)


def _published(builder: RoundBuilder) -> RoundBuilder:
    return builder.publishes("a", "n").receives_envelope("a", "n", 50)


def _moved(builder: RoundBuilder, at_s: float = 53, held_s: float = 0.01) -> RoundBuilder:
    """A message that was received twice and moved to the dead-letter queue."""
    builder.sends_in_group(0, queue=REDRIVE).receives_undeleted(0, 50, 51.5)
    return builder.receives_in_group(0, at_s, held_s=held_s, queue=DEAD_LETTERS)


def _change(builder: RoundBuilder, **members: object) -> RoundBuilder:
    """Change the last receipt."""
    for name, value in members.items():
        setattr(builder.ledger.receipts[-1], name, value)
    return builder


def _sent_twice(builder: RoundBuilder) -> None:
    """A FIFO sender's retry is received, too."""
    builder.sends_in_group(0).receives_in_group(0, 50)
    builder.ledger.sent[FIFO]["g-0"].unknown_outcomes = 1
    builder.ledger.receipts.append(replace(builder.ledger.receipts[0], id="other", received_ns=at_ns(51)))


def _refused(builder: RoundBuilder) -> None:
    builder.sends_in_group(0).receives_in_group(0, 50)
    builder.ledger.refusals.append("g-0: HTTP 400")


VALID: dict[str, Build] = {
    "received and deleted": lambda round_: round_.sends("a", "1").receives("a", "1", 50),
    "a group in order": lambda round_: round_.sends_in_group(0, 1).receives_in_group(0, 50).receives_in_group(1, 51),
    "a repeat with the first answer": lambda round_: (
        round_.sends_in_group(0).receives_in_group(0, 50).repeats(0, "id-0", 0)
    ),
    "moved after its receives": lambda round_: (
        _moved(round_).sends_in_group(1, queue=REDRIVE).receives_in_group(1, 53, queue=REDRIVE)
    ),
    "deleted before its last receive": lambda round_: (
        round_.sends_in_group(1, queue=REDRIVE).receives_undeleted(1, 50).receives_in_group(1, 51.5, queue=REDRIVE)
    ),
    "a delete after the move, as of any message that is gone": lambda round_: (
        round_.sends_in_group(1, queue=REDRIVE)
        .receives_in_group(1, 50, held_s=2, queue=REDRIVE)
        .receives_undeleted(1, 51.2)
        .receives_in_group(1, 53, queue=DEAD_LETTERS)
    ),
    "an answer after its lease, when another receive has the message": lambda round_: (
        _change(round_.sends_in_group(0, queue=REDRIVE).receives_undeleted(0, 51.2, 51.5), asked_ns=at_ns(50)),
        round_.receives_in_group(0, 53, queue=DEAD_LETTERS),
    ),
    "a jump of the clock frees a group": lambda round_: (
        round_.sends_in_group(0, 1, queue=REDRIVE)
        .receives_undeleted(0, 50, JUMP_S - 0.2)
        .receives_in_group(1, JUMP_S + 0.2, queue=REDRIVE)
        .receives_in_group(0, JUMP_S + 0.3, queue=DEAD_LETTERS)
    ),
    "a notification at every subscriber": lambda round_: _published(round_).arrives("n", (1, 50), (2, 50)),
}
FAULTY: dict[str, tuple[Build, list[str]]] = {
    "never received": (lambda round_: round_.sends("a", "1"), ["lost"]),
    "sent by nobody": (lambda round_: round_.receives("a", "1", 50), ["invented"]),
    "a spoilt body": (lambda round_: round_.sends("a", "1").receives("b", "1", 50), ["invented", "lost"]),
    "more messages than attempts": (
        lambda round_: (
            round_.sends("a", "1", open=1).receives("a", "1", 50).receives("a", "2", 50).receives("a", "3", 50)
        ),
        ["invented"],
    ),
    "back after its delete": (
        lambda round_: round_.sends("a", "1").receives("a", "1", KILL_S - 0.1).receives("a", "1", BACK_S),
        ["came back"],
    ),
    "never deleted": (
        lambda round_: round_.sends("a", "1").receives("a", "1", 50, deleted=False),
        ["never deleted"],
    ),
    "a group out of order": (
        lambda round_: round_.sends_in_group(0, 1).receives_in_group(1, 50).receives_in_group(0, 51),
        ["order", "sequence"],
    ),
    "a gap in a group": (
        lambda round_: round_.sends_in_group(0, 1, 2).receives_in_group(0, 50).receives_in_group(2, 51),
        ["lost", "order"],
    ),
    "two receives hold one group": (
        lambda round_: round_.sends_in_group(0, 1).receives_in_group(0, 50, held_s=2).receives_in_group(1, 51),
        ["two in flight"],
    ),
    "two receives hold one group, though the last message of one was deleted": (
        lambda round_: (
            round_.sends_in_group(0, 1, 2).receives_in_group(0, 50, held_s=5).receives_in_group(1, 50),
            _change(round_, receive_number=round_.ledger.receipts[0].receive_number),
            round_.receives_in_group(2, 51),
        ),
        ["two in flight"],
    ),
    "a FIFO message twice around a crash": (
        lambda round_: (
            round_.sends_in_group(0).receives_in_group(0, KILL_S - 0.5, held_s=9).receives_in_group(0, BACK_S)
        ),
        ["duplicate", "two in flight"],
    ),
    "a retry of a FIFO sender that was not deduplicated": (_sent_twice, ["invented"]),
    "a repeat with another id": (
        lambda round_: round_.sends_in_group(0).receives_in_group(0, 50).repeats(0, "other", 0),
        ["dedup"],
    ),
    "a repeat with another sequence number": (
        lambda round_: round_.sends_in_group(0).receives_in_group(0, 50).repeats(0, "id-0", 1),
        ["dedup"],
    ),
    "a delete refused within the lease": (_refused, ["refused"]),
    "neither deleted nor moved": (
        lambda round_: round_.sends_in_group(0, queue=REDRIVE).receives_undeleted(0, 50, 51.5),
        ["lost"],
    ),
    "moved after its delete": (
        lambda round_: (
            round_.sends_in_group(1, queue=REDRIVE)
            .receives_in_group(1, 50, queue=REDRIVE)
            .receives_in_group(1, 53, queue=DEAD_LETTERS)
        ),
        ["came back"],
    ),
    "a move cut in two": (lambda round_: _moved(round_).moves(0, KILL_S, BACK_S), ["moved again"]),
    "received too often": (
        lambda round_: (
            round_.sends_in_group(0, queue=REDRIVE)
            .receives_undeleted(0, 50, 51.5, 53)
            .receives_in_group(0, 55, queue=DEAD_LETTERS)
        ),
        ["received too often"],
    ),
    "moved twice": (
        lambda round_: _moved(round_, held_s=9).receives_in_group(0, 55, queue=DEAD_LETTERS),
        ["duplicate"],
    ),
    "back after its delete from the dead-letter queue": (
        lambda round_: _moved(round_).receives_in_group(0, JUMP_S + 1, queue=DEAD_LETTERS),
        ["came back"],
    ),
    "moved again after its delete from the dead-letter queue": (
        lambda round_: _change(_moved(round_).receives_in_group(0, JUMP_S + 1, queue=DEAD_LETTERS), sequence=7),
        ["duplicate", "came back"],
    ),
    "enqueued twice in the dead-letter queue": (
        lambda round_: _change(
            _moved(round_, held_s=70).receives_in_group(0, JUMP_S + 1, queue=DEAD_LETTERS), sequence=7
        ),
        ["duplicate"],
    ),
    "a dead letter of nobody": (lambda round_: round_.receives_in_group(0, 53, queue=DEAD_LETTERS), ["invented"]),
    "a dead letter with another id": (lambda round_: _change(_moved(round_), id="other"), ["invented"]),
    "a dead letter that stays": (
        lambda round_: (
            round_.sends_in_group(0, queue=REDRIVE)
            .receives_undeleted(0, 50, 51.5)
            .receives("g-0", "id-0", 53, deleted=False, queue=DEAD_LETTERS)
        ),
        ["never deleted"],
    ),
    "dead letters out of order": (
        lambda round_: (
            round_.sends_in_group(1, 2, queue=REDRIVE)
            .receives_in_group(2, 50, queue=DEAD_LETTERS)
            .receives_in_group(1, 53, queue=DEAD_LETTERS)
        ),
        ["order"],
    ),
    "an answer that came late within its lease": (
        lambda round_: (
            _change(round_.sends_in_group(0, queue=REDRIVE).receives_undeleted(0, 50.8, 51.5), asked_ns=at_ns(50)),
            round_.receives_in_group(0, 53, queue=DEAD_LETTERS),
        ),
        ["two in flight"],
    ),
    "a message of another queue": (
        lambda round_: round_.sends_in_group(1, queue=REDRIVE).receives_in_group(1, 50, queue=FIFO),
        ["invented", "lost"],
    ),
    "a failed attempt at a healthy endpoint": (
        lambda round_: _published(round_).arrives("n", (1, 49), status=500).arrives("n", (1, 50), (2, 50)),
        ["failed"],
    ),
}


@pytest.mark.parametrize("build", VALID.values(), ids=VALID)
def test_a_round_without_faults_is_valid(builder: RoundBuilder, build: Build) -> None:
    build(builder)
    assert causes_of(builder) == {}


@pytest.mark.parametrize(("build", "kinds"), FAULTY.values(), ids=FAULTY)
def test_a_fault_is_found(builder: RoundBuilder, build: Build, kinds: list[str]) -> None:
    build(builder)
    assert fault_kinds(builder) == kinds


# -- duplicates of messages -------------------------------------------------------------------------------------------


def test_a_retry_after_an_unknown_outcome_makes_a_duplicate(builder: RoundBuilder) -> None:
    assert causes_of(builder.sends("a", "2", open=1).receives("a", "1", 50).receives("a", "2", 50)) == {CLIENT_RETRY: 1}


@pytest.mark.parametrize(
    ("first_s", "again_s", "cause"),
    [
        (KILL_S - 0.5, BACK_S, CRASH_BEFORE_RECEIVE),
        (KILL_S - 0.5, KILL_S + 31, LEASE_OVER),
        (JUMP_S - 1, JUMP_S + 1, LEASE_OVER),
        (50.0, 60.0, ""),
        (KILL_S - 5, BACK_S, ""),
        (KILL_S + 1, BACK_S, ""),
        (KILL_S - 0.5, KILL_S - 0.2, ""),
    ],
)
def test_a_message_comes_twice(builder: RoundBuilder, first_s: float, again_s: float, cause: str) -> None:
    builder.sends("a", "1").receives("a", "1", first_s, deleted=False).receives("a", "1", again_s)
    _expect(builder, cause)


# -- notifications ----------------------------------------------------------------------------------------------------


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
    _published(builder).arrives("n", (1, 50), (2, 50))
    builder.receives_envelope("a", "m", 50).arrives("m", (1, 50), (2, 50))
    assert set(fault_kinds(builder)) == {"invented"}


@pytest.mark.parametrize(
    ("first_s", "cause"),
    [
        (KILL_S - 0.99, CRASH_BEFORE_SETTLE),
        (KILL_S + 0.5, CRASH_BEFORE_SETTLE),
        (JUMP_S - 0.5, LEASE_OVER),
        (JUMP_S + 1.5, LEASE_OVER),
        (50.0, ""),
        (KILL_S - 3, ""),
        (BACK_S + 2, ""),
        (JUMP_S + 2.5, ""),
    ],
)
def test_a_notification_comes_twice(builder: RoundBuilder, first_s: float, cause: str) -> None:
    _published(builder).arrives("n", (1, first_s), (1, JUMP_S + 5), (2, 50))
    _expect(builder, cause)


@pytest.mark.parametrize(
    ("published_s", "first_s", "cause"),
    [(KILL_S - 1, BACK_S + 2, CRASH_BEFORE_RECEIVE), (KILL_S - 3, BACK_S + 2, ""), (KILL_S - 1, KILL_S + 7, "")],
)
def test_a_lease_that_a_crash_lost(builder: RoundBuilder, published_s: float, first_s: float, cause: str) -> None:
    """The worker that had the job sent it once the store was back, and received it again."""
    builder.publishes("a", "n", at_s=published_s).receives_envelope("a", "n", first_s)
    builder.arrives("n", (1, first_s), (1, first_s), (2, first_s))
    _expect(builder, cause)


def test_what_was_published_after_a_jump_has_no_lease_that_it_ended(builder: RoundBuilder) -> None:
    builder.publishes("a", "n", at_s=JUMP_S + 0.1).receives_envelope("a", "n", JUMP_S + 0.5)
    builder.arrives("n", (1, JUMP_S + 0.5), (1, JUMP_S + 5), (2, JUMP_S + 0.5))
    _expect(builder, "")


@pytest.mark.parametrize(("before_s", "cause"), [(0.99, CRASH_BEFORE_SETTLE), (1.01, "")])
def test_what_was_answered_more_than_a_second_before_a_crash_may_not_be_sent_again(
    builder: RoundBuilder, before_s: float, cause: str
) -> None:
    builder.publishes("a", "n", topic=WIDE).arrives("n", (1, KILL_S - before_s), (1, BACK_S), topic=WIDE)
    _expect(builder, cause)
    assert builder.account().repeated_ns == pytest.approx(at_ns(before_s))


def test_a_queue_gets_a_notification_once(builder: RoundBuilder) -> None:
    """The commit of the publish puts it there: a crash is no cause for a second copy."""
    builder.publishes("a", "n").arrives("n", (1, 50), (2, 50))
    builder.receives_envelope("a", "n", KILL_S - 0.5).receives_envelope("a", "n", BACK_S, copy=1)
    _expect(builder, "")


# -- failing endpoints ------------------------------------------------------------------------------------------------


def test_what_failed_and_came_later_is_valid(failing: RoundBuilder) -> None:
    _fails(failing, FAILING, 50, 71).arrives("n", (FAILING, JUMP_S + 1), (DOOMED, 50), topic=FAILING_TOPIC)
    assert causes_of(failing) == {}


def test_a_dead_letter_is_no_loss(failing: RoundBuilder) -> None:
    _fails(failing.arrives("n", (FAILING, 50), topic=FAILING_TOPIC), DOOMED, 50)
    assert fault_kinds(failing) == ["notification lost"]
    failing.receives_envelope("a", "n", 50, queue=UNDELIVERED)
    assert causes_of(failing) == {}
    _change(failing, deleted_ns=0)
    assert fault_kinds(failing) == ["never deleted"]


def test_one_subscription_s_dead_letter_is_not_another_s_delivery(failing: RoundBuilder) -> None:
    failing.arrives("n", (DOOMED, 50), topic=FAILING_TOPIC).receives_envelope("a", "n", 50, queue=UNDELIVERED)
    assert fault_kinds(failing) == ["notification lost"]


def test_a_dead_letter_that_nobody_published_is_invented(failing: RoundBuilder) -> None:
    failing.arrives("n", (FAILING, 50), (DOOMED, 50), topic=FAILING_TOPIC)
    failing.receives_envelope("b", "m", 50, queue=UNDELIVERED)
    assert set(fault_kinds(failing)) == {"invented", "notification lost"}


@pytest.mark.parametrize(("before_s", "cause"), [(0.99, CRASH_BEFORE_SETTLE), (1.01, "")])
def test_a_failure_answered_more_than_a_second_before_a_crash_may_not_be_had_again(
    failing: RoundBuilder, before_s: float, cause: str
) -> None:
    _fails(failing, FAILING, KILL_S - before_s, BACK_S).arrives("n", (FAILING, 130), (DOOMED, 50), topic=FAILING_TOPIC)
    _expect(failing, cause)


@pytest.mark.parametrize(("before_s", "faults"), [(0.99, []), (1.01, ["duplicate"])])
@pytest.mark.parametrize("again", [500, 200])
def test_nor_a_last_attempt(failing: RoundBuilder, again: int, before_s: float, faults: list[str]) -> None:
    _fails(failing, DOOMED, KILL_S - before_s).arrives("n", (FAILING, 50), topic=FAILING_TOPIC)
    failing.arrives("n", (DOOMED, JUMP_S + 5), topic=FAILING_TOPIC, status=again)
    failing.receives_envelope("a", "n", JUMP_S + 5, queue=UNDELIVERED)
    assert fault_kinds(failing) == faults


@pytest.mark.parametrize(("first_s", "cause"), [(KILL_S - 0.5, CRASH_BEFORE_SETTLE), (KILL_S - 2, "")])
def test_a_dead_letter_comes_twice(failing: RoundBuilder, first_s: float, cause: str) -> None:
    failing.arrives("n", (FAILING, 50), topic=FAILING_TOPIC).receives_envelope("a", "n", first_s, queue=UNDELIVERED)
    failing.receives_envelope("a", "n", BACK_S, copy=1, queue=UNDELIVERED)
    _expect(failing, cause)


def _fails(builder: RoundBuilder, endpoint: int, *at_s: float) -> RoundBuilder:
    return builder.arrives("n", *[(endpoint, second) for second in at_s], topic=FAILING_TOPIC, status=500)


def _expect(builder: RoundBuilder, cause: str) -> None:
    """Assert that the only duplicate has this cause; none is a fault."""
    if cause:
        assert causes_of(builder) == {cause: 1}
    else:
        assert fault_kinds(builder) == ["duplicate"]
