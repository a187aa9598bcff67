"""AWS's fixed retry policies for endpoints other than HTTP: each retry, and their end."""

from __future__ import annotations

import math

import pytest

from cns.delivery.retry_policy import MAIL_POLICY, QUEUE_POLICY, Phase, Retry, RetryPolicy, delays_s, due_retry
from cns.protocols.table import PROTOCOLS


@pytest.mark.parametrize("policy", [QUEUE_POLICY, MAIL_POLICY], ids=["queue", "mail"])
def test_a_policy_of_days_waits_an_hour_at_most_for_being_asked_to(policy: RetryPolicy) -> None:
    """A gateway's Retry-After must not delay a message for years."""
    retry = due_retry(policy, 3, elapsed_s=60, retry_after_s=1e12)
    assert retry is not None and retry.delay_s == 3600


def test_an_endpoint_that_always_times_out_is_given_up_while_its_message_is_kept() -> None:
    """Every attempt at a queue takes 15 s: without a total the 100,015 would take 40 days."""
    elapsed_s, failures = 15.0, 1
    while retry := due_retry(QUEUE_POLICY, failures, elapsed_s=elapsed_s, jitter=0.5):
        elapsed_s += retry.delay_s + 15
        failures += 1
    assert 27 < elapsed_s / 86_400 < 28.1


@pytest.mark.spec("sns-retry.queues", "sns-retry.mail")
@pytest.mark.parametrize(
    ("policy", "retries", "days"), [(QUEUE_POLICY, 100_015, 23.15), (MAIL_POLICY, 50, 0.278)], ids=["queue", "mail"]
)
def test_fixed_policies_are_those_of_aws(policy: RetryPolicy, retries: int, days: float) -> None:
    assert policy is not None
    delays = list(delays_s(policy))
    assert len(delays) == retries
    assert math.fsum(delays) / 86_400 == pytest.approx(days, abs=0.01)
    assert due_retry(policy, retries, elapsed_s=20 * 86_400) == Retry(Phase.POST_BACKOFF, policy.max_delay_s)


def exponential(least: float, most: float, count: int) -> list[float]:
    """m + (M - m)·(eᵏ - 1)/(eⁿ⁻¹ - 1), as it is written in sns.md, for k = 0 … n - 1."""
    return [least + (most - least) * (math.e**k - 1) / (math.e ** (count - 1) - 1) for k in range(count)]


@pytest.mark.spec("sns-retry.queues", "sns-retry.mail")
@pytest.mark.parametrize(
    ("protocols", "varied", "last", "count"),
    [
        # 3 at once, 2 × 1 s, 10 from 1 to 20 s, 100,000 × 20 s: 3 + 2 + 10 + 100,000 = 100,015
        (("sqs", "lambda", "firehose"), [0] * 3 + [1] * 2 + exponential(1, 20, 10), 20, 100_015),
        # none at once, 2 × 10 s, 10 from 10 to 600 s, 38 × 600 s: 0 + 2 + 10 + 38 = 50
        (("email", "email-json", "sms", "application"), [10] * 2 + exponential(10, 600, 10), 600, 50),
    ],
)
def test_fixed_policies_in_full(protocols: tuple[str, ...], varied: list[float], last: float, count: int) -> None:
    (policy,) = {PROTOCOLS[protocol].retry for protocol in protocols}
    assert policy is not None
    delays = list(delays_s(policy))
    assert delays[: len(varied)] == pytest.approx(varied)
    assert delays[len(varied) :] == [last] * (count - len(varied))


def test_web_endpoints_have_no_fixed_policy() -> None:
    assert {PROTOCOLS[name].retry for name in ("http", "https", "redis")} == {None}
