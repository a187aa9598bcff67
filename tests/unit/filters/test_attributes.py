"""Filter policies of the scope MessageAttributes: AWS's documented examples, and what was recorded of it."""

from __future__ import annotations

import json

import pytest

from cns.filters.evaluation import matches
from cns.filters.message_values import attribute_values
from cns.filters.model import Scope
from cns.filters.parser import compile_stored, read_filter

Json = dict[str, object]
Given = str | tuple[str, str]  # the value of a String, or the data type and the value

ORDER: dict[str, Given] = {  # the message of the developer guide
    "customer_interests": ("String.Array", '["soccer", "rugby", "hockey"]'),
    "store": "example_corp",
    "event": "order_placed",
    "price_usd": ("Number", "210.75"),
}


def number(text: str) -> dict[str, Given]:
    return {"price": ("Number", text)}


def array(text: str) -> dict[str, Given]:
    return {"interests": ("String.Array", text)}


def interest(text: str) -> dict[str, Given]:
    return {"interests": text}


CASES: list[tuple[Json, dict[str, Given], bool]] = [
    # The two policies the guide opens with.
    (
        {
            "store": ["example_corp"],
            "event": [{"anything-but": "order_cancelled"}],
            "customer_interests": ["rugby", "football", "baseball"],
            "price_usd": [{"numeric": [">=", 100]}],
        },
        ORDER,
        True,
    ),
    (
        {
            "store": ["example_corp"],
            "event": ["order_cancelled"],
            "encrypted": [False],
            "customer_interests": ["basketball", "baseball"],
        },
        ORDER,
        False,
    ),
    # Values are equal by type.
    ({"interests": ["rugby", "tennis"]}, interest("rugby"), True),
    ({"interests": ["rugby", "tennis"]}, interest("tennis"), True),
    ({"interests": ["rugby", "tennis"]}, interest("baseball"), False),
    ({"interests": ["rugby"]}, interest("Rugby"), False),
    ({"interests": ["rugby"]}, interest("rugby "), False),
    ({"interests": ["15"]}, interest("15"), True),
    ({"interests": [15]}, interest("15"), False),
    ({"interests": [True]}, interest("true"), False),
    ({"interests": ["true"]}, interest("true"), True),
    ({"interests": [None]}, interest("null"), False),
    ({"interests": [""]}, interest("\U0001f600"), False),
    ({"interests": ["\U0001f600é"]}, interest("\U0001f600é"), True),
    ({"price": [15]}, number("15"), True),
    ({"price": [15]}, number("15.0"), True),
    ({"price": [15.0]}, number("1.5e1"), True),
    ({"price": [0]}, number("-0.0"), True),
    ({"price": ["15"]}, number("15"), False),
    ({"price": [0.1]}, number("0.1000000000000000055511151231257827"), True),  # to five decimals
    ({"price": [0.1]}, number("0.10001"), False),
    ({"price": [0.100004]}, number("0.100009"), True),
    ({"price": [-0.1]}, number("-0.100001"), False),  # truncated towards minus infinity
    ({"price": [-0.100009]}, number("-0.100001"), True),
    ({"price": [{"anything-but": 0.100004}]}, number("0.1"), False),
    ({"price": [{"anything-but": [0.1]}]}, number("0.10001"), True),
    ({"price": [0.1]}, number("1E-1"), True),
    ({"price": [12345678901234567890]}, number("12345678901234567890"), True),
    ({"price": [12345678901234567890]}, number("12345678901234567891"), False),
    # prefix, suffix, equals-ignore-case
    ({"interests": [{"prefix": "bas"}]}, interest("baseball"), True),
    ({"interests": [{"prefix": "bas"}]}, interest("basketball"), True),
    ({"interests": [{"prefix": "bas"}]}, interest("rugby"), False),
    ({"interests": [{"prefix": "bas"}]}, interest("a bas"), False),
    ({"interests": [{"prefix": ""}]}, interest("anything"), True),
    ({"price": [{"prefix": "1"}]}, number("15"), False),
    ({"price": [{"prefix": ""}]}, number("15"), False),
    ({"interests": [{"suffix": "ball"}]}, interest("baseball"), True),
    ({"interests": [{"suffix": "ball"}]}, interest("basketball"), True),
    ({"interests": [{"suffix": "ball"}]}, interest("rugby"), False),
    ({"interests": [{"suffix": "ball"}]}, interest("ballet"), False),
    ({"interests": [{"suffix": ""}]}, interest("x"), True),
    ({"price": [{"suffix": "5"}]}, number("15"), False),
    ({"interests": [{"equals-ignore-case": "tennis"}]}, interest("TENNIS"), True),
    ({"interests": [{"equals-ignore-case": "TenniS"}]}, interest("tenNis"), True),
    ({"interests": [{"equals-ignore-case": "tennis"}]}, interest("tennis!"), False),
    ({"interests": [{"equals-ignore-case": "Ärger"}]}, interest("äRGER"), True),
    ({"price": [{"equals-ignore-case": "15"}]}, number("15"), False),
    ({"interests": [{"prefix": {"equals-ignore-case": "BAS"}}]}, interest("baSeball"), True),
    ({"interests": [{"prefix": {"equals-ignore-case": "BAS"}}]}, interest("a bas"), False),
    ({"price": [{"prefix": {"equals-ignore-case": ""}}]}, number("15"), False),
    ({"interests": [{"suffix": {"equals-ignore-case": "bALL"}}]}, interest("BASEBALL"), True),
    ({"interests": [{"suffix": {"equals-ignore-case": "bALL"}}]}, interest("BALLS"), False),
    ({"price": [{"suffix": {"equals-ignore-case": ""}}]}, number("15"), False),
    # wildcard
    ({"interests": [{"wildcard": "*ball*"}]}, interest("basketballs"), True),
    ({"interests": [{"wildcard": "*ball*"}]}, interest("ball"), True),
    ({"interests": [{"wildcard": "*ball*"}]}, interest("bal"), False),
    ({"interests": [{"wildcard": "b*ll"}]}, interest("bll"), True),
    ({"interests": [{"wildcard": "b*ll"}]}, interest("bl"), False),  # no character counts for both ends
    ({"interests": [{"wildcard": "a*a"}]}, interest("a"), False),
    ({"interests": [{"wildcard": "a*a"}]}, interest("aa"), True),
    ({"interests": [{"wildcard": "a*b*a"}]}, interest("aba"), True),
    ({"interests": [{"wildcard": "a*b*a"}]}, interest("ab"), False),
    ({"interests": [{"wildcard": "a*b*b"}]}, interest("ab"), False),
    ({"interests": [{"wildcard": "a*b*c*d"}]}, interest("a-bc-bc-d"), True),
    ({"interests": [{"wildcard": "a*c*b*d"}]}, interest("a-b-c-d"), False),
    ({"interests": [{"wildcard": "*"}]}, interest("x"), True),
    ({"interests": [{"wildcard": "a\\*b"}]}, interest("a*b"), True),
    ({"interests": [{"wildcard": "a\\*b"}]}, interest("axb"), False),
    ({"interests": [{"wildcard": "a\\\\*"}]}, interest("a\\xyz"), True),
    ({"interests": [{"wildcard": "a\\\\*"}]}, interest("a*"), False),
    ({"interests": [{"wildcard": "plain"}]}, interest("plain"), True),
    ({"interests": [{"wildcard": "plain"}]}, interest("plainer"), False),
    ({"price": [{"wildcard": "*"}]}, number("15"), False),
    # anything-but
    ({"interests": [{"anything-but": ["rugby", "tennis"]}]}, interest("baseball"), True),
    ({"interests": [{"anything-but": ["rugby", "tennis"]}]}, interest("rugby"), False),
    ({"interests": [{"anything-but": "rugby"}]}, interest("rugby"), False),
    ({"interests": [{"anything-but": ["rugby"]}]}, array('["rugby"]'), False),
    ({"interests": [{"anything-but": ["rugby"]}]}, array('["rugby", "baseball"]'), True),  # one element is enough
    ({"interests": [{"anything-but": ["rugby"]}]}, {}, False),
    ({"interests": [{"anything-but": ["rugby"]}]}, {"other": "x"}, False),
    ({"price": [{"anything-but": [100, 500]}]}, number("101"), True),
    ({"price": [{"anything-but": [100, 500]}]}, number("100.0"), False),
    ({"price": [{"anything-but": 100}]}, number("100"), False),
    ({"price": [{"anything-but": 100}]}, {"price": "100"}, True),
    ({"price": [{"anything-but": ["prod"]}]}, number("5"), True),
    ({"event": [{"anything-but": {"prefix": "order-"}}]}, {"event": "data-entry"}, True),
    ({"event": [{"anything-but": {"prefix": "order-"}}]}, {"event": "order-cancelled"}, False),
    ({"event": [{"anything-but": {"prefix": ["order-", "data-"]}}]}, {"event": "data-entry"}, False),
    ({"event": [{"anything-but": {"prefix": ["order-", "data-"]}}]}, {"event": "x"}, True),
    ({"interests": [{"anything-but": {"wildcard": "*ball*"}}]}, interest("basketballs"), False),
    ({"interests": [{"anything-but": {"wildcard": ["*ball*", "r*y"]}}]}, interest("rugby"), False),
    ({"interests": [{"anything-but": {"wildcard": ["*ball*", "r*y"]}}]}, interest("tennis"), True),
    ({"interests": [{"anything-but": {"equals-ignore-case": ["Rugby", "X"]}}]}, interest("RUGBY"), False),
    ({"interests": [{"anything-but": {"equals-ignore-case": "rugby"}}]}, interest("tennis"), True),
    # numeric
    ({"price": [{"numeric": ["=", 301.5]}]}, number("301.5"), True),
    ({"price": [{"numeric": ["=", 3.015e2]}]}, number("301.50"), True),
    ({"price": [{"numeric": ["=", 301.5]}]}, number("3.015e2"), True),
    ({"price": [{"numeric": ["=", 301.5]}]}, number("301.50001"), False),
    ({"price": [{"numeric": ["=", 301.5]}]}, number("301.500001"), True),
    ({"price": [{"numeric": ["=", 301.500009]}]}, number("301.5"), True),
    ({"price": [{"numeric": [">", 150]}]}, number("150.000009"), False),
    ({"price": [{"numeric": [">", 150.000001]}]}, number("150.000009"), False),
    ({"price": [{"numeric": [">=", 150.000009]}]}, number("150"), True),
    ({"price": [{"numeric": ["<", 150.000009]}]}, number("150"), False),
    ({"price": [{"numeric": ["<=", 150]}]}, number("150.000009"), True),
    ({"price": [{"numeric": [">", 1.000001, "<", 1.000009]}]}, number("1.000005"), False),
    ({"price": [{"numeric": [">=", 1.000001, "<=", 1.000009]}]}, number("1"), True),
    ({"price": [{"numeric": ["=", 301.5]}]}, {"price": "301.5"}, False),
    ({"price": [{"numeric": ["<", 0]}]}, number("-1"), True),
    ({"price": [{"numeric": ["<", 0]}]}, number("0"), False),
    ({"price": [{"numeric": ["<=", 0]}]}, number("0"), True),
    ({"price": [{"numeric": ["<=", 0]}]}, number("0.00001"), False),
    ({"price": [{"numeric": [">", 0, "<=", 150]}]}, number("150"), True),
    ({"price": [{"numeric": [">", 0, "<=", 150]}]}, number("0"), False),
    ({"price": [{"numeric": [">=", 0, "<", 150]}]}, number("0"), True),
    ({"price": [{"numeric": [">=", 0, "<", 150]}]}, number("150"), False),
    ({"price": [{"numeric": [">=", 0, "<", 150]}]}, number("-1e-5"), False),
    ({"price": [{"numeric": [">", 150]}]}, number("150.00001"), True),
    ({"price": [{"numeric": [">", 150]}]}, number("150"), False),
    ({"price": [{"numeric": [">=", 150]}]}, number("150"), True),
    ({"price": [{"numeric": [">=", 150]}]}, number("149.99999"), False),
    ({"interests": [{"numeric": [">=", 150]}]}, array('["200", 7, 200]'), True),
    ({"interests": [{"numeric": [">=", 150]}]}, array('["200", 7]'), False),
    # cidr
    ({"ip": [{"cidr": "10.0.0.0/24"}]}, {"ip": "10.0.0.0"}, True),
    ({"ip": [{"cidr": "10.0.0.0/24"}]}, {"ip": "10.0.0.255"}, True),
    ({"ip": [{"cidr": "10.0.0.0/24"}]}, {"ip": "10.0.1.0"}, False),
    ({"ip": [{"cidr": "10.0.0.0/24"}]}, {"ip": "10.1.1.0"}, False),
    ({"ip": [{"cidr": "10.0.0.0/24"}]}, {"ip": "10.0.0"}, False),
    ({"ip": [{"cidr": "10.0.0.0/24"}]}, {"ip": "::ffff:10.0.0.1"}, False),
    ({"ip": [{"cidr": "10.0.0.0/24"}]}, {"ip": ("Number", "10")}, False),
    ({"ip": [{"cidr": "2001:db8::/32"}]}, {"ip": "2001:DB8:1::5"}, True),
    ({"ip": [{"cidr": "2001:db8::/32"}]}, {"ip": "2001:db9::5"}, False),
    ({"ip": [{"cidr": "2001:db8::/32"}]}, {"ip": "2001:db8::5%eth0"}, False),
    # exists
    ({"store": [{"exists": True}]}, {"store": "x"}, True),
    ({"store": [{"exists": True}]}, {"other": "x"}, False),
    ({"store": [{"exists": False}]}, {"other": "x"}, True),
    ({"store": [{"exists": False}]}, {"store": "x"}, False),
    ({"store": [{"exists": False}]}, {}, False),
    ({"$or": [{"store": [{"exists": False}]}, {"kind": [{"exists": False}]}]}, {}, False),
    ({"store": [{"exists": False}]}, {"other": ("Binary", "eA==")}, True),
    ({"store": [{"exists": False}]}, {"other": ("String.Array", "[]")}, True),
    ({"interests": [{"anything-but": {"suffix": "ball"}}]}, interest("rugby"), True),
    ({"interests": [{"anything-but": {"suffix": ["ball", "by"]}}]}, interest("rugby"), False),
    ({"interests": [{"anything-but": {"suffix": ["ball", "by"]}}]}, interest("tennis"), True),
    ({"store": [{"exists": False}, "open"]}, {"store": "open"}, True),
    ({"store": [{"exists": False}, "open"]}, {"store": "closed"}, False),
    ({"store": [{"exists": False}, "open"]}, {"other": "x"}, True),
    ({"store": [None, {"anything-but": "whatever"}]}, {}, False),
    # String.Array: any element, of any scalar type
    ({"interests": ["rugby"]}, array('["soccer", "rugby"]'), True),
    ({"interests": ["rugby"]}, array('["soccer"]'), False),
    ({"interests": ["rugby"]}, array("[]"), False),
    ({"interests": [True]}, array("[true]"), True),
    ({"interests": [None]}, array("[null]"), True),
    ({"interests": [1.50]}, array("[15e-1]"), True),
    ({"interests": [{"prefix": "r"}]}, array('["soccer", "rugby"]'), True),
    ({"interests": ['["rugby"]']}, interest('["rugby"]'), True),  # a String is no array
    ({"interests": ["rugby"]}, interest('["rugby"]'), False),
    # Types may have labels; Binary is not seen.
    ({"a": ["x"]}, {"a": ("String.label", "x")}, True),
    ({"a": [5]}, {"a": ("Number.int", "5")}, True),
    ({"a": ["x"]}, {"a": ("String.Array.label", '["x"]')}, True),
    # a scalar for an array: as if it were the only element
    ({"a": ["x"]}, {"a": ("String.Array", '"x"')}, True),
    ({"a": [{"prefix": "x"}]}, {"a": ("String.Array.label", ' "xy" ')}, True),
    ({"a": ["5"]}, {"a": ("String.Array", "5")}, False),
    ({"a": [5]}, {"a": ("String.Array", "5.0")}, True),
    ({"a": [True]}, {"a": ("String.Array", "true")}, True),
    ({"a": [None]}, {"a": ("String.Array", "null")}, True),
    ({"a": [{"exists": True}]}, {"a": ("String.Array", "null")}, True),
    ({"a": [{"anything-but": "x"}]}, {"a": ("String.Array", '"x"')}, False),
    ({"a": [{"exists": True}]}, {"a": ("Binary", "eA==")}, False),
    ({"a": [{"exists": False}]}, {"a": ("Binary.png", "eA==")}, True),
    # Keys are all to match, and dots in them mean nothing here.
    ({"a": ["1"], "b": ["2"]}, {"a": "1", "b": "2"}, True),
    ({"a": ["1"], "b": ["2"]}, {"a": "1", "b": "1"}, False),
    ({"a": ["1"], "b": ["2"]}, {"a": "1"}, False),
    ({"a.b": ["1"]}, {"a.b": "1"}, True),
    # $or
    ({"$or": [{"a": ["1"]}, {"b": ["2"]}]}, {"a": "1"}, True),
    ({"$or": [{"a": ["1"]}, {"b": ["2"]}]}, {"b": "2"}, True),
    ({"$or": [{"a": ["1"]}, {"b": ["2"]}]}, {"a": "2", "b": "1"}, False),
    ({"s": ["x"], "$or": [{"a": ["1"]}, {"b": ["2"]}]}, {"s": "x", "b": "2"}, True),
    ({"s": ["x"], "$or": [{"a": ["1"]}, {"b": ["2"]}]}, {"b": "2"}, False),
    ({"s": ["x"], "$or": [{"a": ["1"]}, {"b": ["2"]}]}, {"s": "x"}, False),
    ({"$or": [{"a": ["1"], "c": ["3"]}, {"b": ["2"]}]}, {"a": "1", "b": "1"}, False),
    ({"$or": [{"a": ["1"], "$or": [{"c": ["3"]}, {"d": ["4"]}]}, {"b": ["2"]}]}, {"a": "1", "d": "4"}, True),
    ({"$or": [{"a": ["1"], "$or": [{"c": ["3"]}, {"d": ["4"]}]}, {"b": ["2"]}]}, {"a": "1", "d": "5"}, False),
]


