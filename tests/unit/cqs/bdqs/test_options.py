"""The options of a queue on `bdqs`, and what an automatic K does."""

from __future__ import annotations

import pytest

from cqs.engines.bdqs.consistency import QueueConsistency, check_consistency
from cqs.engines.bdqs.order_hint import AUTO_K_MAX, CALM_RECEIVES, AutomaticK, check_order_hint


@pytest.mark.parametrize(
    ("text", "normal"), [("1", "1"), ("007", "7"), ("1000", "1000"), ("AUTO", "auto"), ("inf", "inf"), ("Inf", "inf")]
)
def test_order_hints(text: str, normal: str) -> None:
    assert check_order_hint(text) == normal


@pytest.mark.parametrize("text", ["", "0", "-1", "1001", "1.5", "many", "\u0663", " 1"])
def test_what_is_no_order_hint(text: str) -> None:
    with pytest.raises(ValueError, match="must be auto, inf or a number from 1 to 1000"):
        check_order_hint(text)


@pytest.mark.parametrize("mode", QueueConsistency)
def test_consistencies(mode: QueueConsistency) -> None:
    assert check_consistency(mode.value.upper()) == mode.value


def test_what_is_no_consistency() -> None:
    with pytest.raises(ValueError, match="must be one of single, quorum, serial, all"):
        check_consistency("each")


def test_k_doubles_with_each_lost_race_up_to_a_bound() -> None:
    automatic = AutomaticK()
    seen = []
    for _ in range(8):
        automatic.observe(1)
        seen.append(automatic.k)
    assert seen == [2, 4, 8, 16, 32, AUTO_K_MAX, AUTO_K_MAX, AUTO_K_MAX]


def test_k_falls_by_one_after_calm_receives() -> None:
    automatic = AutomaticK()
    automatic.observe(1)
    automatic.observe(1)
    for expected in (3, 2, 1, 1):
        for _ in range(CALM_RECEIVES):
            automatic.observe(0)
        assert automatic.k == expected


def test_a_lost_race_ends_the_calm() -> None:
    automatic = AutomaticK()
    for _ in range(3):
        for _ in range(CALM_RECEIVES - 1):
            automatic.observe(0)
        automatic.observe(1)
    assert automatic.k == 8
