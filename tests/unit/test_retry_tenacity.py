"""The retry policy as tenacity's users plug it in."""

from __future__ import annotations

import pytest
from tenacity import RetryError, Retrying

from cns.delivery.retry_policy import (
    JITTER_SHARE,
    RetryPolicy,
)
from cns.delivery.retry_tenacity import StopWhenSpent, WaitByPolicy


def test_tenacity_follows_the_policy() -> None:
    policy = RetryPolicy(min_delay_s=2, max_delay_s=8, retries=5, no_delay=1, min_delay=1, max_delay=1)
    slept: list[float] = []
    attempts = 0
    with pytest.raises(RetryError):
        for attempt in Retrying(wait=WaitByPolicy(policy), stop=StopWhenSpent(policy), sleep=slept.append):
            with attempt:
                attempts += 1
                raise ConnectionError
    assert attempts == policy.retries + 1
    assert slept == pytest.approx([0, 2, 2, 8, 8])


def test_tenacity_draws_its_jitter() -> None:
    slept: list[float] = []
    policy = RetryPolicy(min_delay_s=10, max_delay_s=10, retries=1)
    with pytest.raises(RetryError):
        for attempt in Retrying(
            wait=WaitByPolicy(policy, jitter=lambda: 0.5), stop=StopWhenSpent(policy), sleep=slept.append
        ):
            with attempt:
                raise ConnectionError
    assert slept == pytest.approx([10 * (1 + JITTER_SHARE / 2)])
