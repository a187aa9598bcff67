"""Every condition operator, as a table: what the policy says, what the request has, whether the condition holds."""

from __future__ import annotations

import time

import pytest

from cns_common.aws.policy.conditions import conditions
from cns_common.aws.policy.parser import Facts, UnresolvedVariableError

ARN = "arn:aws:sns:us-east-1:123456789012:topic"

# Operator, values in the policy, value in the request, whether it holds. The same rows test negated operators.
VALUES: list[tuple[str, object, str, bool]] = [
    ("StringEquals", "a", "a", True),
    ("StringEquals", "a", "A", False),
    ("StringEquals", ["b", "a"], "a", True),
    ("StringEquals", "a*", "ab", False),
    ("StringEquals", "a*", "a*", True),
    ("StringEquals", [], "a", False),
    ("StringEquals", True, "true", True),
    ("StringEquals", 5, "5", True),
    ("StringEqualsIgnoreCase", "Straße", "STRAßE", True),
    ("StringEqualsIgnoreCase", "STRASSE", "straße", False),
    ("StringLike", "a*", "abc", True),
    ("StringLike", "a*", "a", True),
    ("StringLike", "*", "", True),
    ("StringLike", "a?", "a", False),
    ("StringLike", "a?c", "abc", True),
    ("StringLike", "a.c", "abc", False),
    ("StringLike", "*b*d", "abcd", True),
    ("StringLike", "*b*d", "abdc", False),
    ("StringLike", "*ab", "aab", True),
    ("StringLike", "*aab*", "aaab", True),
    ("StringLike", "a*", "a\nb", True),
    ("StringLike", "A*", "abc", False),
    ("StringLike", "é?", "éa", True),
    ("StringLike", "?", "\U0001f600", False),  # two UTF-16 units
    ("StringLike", "??", "\U0001f600", True),
    ("StringLike", "*\U0001f600", "a\U0001f600", True),
    ("NumericEquals", "5", "5", True),
    ("NumericEquals", "5", "5.0", True),
    ("NumericEquals", 5, "+5", True),
    ("NumericEquals", "5", "6", False),
    ("NumericEquals", "5", "five", False),
    ("NumericEquals", "five", "five", False),
    ("NumericEquals", "5", "NaN", False),
    ("NumericEquals", "5", "５", False),
    ("NumericLessThan", "5", "4.9", True),
    ("NumericLessThan", "5", "5", False),
    ("NumericLessThan", "5", "x", False),
    ("NumericLessThan", "10", "9", True),
    ("NumericLessThanEquals", "5", "5", True),
    ("NumericLessThanEquals", "5", "5.1", False),
    ("NumericGreaterThan", "5", "5.1", True),
    ("NumericGreaterThan", "5", "5", False),
    ("NumericGreaterThan", "-5", "-4", True),
    ("NumericGreaterThanEquals", "5", "5", True),
    ("NumericGreaterThanEquals", "5", "4", False),
    ("DateEquals", "2026-01-02T03:04:05Z", "1767323045", True),
    ("DateEquals", "2026-01-02T04:04:05+01:00", "2026-01-02T03:04:05Z", True),
    ("DateEquals", "2026-01-02", "2026-01-02T00:00:00Z", True),
    ("DateEquals", "2026-01-02", "2026-01-02T00:00:01Z", False),
    ("DateEquals", "yesterday", "yesterday", False),
    ("DateLessThan", "2026-01-02T03:04:05Z", "2026-01-02T03:04:04Z", True),
    ("DateLessThan", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", False),
    ("DateLessThanEquals", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", True),
    ("DateLessThanEquals", "1767323045", "1767323046", False),
    ("DateGreaterThan", "1767323045", "1767323046", True),
    ("DateGreaterThan", "1767323045", "soon", False),
    ("DateGreaterThanEquals", "1767323045", "1767323045", True),
    ("DateGreaterThanEquals", "1767323045", "1767323044", False),
    ("Bool", "true", "true", True),
    ("Bool", "True", "true", True),
    ("Bool", False, "false", True),
    ("Bool", "false", "true", False),
    ("Bool", "yes", "yes", False),
    ("BinaryEquals", "QmluYXJ5", "QmluYXJ5", True),
    ("BinaryEquals", "QmluYXJ5", "QmluYXJ6", False),
    ("BinaryEquals", "QmluYXJ5", "Qmlu YXJ5", False),
    ("BinaryEquals", "not base64", "not base64", False),
    ("BinaryEquals", "é", "é", False),
    ("IpAddress", "10.0.0.0/8", "10.1.2.3", True),
    ("IpAddress", "10.9.9.9/8", "10.1.2.3", True),
    ("IpAddress", "10.0.0.0/8", "11.1.2.3", False),
    ("IpAddress", "10.1.2.3", "10.1.2.3", True),
    ("IpAddress", "10.1.2.3", "10.1.2.4", False),
    ("IpAddress", "0.0.0.0/0", "10.1.2.3", True),
    ("IpAddress", "0.0.0.0/0", "::1", False),
    ("IpAddress", ["192.0.2.0/24", "2001:db8::/32"], "2001:db8::7", True),
    ("IpAddress", "2001:db8::1/32", "2001:db8::7", False),  # host bits
    ("IpAddress", "10.0.0.0/255.0.0.0", "10.1.2.3", False),
    ("IpAddress", "10.0.0.0/33", "10.1.2.3", False),
    ("IpAddress", "10.0.0.0/8", "localhost", False),
    ("IpAddress", "10.0.0.0/8", "", False),
    ("ArnEquals", ARN, ARN, True),
    ("ArnEquals", ARN.upper(), ARN, False),
    ("ArnEquals", "arn:aws:sns:*:123456789012:t*", ARN, True),
    ("ArnLike", "arn:aws:sns:us-east-?:*:topic", ARN, True),
    ("ArnLike", "arn:aws:*:*:*:*", ARN, True),
    ("ArnLike", "arn:aws:sns:*:topic", ARN, False),  # a star stays within its part
    ("ArnLike", "arn:aws:s*:topic:x:y", ARN, False),
    ("ArnLike", "arn:aws:sns:*:123456789012:topic", "arn:aws:sns:x:123456789012:123456789012:topic", False),
    ("ArnLike", "*", ARN, False),
    ("ArnLike", "arn:aws:sns:us-east-1:123456789012:*", f"{ARN}:subscription", True),
    ("ArnLike", "arn:aws:sns:us-east-1:123456789012:*:sub*", f"{ARN}:subscription", True),
    ("ArnLike", "*:*:*:*:*:*", "not:an:arn:of:six:parts", False),
    ("ArnLike", "arn:aws:sns:*:*:*", "arn:aws:sns", False),
]
TWINS = {
    "StringEquals": "StringNotEquals",
    "StringEqualsIgnoreCase": "StringNotEqualsIgnoreCase",
    "StringLike": "StringNotLike",
    "NumericEquals": "NumericNotEquals",
    "DateEquals": "DateNotEquals",
    "IpAddress": "NotIpAddress",
    "ArnEquals": "ArnNotEquals",
    "ArnLike": "ArnNotLike",
}


def holds(operator: str, values: object, facts: Facts, *, variables: bool = True) -> bool:
    (condition,) = conditions({operator: {"Key": values}}, variables=variables)
    return condition.holds(facts)


@pytest.mark.spec(
    "policy.string-operators",
    "policy.numeric-operators",
    "policy.date-operators",
    "policy.bool-operator",
    "policy.binary-operator",
    "policy.address-operators",
    "policy.arn-operators",
    "policy.conditions-or",
    "policy.like-units",
    "policy.ignore-case",
    "policy.cidr-4",
    "policy.cidr-6",
    "policy.bad-values",
)
@pytest.mark.parametrize(("operator", "values", "value", "expected"), VALUES)
def test_operators(operator: str, values: object, value: str, expected: bool) -> None:
    assert holds(operator, values, {"key": value}) is expected
    assert holds(f"{operator}IfExists", values, {"key": value}) is expected
    twin = TWINS.get(operator)
    if twin is not None:
        assert holds(twin, values, {"key": value}) is not expected


@pytest.mark.spec("policy.absent-key", "policy.if-exists", "policy.for-any-value", "policy.for-all-values")
@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("StringEquals", False),
        ("StringNotEquals", True),
        ("NumericLessThan", False),
        ("NotIpAddress", True),
        ("Bool", False),
        ("StringEqualsIfExists", True),
        ("StringNotEqualsIfExists", True),
        ("ForAnyValue:StringEquals", False),
        ("ForAnyValue:StringNotEquals", False),
        ("ForAnyValue:StringEqualsIfExists", True),
        ("ForAllValues:StringEquals", True),
        ("ForAllValues:StringNotEquals", True),
    ],
)
def test_absent_keys(operator: str, expected: bool) -> None:
    assert holds(operator, "a", {}) is expected
    assert holds(operator, "a", {"key": []}) is expected