@pytest.mark.spec(
    "filter-attribute.array",
    "filter-attribute.array-anything-but",
    "filter-attribute.array-scalar",
    "filter-attribute.binary",
    "filter-attribute.number",
    "filter-limit.decimals",
    "filter-op.anything-but",
    "filter-op.anything-but-list",
    "filter-op.anything-but-prefix",
    "filter-op.anything-but-suffix",
    "filter-op.anything-but-wildcard",
    "filter-op.by-type",
    "filter-op.cidr",
    "filter-op.decimal",
    "filter-op.exact",
    "filter-op.exists",
    "filter-op.ignore-case",
    "filter-op.ignore-case-nested",
    "filter-op.literals",
    "filter-op.numeric",
    "filter-op.prefix",
    "filter-op.range",
    "filter-op.suffix",
    "filter-op.wildcard",
    "filter-op.wildcard-escape",
    "filter.values-or",
)
@pytest.mark.parametrize(("policy", "message", "expected"), CASES)
def test_policy_of_attributes(policy: Json, message: dict[str, Given], expected: bool) -> None:
    stored, read = read_filter(json.dumps(policy), Scope.ATTRIBUTES)
    given = {name: value if isinstance(value, tuple) else ("String", value) for name, value in message.items()}
    values = attribute_values(given)
    assert values is not None
    assert matches(read, values) is expected
    assert compile_stored(stored, Scope.ATTRIBUTES) == read
