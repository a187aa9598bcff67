"""The retry decision: from the outcome of an attempt to delivered, another attempt, or the end."""

from __future__ import annotations

from dataclasses import dataclass

from cns.delivery.failure_causes import End
from cns.delivery.retry_policy import Retry, RetryPolicy, due_retry
from cns.endpoints.outcome import Delivered, Outcome


@dataclass(frozen=True, slots=True)
class Verdict:
    """Exactly one of its members is set."""

    delivered: bool = False
    retry: Retry | None = None
    end: End | None = None


DELIVERED = Verdict(delivered=True)


def judge(
    outcome: Outcome,
    policy: RetryPolicy,
    *,
    failures: int,
    elapsed_s: float,
    jitter: float,
    client_errors_succeed: bool,
) -> Verdict:
    """`failures` includes this attempt if it failed; `elapsed_s` is the time since the first attempt.

    A 3xx or 4xx other than 429 is permanent. AWS was recorded to count these as delivered; with
    `client_errors_succeed` so does this service.
    """
    if isinstance(outcome, Delivered):
        return DELIVERED
    if outcome.permanent:
        if client_errors_succeed and outcome.is_client_error:
            return DELIVERED
        return Verdict(end=End.PERMANENT)
    retry = due_retry(policy, failures, elapsed_s=elapsed_s, retry_after_s=outcome.retry_after_s, jitter=jitter)
    return Verdict(retry=retry) if retry is not None else Verdict(end=End.SPENT)
