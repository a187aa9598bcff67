"""A budget of attempts for each name, when there are too many names."""

from __future__ import annotations

import pytest

from cns_common.token_bucket import Budget
from cns_server.rest.problems import Problem
from cns_server.rest.sign_in.attempt_limit import SWEEP_S, AttemptLimit

BUDGET = Budget(burst=2, interval_s=10)


class Attempts:
    def __init__(self) -> None:
        self.s = 50.0
        self.limit = AttemptLimit(BUDGET, 3, lambda: self.s, "Too many.")

    def may(self, name: str) -> bool:
        try:
            self.limit.take(name)
        except Problem as problem:
            assert problem.status == 429
            return False
        return True


def test_only_full_buckets_make_room() -> None:
    attempts = Attempts()
    assert [attempts.may("victim") for _ in range(3)] == [True, True, False]
    assert [attempts.may(f"name {n}") for n in range(50)] == [True] * 2 + [False] * 48, "new names are refused"
    assert not attempts.may("victim")
    assert attempts.may("name 0"), "known names have what is left"
    attempts.s += BUDGET.interval_s
    assert [attempts.may(f"other {n}") for n in range(3)] == [True, False, False], "the full one of name 1 is dropped"
    assert [attempts.may("victim") for _ in range(2)] == [True, False]


def test_an_attempt_put_back_makes_room() -> None:
    attempts = Attempts()
    buckets = [attempts.limit.take(f"name {n}") for n in range(3)]
    assert not attempts.may("other")
    for bucket in buckets:
        bucket.put_back(1)
    assert not attempts.may("other"), "buckets are read once a second"
    attempts.s += SWEEP_S
    assert attempts.may("other")


def test_the_wait_is_in_whole_seconds() -> None:
    attempts = Attempts()
    attempts.limit.take("name")
    attempts.limit.take("name")
    with pytest.raises(Problem, match=r"Too many\. Try again in 10 seconds"):
        attempts.limit.take("name")
