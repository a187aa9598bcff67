"""The accounting of endpoints that are ill: what is delivered late, given up, or tried too often."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.accounting.causes import CRASH_BEFORE_SETTLE
from tests.unit.faults.round_builder import (
    AILING,
    BACK_S,
    ILL_SCENE,
    JUMP_S,
    KILL_S,
    UNDELIVERED,
    Story,
    causes_of,
    fault_kinds,
)

FAILING, DOOMED = 1, 2


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """One publish, which came to the endpoint whose messages may be given up."""
    story = Story(tmp_path / "arrivals")
    story.scene = ILL_SCENE
    return story.publishes("a", "n", topic=AILING, at_s=40)


def test_what_failed_and_came_later_is_valid(story: Story) -> None:
    _fails(story, FAILING, 50, 71).arrives("n", (FAILING, JUMP_S + 1), (DOOMED, 50), topic=AILING)
    assert causes_of(story) == {}


def test_a_dead_letter_is_no_loss(story: Story) -> None:
    story.arrives("n", (FAILING, 50), topic=AILING)
    _fails(story, DOOMED, 50).gets_envelope("a", "n", 50, queue=UNDELIVERED)
    assert causes_of(story) == {}


def test_what_only_failed_is_lost(story: Story) -> None:
    _fails(story, FAILING, 50).arrives("n", (DOOMED, 50), topic=AILING)
    assert fault_kinds(story) == ["notification lost"]


def test_one_subscription_s_dead_letter_is_not_another_s_delivery(story: Story) -> None:
    story.arrives("n", (DOOMED, 50), topic=AILING).gets_envelope("a", "n", 50, queue=UNDELIVERED)
    assert fault_kinds(story) == ["notification lost"]


def test_a_dead_letter_may_not_stay(story: Story) -> None:
    story.arrives("n", (FAILING, 50), topic=AILING).gets_envelope("a", "n", 50, queue=UNDELIVERED)
    story.ledger.receipts[-1].deleted_ns = 0
    assert fault_kinds(story) == ["never deleted"]


def test_a_dead_letter_that_nobody_published_is_invented(story: Story) -> None:
    story.arrives("n", (FAILING, 50), (DOOMED, 50), topic=AILING).gets_envelope("b", "m", 50, queue=UNDELIVERED)
    assert set(fault_kinds(story)) == {"invented", "notification lost"}


@pytest.mark.parametrize(("before_s", "faults"), [(0.99, []), (1.01, ["duplicate"])])
def test_a_failure_answered_more_than_a_second_before_a_crash_may_not_be_had_again(
    story: Story, before_s: float, faults: list[str]
) -> None:
    _fails(story, FAILING, KILL_S - before_s, BACK_S).arrives("n", (FAILING, 130), (DOOMED, 50), topic=AILING)
    assert fault_kinds(story) == faults


@pytest.mark.parametrize(("before_s", "faults"), [(0.99, []), (1.01, ["duplicate"])])
@pytest.mark.parametrize("again", [500, 200])
def test_nor_a_last_attempt(story: Story, again: int, before_s: float, faults: list[str]) -> None:
    _fails(story, DOOMED, KILL_S - before_s).arrives("n", (FAILING, 50), topic=AILING)
    story.arrives("n", (DOOMED, JUMP_S + 5), topic=AILING, status=again)
    story.gets_envelope("a", "n", JUMP_S + 5, queue=UNDELIVERED)
    assert fault_kinds(story) == faults


@pytest.mark.parametrize(("first_s", "faults"), [(KILL_S - 0.5, []), (KILL_S - 2, ["duplicate"])])
def test_a_dead_letter_comes_twice_with_a_cause(story: Story, first_s: float, faults: list[str]) -> None:
    story.arrives("n", (FAILING, 50), topic=AILING).gets_envelope("a", "n", first_s, queue=UNDELIVERED)
    story.gets_envelope("a", "n", BACK_S, copy=1, queue=UNDELIVERED)
    assert fault_kinds(story) == faults
    if not faults:
        assert causes_of(story) == {CRASH_BEFORE_SETTLE: 1}


def test_where_nobody_is_ill_no_attempt_fails(tmp_path: Path) -> None:
    story = Story(tmp_path / "arrivals").publishes("a", "n").gets_envelope("a", "n", 50)
    story.arrives("n", (1, 49), status=500).arrives("n", (1, 50), (2, 50))
    assert fault_kinds(story) == ["ill"]


def _fails(story: Story, endpoint: int, *at_s: float) -> Story:
    return story.arrives("n", *[(endpoint, second) for second in at_s], topic=AILING, status=500)
