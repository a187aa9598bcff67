"""The pace of a token bucket, on a clock that the test sets."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cns_common.token_bucket import Budget, TokenBucket, TokenGrant


@pytest.mark.parametrize("per_second", [0.25, 1, 3, 50])
def test_a_pace_is_kept(per_second: float) -> None:
    bucket, now_s, went_s = TokenBucket(per_second, 0.0), 0.0, list[float]()
    at_once = max(int(per_second), 1)
    while len(went_s) < at_once * 10:
        grant = bucket.take(now_s, 1)
        if grant.tokens:
            went_s.append(now_s)
        assert grant.wait_s <= 1 / per_second + 1e-9
        now_s += grant.wait_s
    assert went_s[at_once - 1] == 0, "a second's worth may go at once"
    gaps_s = [later - earlier for earlier, later in pairwise(went_s[at_once - 1 :])]
    assert min(gaps_s) > 1 / per_second - 1e-6
    assert went_s[-1] == pytest.approx(9 * at_once / per_second)


def test_a_pace_says_when_a_whole_batch_may_go() -> None:
    bucket = TokenBucket(100, 0.0)
    assert bucket.take(0.0, 95) == TokenGrant(95)
    assert bucket.take(0.0, 10) == TokenGrant(5)
    none = bucket.take(0.0, 10)
    assert none.tokens == 0
    assert none.wait_s == pytest.approx(0.1)
    assert TokenBucket(2, 0.0).take(0.0, 10) == TokenGrant(2)


def test_an_empty_bucket_fills_at_its_pace() -> None:
    bucket = TokenBucket(0.5, 0.0, empty=True)
    assert bucket.take(0.0, 1) == TokenGrant(0, 2.0)
    assert bucket.take(2.0, 1) == TokenGrant(1)


def test_a_budget_is_a_burst_and_then_a_slow_rate() -> None:
    bucket = Budget(burst=5, interval_s=10).bucket(100.0)
    assert [bucket.take(100.0, 1).tokens for _ in range(6)] == [1] * 5 + [0]
    assert bucket.take(100.0, 1).wait_s == pytest.approx(10.0)
    assert [bucket.take(110.0, 1).tokens for _ in range(2)] == [1, 0]
    assert bucket.take(10_000.0, 10).tokens == 5, "no more than the burst"


def test_tokens_that_are_put_back_are_taken_again() -> None:
    bucket = Budget(burst=2, interval_s=10).bucket(0.0)
    bucket.put_back(1)
    assert bucket.take(0.0, 10).tokens == 2
    bucket.put_back(1)
    assert [bucket.take(0.0, 1).tokens for _ in range(2)] == [1, 0]
