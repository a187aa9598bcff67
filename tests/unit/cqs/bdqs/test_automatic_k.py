"""Tests the automatic choice of K."""

from __future__ import annotations

from cqs.engines.bdqs.order_hint import AUTO_K_MAX, CALM_RECEIVES, AutomaticK


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
