"""Why a message does not meet a policy, as a key and in words."""

from __future__ import annotations

import json

import pytest

from cns.filters.message_values import attribute_values, body_values
from cns.filters.model import Scope
from cns.filters.parser import compile_stored
from cns.filters.reasons import first_unmet, reason


@pytest.mark.parametrize(
    "policy, key, words",
    [
        ({"kind": ["paid"]}, "kind", 'key `kind`: value "new" matches none of ["paid"]'),
        ({"kind": ["new"], "size": [1]}, "size", "key `size`: value 7 matches none of [1]"),
        (
            {"missing": ["x", True, None]},
            "missing",
            'key `missing`: it is not there; asked for is one of ["x", true, null]',
        ),
        (
            {"colours": ["blue"]},
            "colours",
            'key `colours`: none of the values "red", "green" matches one of ["blue"]',
        ),
        ({"kind": [{"exists": False}]}, "kind", 'key `kind`: value "new" matches none of [exists false]'),
        ({"size": [{"numeric": [">", 7, "<=", 9]}]}, "size", "key `size`: value 7 matches none of [> 7 and <= 9]"),
        ({"size": [{"numeric": ["=", 8]}]}, "size", "key `size`: value 7 matches none of [= 8]"),
        (
            {"kind": [{"prefix": "a"}, {"suffix": "b"}, {"wildcard": "a*c"}, {"equals-ignore-case": "D"}]},
            "kind",
            'key `kind`: value "new" matches none of [prefix "a", suffix "b", wildcard "a*c", "d" in any case]',
        ),
        (
            {"kind": [{"anything-but": ["new", "old"]}]},
            "kind",
            'key `kind`: value "new" matches none of [anything but ["new", "old"]]',
        ),
        ({"kind": [{"cidr": "10.0.0.0/24"}]}, "kind", 'key `kind`: value "new" matches none of [cidr 10.0.0.0/24]'),
        (
            {"kind": list("abcdefg")},
            "kind",
            'key `kind`: value "new" matches none of ["a", "b", "c", "d", "e", … 2 more]',
        ),
        (
            {"$or": [{"kind": ["paid"]}, {"size": [1]}]},
            "$or",
            "key `$or`: none of its branches is met (they look at `kind`, `size`)",
        ),
    ],
)
def test_of_attributes(policy: dict[str, object], key: str, words: str) -> None:
    values = attribute_values(
        {"kind": ("String", "new"), "size": ("Number", "7"), "colours": ("String.Array", '["red","green"]')}
    )
    assert values is not None
    read = compile_stored(json.dumps(policy), Scope.ATTRIBUTES)
    assert (first_unmet(read, values), reason(read, values)) == (key, words)


def test_of_a_message_without_attributes() -> None:
    values = attribute_values({})
    assert values is not None
    read = compile_stored('{"kind":[{"exists":false}]}', Scope.ATTRIBUTES)
    assert first_unmet(read, values) == "kind"
    assert reason(read, values) == "the message has no attributes, and so it meets no policy that looks at attributes"


def test_each_key_alone_is_met_and_not_in_one_element() -> None:
    values = body_values('{"cars":[{"colour":"red","doors":2},{"colour":"blue","doors":4}]}')
    assert values is not None
    read = compile_stored('{"cars":{"colour":["red"],"doors":[4]}}', Scope.BODY)
    assert first_unmet(read, values) == ""
    assert reason(read, values) == "no element of an array meets all that the policy asks of it together"


@pytest.mark.parametrize("text, shown", [("a\x1b[2Jb", '"a [2Jb"'), ("x" * 100, f'"{"x" * 59}…"')])
def test_values_are_shown_on_one_line_and_not_too_long(text: str, shown: str) -> None:
    values = attribute_values({"kind": ("String", text)})
    assert values is not None
    assert (
        reason(compile_stored('{"kind":["a"]}', Scope.ATTRIBUTES), values)
        == f'key `kind`: value {shown} matches none of ["a"]'
    )
