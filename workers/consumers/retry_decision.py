"""What becomes of an attempt: from its outcome to delivered, another try, the dead-letter queue, or a drop."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cns.delivery.retry_policy import Retry, RetryPolicy, due_retry
from cns.endpoints.outcome import Cause, Delivered, Outcome


class End(StrEnum):
    """Why a target gets no further attempt although it was not delivered to."""

    PERMANENT = "permanent"
    SPENT = "spent"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`delivered`, or a `retry`, or an `end`: exactly one."""

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
    """`failures` counts this attempt if it failed; `elapsed_s` is from the first attempt to now.

    A 3xx or 4xx other than 429 is permanent. AWS was recorded to count those as delivered (sns.md §9): with
    `client_errors_succeed` so do we.
    """
    if isinstance(outcome, Delivered):
        return DELIVERED
    if outcome.permanent:
        if client_errors_succeed and outcome.cause is Cause.STATUS:
            return DELIVERED
        return Verdict(end=End.PERMANENT)
    retry = due_retry(policy, failures, elapsed_s=elapsed_s, retry_after_s=outcome.retry_after_s, jitter=jitter)
    return Verdict(retry=retry) if retry is not None else Verdict(end=End.SPENT)
