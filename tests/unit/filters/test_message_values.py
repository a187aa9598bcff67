"""The values that filters read from a notification, and that no notification takes long."""

from __future__ import annotations

import json
from time import process_time

import pytest

from cns.filters.evaluation import matches
from cns.filters.message_values import attribute_values, body_values
from cns.filters.model import Scope
from cns.filters.parser import compile_stored

BODY_CHARS_MAX = 262_144

NUMBERS = [  # spellings of the same number, and its literal
    (("0", "-0", "0.000", "0e5", "-0E-7"), "0"),
    (("15", "15.0", "1.5e1", "150E-1"), "15"),
    (("-0.5", "-5e-1", "-0.50"), "-0.5"),
    (("100", "1e2", "1E+2", "0.1e3"), "100"),
    (("1234567890123456789", "1234567890123456789.0"), "1234567890123456789"),
    (("1e29", "1" + "0" * 29), "1" + "0" * 29),
    (("1e30", "10E29", "1" + "0" * 30), "1E+30"),
    (("0.1000000000000000055511151231257827", "0.1", "1e-1"), "0.1"),
    (("1.23456", "1.234567", "1.23456999e0"), "1.23456"),
    (("1e-7", "0.0000001", "1e-999999999"), "0"),
    (("0.00001", "1e-5", "0.0000199"), "0.00001"),
    (("-1.000001", "-1.00001", "-1.0000099999"), "-1.00001"),  # truncated towards minus infinity, as by AWS's engine
    (("12345678901234567890.123456",), "12345678901234567890.12345"),
    (("1e999999999",), "1E+999999999"),
    (("1e99999999999999999999",), "1e99999999999999999999"),
]


@pytest.mark.parametrize(("spellings", "literal"), NUMBERS)
def test_number_has_one_literal(spellings: tuple[str, ...], literal: str) -> None:
    for spelling in spellings:
        values = body_values(f'{{"a":{spelling}}}')
        assert values is not None
        assert values.by_path == {"a": (literal,)}
        assert attribute_values({"a": ("Number", spelling)}) == values


def test_attributes() -> None:
    values = attribute_values(
        {
            "store": ("String", "a b"),
            "price": ("Number.usd", "1.50"),
            "interests": ("String.Array", '["x",1.0,true,false,null]'),
            "none": ("String.Array", "[]"),
            "picture": ("Binary", "eA=="),
        }
    )
    assert values is not None
    assert values.by_path == {"store": ('"a b',), "price": ("1.5",), "interests": ('"x', "1", "true", "false", "null")}


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        ("String.Array", "not-json"),
        ("String.Array", ""),
        ("String.Array", '"x'),
        ("String.Array", "NaN"),
        ("String.Array", "x"),
        ("String.Array", '{"a":1}'),
        ("String.Array", '["x"'),
        ("String.Array", '[["x"]]'),
        ("String.Array", '[{"a":1}]'),
        ("String.Array", "[NaN]"),
        ("String.Array", "[" * 5000),
        ("String.Array.label", "x"),
        ("Number", ".5"),
        ("Number", "5."),
        ("Number", "+5"),
        ("Number", "05"),
        ("Number", " 5"),
        ("Number", "5\n"),
        ("Number", "٥"),
        ("Number.int", "1e"),
    ],
)
def test_malformed_attribute_fails_them_all(data_type: str, text: str) -> None:
    assert attribute_values({"a": (data_type, text), "b": ("String", "x")}) is None


def test_body_is_flattened() -> None:
    values = body_values(
        '{"a":{"b":"x","c.d":1},"a.b":"y","e":[true,[null,"z"]],"f":[],"g":{},"h":[{"i":1.0,"j":["k"]},{"i":2}]}'
    )
    assert values is not None
    assert {path: set(found) for path, found in values.by_path.items()} == {
        "a.b": {'"x', '"y'},
        "a.c.d": {"1"},
        "e": {"true", "null", '"z'},
        "h.i": {"1", "2"},
        "h.j": {'"k'},
    }
    assert len(values.by_path["h.i"]) == 2
    assert values.body is not None
    assert {array.path for array in values.body.arrays} == {"e", "h"}


def test_body_without_arrays_of_objects_has_no_elements() -> None:
    values = body_values('{"a":{"b":[1,2]}}')
    assert values is not None
    assert values.body is None


def test_last_of_repeated_keys_counts() -> None:
    values = body_values('{"a":1,"a":2}')
    assert values is not None
    assert values.by_path == {"a": ("2",)}


def test_longest_and_deepest_paths() -> None:
    """Values that no policy can name are skipped, so that a small body has few values."""
    for text, found in [
        (f'{{"{"k" * 1024}":1}}', True),
        (f'{{"{"k" * 1025}":1}}', False),
        ('{"a":' * 150 + "1" + "}" * 150, True),
        ('{"a":' * 151 + "1" + "}" * 151, False),
    ]:
        values = body_values(text)
        assert values is not None
        assert bool(values.by_path) is found


def full(text: str) -> str:
    assert len(text) <= BODY_CHARS_MAX
    return text


def filled(start: str, element: str, end: str) -> str:
    """A body as long as may be, of one element again and again."""
    count = (BODY_CHARS_MAX - len(start) - len(end)) // (len(element) + 1)
    return start + ",".join([element] * count) + end


HEAVY = [
    "[" * BODY_CHARS_MAX,
    full('{"a":' * 43_000 + "1" + "}" * 43_000),
    full('{"a":' + "[" * 990 + "]" * 990 + "}"),
    full('{"a":' + "9" * 262_000 + "}"),
    full('{"a":1' + "0" * 262_000 + "}"),
    full('{"a":0.' + "3" * 262_000 + "}"),
    '{"a":1e999999999,"x":-1e999999999,"y":1E-999999999}',
    '{"a":1e' + "9" * 262_000 + "}",
    filled('{"a":[', "1", "]}"),
    filled('{"a":[', '{"x":1},{"y":2}', "]}"),
    filled('{"a":[', '{"x":1,"b":[{"y":2},{"z":3}]}', "]}"),
    filled('{"a":[', "{}", "]}"),
    filled('{"a":[', '[[{"x":1}]]', "]}"),
    filled('{"' + "k" * 130_000 + '":{', '"x":1', "}}"),
    '{"a":' + json.dumps("a*" * 131_000) + "}",
]
POLICIES = [
    '{"a":[{"numeric":[">",0]},{"wildcard":"*a*b*a"},{"cidr":"10.0.0.0/8"}]}',
    '{"a":{"x":[1],"y":[2],"b":{"y":[2],"z":[3]}},"c":[{"exists":false}]}',
    '{"a":{"$or":[{"x":[1],"y":[2]},{"x":[2]}]},"$or":[{"a.x":[3]},{"a.y":[4]}]}',
    '{"a":[{"anything-but":{"suffix":["x","y","z"]}}]}',
]


@pytest.mark.parametrize("text", HEAVY, ids=range(len(HEAVY)))
def test_heavy_body_is_light_work(text: str) -> None:
    started_s = process_time()
    values = body_values(text)
    if values is not None:
        for policy in POLICIES:
            matches(compile_stored(policy, Scope.BODY), values)
    assert process_time() - started_s < 5
