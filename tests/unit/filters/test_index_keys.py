"""The index keys of a filter policy, and that their number stays small."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from cns.filters.index_keys import COPIES_MAX, ProbeKind, branches, bucket, ticks
from cns.filters.model import Filter, Scope
from cns.filters.parser import read_filter
from tests.unit.filters.mixes import ANY

Policy = dict[str, Any]


def _policy(policy: Policy) -> Filter:
    return read_filter(json.dumps(policy), Scope.BODY, limits=ANY)[1]


LEVEL_OF_10 = ticks("10").bit_length()

KEYS = [
    ({"a": ["x", 5, None]}, [[("a", "exact", '"x'), ("a", "exact", "5"), ("a", "exact", "null")]]),
    ({"a": [{"equals-ignore-case": "X"}]}, [[("a", "folded", "x")]]),
    ({"a": [{"prefix": "pre"}, {"suffix": "suf"}]}, [[("a", "prefix", "pre"), ("a", "suffix", "suf")]]),
    ({"a": [{"prefix": {"equals-ignore-case": "Pre"}}]}, [[("a", "folded prefix", "pre")]]),
    ({"a": [{"suffix": {"equals-ignore-case": "Suf"}}]}, [[("a", "folded suffix", "suf")]]),
    ({"a": [{"wildcard": "long*x"}]}, [[("a", "prefix", "long")]]),
    ({"a": [{"wildcard": "x*long"}]}, [[("a", "suffix", "long")]]),
    ({"a": [{"wildcard": "*mid*"}]}, [[("a", "present", "")]]),
    ({"a": [{"numeric": ["=", 5]}]}, [[("a", "range", bucket(500_000, 0))]]),
    ({"a": [{"numeric": [">", 0, "<=", 10]}]}, [[("a", "range", bucket(0, LEVEL_OF_10))]]),
    ({"a": [{"numeric": [">", 5]}]}, [[("a", "above", 500_000)]]),
    ({"a": [{"numeric": ["<", -5]}]}, [[("a", "below", -500_000)]]),
    ({"a": [{"cidr": "10.0.1.0/24"}]}, [[("a", "network", (4, 8, 0x0A0001))]]),
    ({"a": [{"cidr": "::1/127"}]}, [[("a", "network", (6, 1, 0))]]),
    ({"a": [{"exists": True}]}, [[("a", "present", "")]]),
    ({"a": [{"anything-but": ["x"]}]}, [[("a", "present", "")]]),
    ({"a": ["x", {"exists": True}]}, [[("a", "present", "")]]),
    ({"a": [{"exists": False}]}, [[]]),
    ({"a": ["x", {"exists": False}], "b": ["y"]}, [[("b", "exact", '"y')]]),
    ({"a": [{"exists": True}], "b": ["x", "y"], "c": ["z"]}, [
        [("c", "exact", '"z'), ("b", "exact", '"x'), ("b", "exact", '"y'), ("a", "present", "")]
    ]),
    ({"a": ["x"], "$or": [{"b": ["y"]}, {"c": ["z"]}]}, [
        [("a", "exact", '"x'), ("b", "exact", '"y')],
        [("a", "exact", '"x'), ("c", "exact", '"z')],
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "expected"), KEYS, ids=[json.dumps(policy) for policy, _ in KEYS])
def test_keys_of_a_policy(policy: Policy, expected: list[list[tuple[str, str, object]]]) -> None:
    found = [
        [(key.path, str(probe.kind), probe.value) for key in branch.keys for probe in key.probes]
        for branch in branches(_policy(policy).root)
    ]
    assert found == expected


def test_a_range_is_in_two_buckets_at_most() -> None:
    random = Random(1)
    for _ in range(500):
        least = random.randint(-(10**8), 10**8)
        most = least + random.randint(1, 10 ** random.randint(1, 8))
        (key,), _ = branches(_policy({"a": [{"numeric": [">=", least, "<=", most]}]}).root)[0]
        values = {probe.value for probe in key.probes}
        assert len(values) <= 2
        assert {probe.kind for probe in key.probes} == {ProbeKind.RANGE}
        for number in (least, most, random.randint(least, most)):
            assert bucket(ticks(str(number)), key.probes[0].size) in values


def test_ticks_keep_the_order_of_numbers() -> None:
    spellings = [
        "-1E+400",
        "-1000000000",
        "-0.00001",
        "0",
        "0.000001",
        "0.00001",
        "15",
        "999999999.99999",
        "1E+9",
        "1E+400",
    ]
    found = [ticks(spelling) for spelling in spellings]
    assert found == sorted(found)


def test_a_policy_that_would_be_copied_too_often_gets_fewer_keys() -> None:
    values = [f"v{n}" for n in range(COPIES_MAX // 2)]
    (branch,) = branches(_policy({"a": values, "b": values, "c": [{"exists": True}]}).root)
    assert [key.path for key in branch.keys] == ["a", "c"]


def test_alternatives_that_would_multiply_too_often_are_left_to_evaluation() -> None:
    few, many = ([{f"{name}{n}": ["x"]} for n in range(count)] for name, count in (("few", 3), ("many", 30)))
    policy = _policy({"$or": many, "below": {"$or": few}})
    assert len(branches(policy.root)) == 3
    assert len(branches(_policy({"$or": many[:20], "below": {"$or": few}}).root)) == 60
    assert len(branches(_policy({"$or": [*many, *many, *many]}).root)) == 90