@pytest.mark.spec("policy.for-any-value", "policy.for-all-values", "policy.many-values")
@pytest.mark.parametrize(
    ("operator", "values", "found", "expected"),
    [
        ("ForAnyValue:StringEquals", ["a", "b"], ["b", "c"], True),
        ("ForAnyValue:StringEquals", ["a", "b"], ["c", "d"], False),
        ("ForAllValues:StringEquals", ["a", "b"], ["b", "a"], True),
        ("ForAllValues:StringEquals", ["a", "b"], ["b", "c"], False),
        ("ForAnyValue:StringNotEquals", ["a", "b"], ["b", "c"], True),
        ("ForAnyValue:StringNotEquals", ["a", "b"], ["b", "a"], False),
        ("ForAllValues:StringNotEquals", ["a", "b"], ["c", "d"], True),
        ("ForAllValues:StringNotEquals", ["a", "b"], ["c", "a"], False),
        ("ForAllValues:StringLike", "a*", ["ab", "ac"], True),
        ("ForAnyValue:StringLikeIfExists", "a*", ["b", "ac"], True),
        ("ForAnyValue:StringEquals", "a", "a", True),
        ("ForAllValues:StringEquals", "a", "b", False),
        ("StringEquals", "a", ["a"], False),
        ("StringNotEquals", "a", ["b"], False),
    ],
)
def test_keys_of_many_values(operator: str, values: object, found: str | list[str], expected: bool) -> None:
    assert holds(operator, values, {"key": found}) is expected


