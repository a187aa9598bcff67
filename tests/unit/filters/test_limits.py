"""The limits of a filter policy: what just passes, and what is just refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cns.filters.evaluation import matches
from cns.filters.limits import FilterLimits
from cns.filters.message_values import body_values
from cns.filters.model import Scope
from cns.filters.parser import read_filter
from cns_common.errors import RequestError


def values(count: int, start: int = 0) -> list[str]:
    return [f"value{index}" for index in range(start, start + count)]


def nested(depth: int, leaf: object) -> object:
    return leaf if depth == 0 else {"k": nested(depth - 1, leaf)}


KEYS = "Filter policy can not have more than 5 keys"
COMPLEX = "Filter policy is too complex"
FIVE = {f"key{index}": ["x"] for index in range(5)}
FLAT_OR: dict[str, Any] = {  # 4 x 6 + 4 x 4 x 4 + 4 x 4 x 4 = 152, recorded
    "source": values(4),
    "$or": [{"metricName": values(6)}, {"metricType": values(4), "$or": [{"id": values(4)}, {"space": values(4)}]}],
}
NESTED_OR = {  # (3 + 2) x 4 x (2 + 6) = 160
    "$or": [{"metricName": values(3)}, {"namespace": values(2)}],
    "detail": {"scope": values(2), "$or": [{"source": values(1)}, {"type": values(3)}]},
}

LIMITS: list[tuple[object, str]] = [  # '' is accepted
    (FIVE, ""),
    (FIVE | {"key5": ["x"]}, KEYS),
    ({"a": FIVE}, ""),
    ({"a": FIVE, "b": {"c": ["x"]}}, KEYS),
    ({"$or": [{"a": ["x"]}, {"a": ["y"]}, {"a": ["z"]}], "b": ["x"], "c": ["x"]}, ""),
    ({"$or": [{"a": ["x"]}, {"a": ["y"]}, {"a": ["z"]}], "b": ["x"], "c": ["x"], "d": ["x"]}, KEYS),
    ({"a": values(150)}, ""),
    ({"a": values(151)}, COMPLEX),
    ({"a": values(15), "b": values(10)}, ""),
    ({"a": values(100), "b": values(51)}, COMPLEX),
    ({"a": {"b": values(75)}}, ""),
    ({"a": {"b": values(76)}}, COMPLEX),
    ({"a": {"b": {"c": values(4)}}, "d": {"e": values(3)}}, ""),  # 3 x 4 x 2 x 3 = 72
    ({"a": {"b": {"c": values(4)}}, "d": {"e": values(3)}, "f": values(2)}, ""),
    ({"a": {"b": {"c": values(4)}}, "d": {"e": values(3)}, "f": values(3)}, COMPLEX),
    (FLAT_OR, COMPLEX),
    (FLAT_OR | {"$or": [{"metricName": values(5)}, FLAT_OR["$or"][1]]}, ""),  # 148
    (NESTED_OR, COMPLEX),
    (NESTED_OR | {"$or": [{"metricName": values(3)}, {"namespace": values(1)}]}, ""),  # 128
    (nested(150, ["x"]), ""),
    (nested(151, ["x"]), COMPLEX),
    ({"k" * 1024: ["x"]}, ""),
    ({"k" * 1025: ["x"]}, COMPLEX),
    ({"a": [{"wildcard": "*a*b*c"}]}, ""),
    ({"a": [{"wildcard": "*a*b*c*"}]}, "wildcard match pattern can not have more than 3 wildcards"),
    ({"a": [{"wildcard": f"{index}*"} for index in range(100)]}, ""),
    ({"a": [{"wildcard": f"{index}*"} for index in range(101)]}, COMPLEX),
    ({"a": [{"wildcard": f"*{index}*"} for index in range(33)]}, ""),
    ({"a": [{"wildcard": f"*{index}*"} for index in range(34)]}, COMPLEX),
    ({"a": [{"anything-but": {"wildcard": [f"*{index}*" for index in range(34)]}}]}, COMPLEX),
    ({"$or": [{"a": [{"wildcard": f"*{index}*"} for index in range(17)]} for _ in "ab"]}, COMPLEX),
    ({"a": ["x" * (262_144 - 10)]}, ""),
    ({"a": ["x" * (262_144 - 9)]}, "Filter policy can not be larger than 262144 bytes"),
    ({"a": ["é" * 131_068]}, "Filter policy can not be larger than 262144 bytes"),
]


@pytest.mark.spec(
    "filter-limit.keys",
    "filter-limit.keys-or",
    "filter-limit.complexity",
    "filter-limit.complexity-or",
    "filter-limit.wildcards",
    "filter-limit.size",
    "filter-op.wildcard-most",
)
@pytest.mark.parametrize(("policy", "complaint"), LIMITS, ids=range(len(LIMITS)))
def test_limit(policy: object, complaint: str) -> None:
    text = json.dumps(policy, separators=(",", ":"), ensure_ascii=False)
    if not complaint:
        assert read_filter(text, Scope.BODY)[0] == text
        return
    with pytest.raises(RequestError) as refused:
        read_filter(text, Scope.BODY)
    assert refused.value.code == "InvalidParameter"
    assert refused.value.message.startswith(f"Invalid parameter: FilterPolicy: {complaint}")


def test_limits_are_settings() -> None:
    six = json.dumps(FIVE | {"key5": values(151)})
    limits = FilterLimits(keys=6, complexity=151)
    read_filter(six, Scope.ATTRIBUTES, limits=limits)
    with pytest.raises(RequestError, match="more than 4 keys"):
        read_filter(six, Scope.ATTRIBUTES, limits=FilterLimits(keys=4))
    with pytest.raises(RequestError, match=COMPLEX):
        read_filter(six, Scope.ATTRIBUTES, limits=FilterLimits(keys=6))
    with pytest.raises(RequestError, match=COMPLEX):
        read_filter(json.dumps(nested(151, ["x"])), Scope.BODY, limits=FilterLimits(complexity=100_000))


def test_policy_of_thousands_of_keys_where_they_are_allowed() -> None:
    text = json.dumps({"a": {f"key{index}": [{"exists": False}] for index in range(5_000)}})
    _, read = read_filter(text, Scope.BODY, limits=FilterLimits(keys=5_000, complexity=2**5_000))
    for body in ('{"a":[{"b":1}]}', '{"a":{"b":1}}'):
        found = body_values(body)
        assert found is not None
        assert matches(read, found)
