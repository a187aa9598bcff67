"""The four phases, the four backoff curves, and that every policy ends."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cns.delivery.retry_policy import (
    JITTER_SHARE,
    TOTAL_S_MAX,
    Backoff,
    Phase,
    Retry,
    RetryPolicy,
    delays_s,
    due_retry,
    next_retry,
)

IMMEDIATE, PRE, GROWING, POST = Phase


@st.composite
def valid_policies(draw: st.DrawFn) -> RetryPolicy:
    counts = draw(st.lists(st.integers(0, 25), min_size=4, max_size=4))
    least = draw(st.integers(1, 3600))
    return RetryPolicy(
        min_delay_s=least,
        max_delay_s=draw(st.integers(least, 3600)),
        retries=sum(counts),
        no_delay=counts[0],
        min_delay=counts[1],
        max_delay=counts[2],
        backoff=draw(st.sampled_from(Backoff)),
    )


def planned(policy: RetryPolicy) -> list[Retry]:
    """The attempts at a target that never answers; a policy without an end fails the test."""
    retries: list[Retry] = []
    while (retry := next_retry(policy, len(retries) + 1)) is not None:
        retries.append(retry)
        assert len(retries) <= policy.retries
    return retries


def curve(backoff: Backoff, least: float, most: float, count: int) -> list[float]:
    return list(delays_s(RetryPolicy(min_delay_s=least, max_delay_s=most, retries=count, backoff=backoff)))


# -- the original's faults, first: CMB retried for ever under every policy but its default, and divided by zero --------


@pytest.mark.spec("sns-retry.phases", "sns-retry.post-backoff")
@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        # (retries, immediate, pre-backoff, post-backoff), from 5 to 30 s, linear. CMB never left post-backoff here.
        ((3, 0, 0, 0), [5, 17.5, 30]),  # its default's form, the only one that ended: 5, 5 + 25/2, 30
        ((1, 0, 0, 1), [30]),
        ((1, 1, 0, 0), [0]),
        ((1, 0, 1, 0), [5]),
        ((5, 1, 1, 1), [0, 5, 5, 30, 30]),
        ((4, 2, 0, 2), [0, 0, 30, 30]),
        ((0, 0, 0, 0), []),
    ],
)
def test_every_policy_ends_after_as_many_retries_as_it_says(
    counts: tuple[int, int, int, int], expected: list[float]
) -> None:
    retries, no_delay, min_delay, max_delay = counts
    policy = RetryPolicy(
        min_delay_s=5, max_delay_s=30, retries=retries, no_delay=no_delay, min_delay=min_delay, max_delay=max_delay
    )
    assert [retry.delay_s for retry in planned(policy)] == expected
    assert next_retry(policy, 1_000_000) is None


@pytest.mark.spec("sns-retry.backoff")
@pytest.mark.parametrize("backoff", Backoff)
def test_a_backoff_of_one_retry_waits(backoff: Backoff) -> None:
    """CMB divided by n - 1 = 0, and tried again at once."""
    assert curve(backoff, 7, 90, 1) == [7]


@pytest.mark.spec(
    "sns-retry.phases",
    "sns-retry.immediate",
    "sns-retry.pre-backoff",
    "sns-retry.backoff",
    "sns-retry.post-backoff",
)
def test_phases_come_in_order_with_their_delays() -> None:
    policy = RetryPolicy(min_delay_s=5, max_delay_s=30, retries=10, no_delay=1, min_delay=2, max_delay=3)
    retries = planned(policy)
    assert [retry.phase for retry in retries] == [IMMEDIATE, *[PRE] * 2, *[GROWING] * 4, *[POST] * 3]
    assert [retry.delay_s for retry in retries] == pytest.approx([0, 5, 5, 5, 5 + 25 / 3, 5 + 50 / 3, 30, 30, 30, 30])


@pytest.mark.spec("sns-retry.default")
def test_the_default_is_three_retries_twenty_seconds_apart() -> None:
    assert planned(RetryPolicy()) == [Retry(GROWING, 20.0)] * 3


@pytest.mark.spec("sns-retry.formulas")
@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        # m = 1, M = 61, n = 5, so (i-1)/(n-1) = 0, 1/4, 1/2, 3/4, 1 and M - m = 60
        # 1 + 60·(0, 1/4, 1/2, 3/4, 1)
        (Backoff.LINEAR, [1, 16, 31, 46, 61]),
        # 1 + 60·(0, 1/16, 1/4, 9/16, 1)
        (Backoff.ARITHMETIC, [1, 4.75, 16, 34.75, 61]),
        # x = 61^(1/4) = 2.7946824; x^0, x^1, x^2 = √61 = 7.8102497, x^3 = 21.8271671, x^4, each + 1 - 1
        (Backoff.GEOMETRIC, [1, 2.794682, 7.810250, 21.827167, 61]),
        # a = 60/(e⁴-1) = 60/53.5981500 = 1.1194416; 1 + a·(e^k - 1) with e = 2.7182818, 7.3890561, 20.0855369, 54.59815
        (Backoff.EXPONENTIAL, [1, 2.923516, 8.152175, 22.365144, 61]),
    ],
)
def test_backoff_curves(backoff: Backoff, expected: list[float]) -> None:
    assert curve(backoff, 1, 61, 5) == pytest.approx(expected, abs=1e-6)


@pytest.mark.spec("sns-retry.curves")
@pytest.mark.parametrize(("least", "most", "count"), [(1, 60, 10), (1, 20, 10), (10, 600, 10), (1, 3600, 50)])
def test_curves_are_ordered_at_mid_range(least: float, most: float, count: int) -> None:
    """As AWS's graph shows them; it holds for the policies of its documentation, not for very short or flat ones."""
    halves = [curve(backoff, least, most, count)[count // 2] for backoff in Backoff]
    assert all(above > below for above, below in pairwise(halves)), halves


@pytest.mark.parametrize("backoff", Backoff)
@pytest.mark.parametrize(
    ("least", "most", "count", "expected"),
    [
        (7, 7, 4, [7.0] * 4),  # M = m
        (7, 90, 2, [7.0, 90.0]),
        (7, 90, 0, []),
    ],
)
def test_curves_without_room_to_grow(
    backoff: Backoff, least: float, most: float, count: int, expected: list[float]
) -> None:
    assert curve(backoff, least, most, count) == pytest.approx(expected)


@pytest.mark.parametrize("backoff", Backoff)
def test_long_curves_do_not_overflow(backoff: Backoff) -> None:
    delays = curve(backoff, 1, 20, 5000)
    assert delays[0] == 1
    assert delays[-1] == pytest.approx(20)
    assert all(math.isfinite(delay) for delay in delays)


@pytest.mark.spec("sns-retry.phases")
@given(valid_policies())
def test_every_policy_makes_all_its_retries_and_ends(policy: RetryPolicy) -> None:
    retries = planned(policy)
    assert len(retries) == policy.retries
    assert next_retry(policy, policy.retries + 1) is None
    assert [retry.delay_s for retry in retries] == list(delays_s(policy))
    counts = [sum(retry.phase is phase for retry in retries) for phase in Phase]
    assert counts == [policy.no_delay, policy.min_delay, policy.backoff_count, policy.max_delay]


@pytest.mark.spec("sns-retry.backoff")
@given(valid_policies())
def test_delays_never_fall_and_stay_between_minimum_and_maximum(policy: RetryPolicy) -> None:
    delays = list(delays_s(policy))
    assert all(earlier <= later + 1e-9 for earlier, later in pairwise(delays))
    waits = delays[policy.no_delay :]
    assert all(policy.min_delay_s <= delay <= policy.max_delay_s for delay in waits)


@pytest.mark.spec("sns-retry.hour")
@given(
    valid_policies(),
    st.floats(0, 7200),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1),
    st.floats(0, 60),
)
def test_no_retry_starts_after_the_total(
    policy: RetryPolicy, retry_after_s: float, jitters: list[float], attempt_s: float
) -> None:
    elapsed_s, failures = attempt_s, 1
    while retry := due_retry(
        policy,
        failures,
        elapsed_s=elapsed_s,
        retry_after_s=retry_after_s,
        jitter=jitters[failures % len(jitters)],
    ):
        elapsed_s += retry.delay_s
        assert elapsed_s <= TOTAL_S_MAX + 1e-6
        elapsed_s += attempt_s
        failures += 1
    assert failures <= policy.retries + 1


TEN_SECONDS = RetryPolicy(min_delay_s=10, max_delay_s=10, retries=3)


@pytest.mark.spec("sns-retry.jitter", "sns-retry.hour")
@pytest.mark.parametrize(
    ("elapsed_s", "retry_after_s", "jitter", "expected_s"),
    [
        (1, 0, 0, 10),
        (1, 5, 0, 10),  # the endpoint may ask for more, not for less
        (1, 60, 0, 60),
        (1, 60, 0.5, 60),
        (1, 10.2, 0.5, 10 * (1 + JITTER_SHARE / 2)),
        (100, 7200, 0, 3500),  # more than is left: the last possible moment
        (3590, 0, 0, 10),  # ends with the total, to the second
        (3590, 5, 0, 10),
        (3590, 11, 0, 10),
        (3589, 11, 0, 11),
        (0, 1e300, 0, 3600),
        (0, math.inf, 0, 3600),
        (3590, 0, 0.9, 10),  # jitter gives way to the total
        (3590.5, 0, 0, None),
        (3601, 0, 0, None),
    ],
)
def test_retry_after_and_jitter_within_the_total(
    elapsed_s: float, retry_after_s: float, jitter: float, expected_s: float | None
) -> None:
    retry = due_retry(TEN_SECONDS, 1, elapsed_s=elapsed_s, retry_after_s=retry_after_s, jitter=jitter)
    assert (retry and retry.delay_s) == (expected_s and pytest.approx(expected_s))


def test_a_clock_behind_the_first_attempts_is_no_reason_to_give_up() -> None:
    """A worker on another machine, whose clock is ahead, may have made the message."""
    assert due_retry(TEN_SECONDS, 1, elapsed_s=-2) == Retry(GROWING, 10.0)


def test_immediate_retries_are_not_spread() -> None:
    policy = RetryPolicy(retries=1, no_delay=1)
    assert due_retry(policy, 1, elapsed_s=0, jitter=0.99) == Retry(IMMEDIATE, 0.0)


@pytest.mark.spec("sns-retry.custom")
def test_the_example_of_aws_s_documents() -> None:
    policy = RetryPolicy(
        min_delay_s=1,
        max_delay_s=60,
        retries=50,
        no_delay=3,
        min_delay=2,
        max_delay=35,
        backoff=Backoff.EXPONENTIAL,
    )
    delays = [retry.delay_s for retry in planned(policy)]
    assert delays[:6] == [0, 0, 0, 1, 1, 1]
    assert delays[14] == pytest.approx(60)
    assert delays[5:15] == sorted(delays[5:15])
    assert delays[15:] == [60] * 35


@pytest.mark.parametrize(
    "wrong",
    [
        {"retries": 2, "no_delay": 1, "min_delay": 1, "max_delay": 1},
        {"no_delay": -1},
        {"min_delay_s": 21, "max_delay_s": 20},
        {"min_delay_s": -1},
    ],
)
def test_impossible_policies_are_not_made(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="RetryPolicy"):
        RetryPolicy(**wrong)  # type: ignore[arg-type]