@pytest.mark.spec("policy.null-operator")
@pytest.mark.parametrize(
    ("wanted", "facts", "expected"),
    [
        ("true", {}, True),
        ("true", {"key": "a"}, False),
        ("false", {}, False),
        ("false", {"key": "a"}, True),
        (False, {"key": ["a"]}, True),
        ("TRUE", {"key": []}, True),
        (["true", "false"], {}, True),
    ],
)
def test_null(wanted: object, facts: Facts, expected: bool) -> None:
    assert holds("Null", wanted, facts) is expected


@pytest.mark.parametrize(
    ("operator", "value", "found", "expected"),
    [
        ("StringEquals", "${aws:username}", "bob", True),
        ("StringEquals", "${AWS:Username}-1", "bob-1", True),
        ("StringNotEquals", "${aws:username}", "bob", False),
        ("StringEqualsIgnoreCase", "${aws:username}", "BOB", True),
        ("StringLike", "${aws:username}*", "bobby", True),
        ("StringLike", "${star}", "bob", False),
        ("StringLike", "${star}", "b*b", True),
        ("StringLike", "${other, 'b?b'}", "bob", False),
        ("StringLike", "b${*}b", "bob", False),
        ("StringEquals", "b${*}b", "b*b", True),
        ("ArnLike", "arn:aws:sns:*:*:${aws:username}", "arn:aws:sns:us-east-1:123456789012:bob", True),
        ("ArnLike", "arn:aws:sns:*:*:${aws:username}", "arn:aws:sns:us-east-1:123456789012:rob", False),
        ("NumericEquals", "${number}", "5", False),
    ],
)
def test_variables(operator: str, value: str, found: str, expected: bool) -> None:
    facts = {"key": found, "aws:username": "bob", "star": "b*b", "number": "5"}
    assert holds(operator, value, facts) is expected


def test_the_older_version_knows_no_variables() -> None:
    facts = {"key": "${aws:username}", "aws:username": "bob"}
    assert holds("StringEquals", "${aws:username}", facts, variables=False)


def test_a_variable_without_value_is_no_answer() -> None:
    with pytest.raises(UnresolvedVariableError):
        holds("StringNotEquals", "${aws:username}", {"key": "a"})
    assert holds("StringEqualsIfExists", "${aws:username}", {})


def test_all_conditions_are_read() -> None:
    found = conditions({"StringEquals": {"a": "1", "B": "2"}, "Bool": {"c": "true"}}, variables=True)
    assert [condition.key for condition in found] == ["a", "b", "c"]


@pytest.mark.parametrize("pattern", ["*a" * 20 + "b", "*a" * 2000 + "b", "*a" + "?" * 50 + "b"])
def test_no_pattern_is_slow(pattern: str) -> None:
    """Backtracking over the stars would take exponential time."""
    began = time.process_time()
    assert not holds("StringLike", pattern, {"key": "a" * 4000})
    assert time.process_time() - began < 2
