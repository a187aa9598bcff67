"""The gaps of a site, and the repairs that close them."""

from __future__ import annotations

import math

import pytest

from cns_backend.sites.gaps import (
    GRACE_MS,
    HINTED_MS,
    TOKEN_MAX,
    TOKEN_MIN,
    WHOLE_REPAIR,
    GapRepair,
    SiteGap,
    TokenRange,
    covers_ring,
    is_whole_repair,
    read_ranges,
    repairable_until_ms,
    span_of,
    unrepaired,
)

WHOLE = ((TOKEN_MIN, TOKEN_MIN),)


def test_several_gaps() -> None:
    gaps = [SiteGap(5_000, 6_000), SiteGap(1_000, 4_000)]
    assert span_of(gaps) == SiteGap(1_000, 6_000)


def test_a_repair_must_end_in_time_after_an_absence_that_hints_do_not_cover() -> None:
    half = HINTED_MS // 2
    short = [SiteGap(1_000, 1_000 + half), SiteGap(10 * HINTED_MS, 10 * HINTED_MS + half)]
    assert repairable_until_ms(short) == math.inf
    assert repairable_until_ms([*short, SiteGap(5_000, 5_001)]) == 1_000 + GRACE_MS


def test_a_gap_is_told_in_utc() -> None:
    assert str(SiteGap(1_790_000_000_000, 1_790_000_061_000)) == "from 2026-09-21 14:13:20 to 2026-09-21 14:14:21 UTC"


@pytest.mark.parametrize(
    ("ranges", "covers"),
    [
        ((), False),
        (WHOLE, True),
        (((7, 7),), True),  # one range that ends where it begins
        (((10, -10), (-10, 10)), True),  # the first one wraps around
        (((10, -10), (-9, 10)), False),
        (((-10, 10),), False),
        (((TOKEN_MIN, 0), (0, TOKEN_MAX)), True),
        (((TOKEN_MIN, 5), (0, TOKEN_MAX)), True),
        (((TOKEN_MIN, 0), (1, TOKEN_MAX)), False),
        (((TOKEN_MIN, 0), (0, TOKEN_MAX - 1)), False),
        (((0, TOKEN_MIN), (TOKEN_MIN, 0)), True),
    ],
)
def test_ranges_that_cover_the_ring(ranges: tuple[TokenRange, ...], covers: bool) -> None:
    assert covers_ring(ranges) is covers


def test_each_table_needs_the_whole_ring() -> None:
    one_node = GapRepair(frozenset({"a", "b"}), ((10, -10),))
    other_node = GapRepair(frozenset({"b", "c"}), ((-10, 10),))
    assert unrepaired(["a", "b"], [one_node, other_node]) == ["a"]
    assert unrepaired(["a", "b"], [GapRepair(frozenset({"a", "b"}), WHOLE)]) == []
    assert unrepaired(["a"], []) == ["a"]


def test_ranges_as_cassandra_writes_them() -> None:
    assert read_ranges(["(-9223372036854775808,-3]", "(-3,17]"]) == ((TOKEN_MIN, -3), (-3, 17))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("incremental", "true"),
        ("dataCenters", "dc1"),
        ("hosts", "10.0.0.1"),
        ("forceRepair", "true"),
        ("pullRepair", "true"),
        ("previewKind", "ALL"),
    ],
)
def test_a_repair_that_leaves_replicas_or_data_out(name: str, value: str) -> None:
    assert is_whole_repair({**WHOLE_REPAIR, "primaryRange": "true"})
    assert not is_whole_repair({**WHOLE_REPAIR, name: value})
