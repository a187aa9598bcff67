"""A retry policy as tenacity's `wait` and `stop`, so that code built on tenacity follows the same arithmetic."""

from __future__ import annotations

from collections.abc import Callable

from tenacity import RetryCallState
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from cns.delivery.retry_policy import Retry, RetryPolicy, due_retry


def no_jitter() -> float:
    return 0.0


def _due(policy: RetryPolicy, state: RetryCallState, jitter: float) -> Retry | None:
    return due_retry(policy, state.attempt_number, elapsed_s=state.seconds_since_start or 0.0, jitter=jitter)


class WaitByPolicy(wait_base):
    """The policy's delay; `jitter` gives a number in [0, 1) for each."""

    def __init__(self, policy: RetryPolicy, jitter: Callable[[], float] = no_jitter) -> None:
        self._policy = policy
        self._jitter = jitter

    def __call__(self, retry_state: RetryCallState) -> float:
        retry = _due(self._policy, retry_state, self._jitter())
        return retry.delay_s if retry else 0.0  # tenacity asks for the wait before it asks whether to stop


class StopWhenSpent(stop_base):
    """True once the policy holds no further retry."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy

    def __call__(self, retry_state: RetryCallState) -> bool:
        return _due(self._policy, retry_state, 0.0) is None
