"""Errors for invalid JSON: the words recorded from AWS, and in time linear in the text."""

from __future__ import annotations

import gc
import sys

import pytest

from cns.json_errors import NESTING_MAX, TEXT_CHARS_MAX, json_fault

VALUES = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
SOURCE = "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: "
OBJECT_STARTS = f"Object (start marker at {SOURCE}1, column: 1])"

FAULTS = [
    # recorded from AWS
    ("{invalidjson}", "Unexpected character ('i' (code 105)): was expecting double-quote to start field name", 1, 2),
    ("invalid", f"Unrecognized token 'invalid': was expecting {VALUES}", 1, 8),
    # the common mistakes
    ("{'a':1}", "Unexpected character (''' (code 39)): was expecting double-quote to start field name", 1, 2),
    ('{"a":1,}', "Unexpected character ('}' (code 125)): was expecting double-quote to start field name", 1, 8),
    ('["a",]', f"Unexpected character (']' (code 93)): expected a valid value {VALUES}", 1, 6),
    ('{"a" 1}', "Unexpected character ('1' (code 49)): was expecting a colon to separate field name and value", 1, 6),
    ('{"a":1 "b":2}', "Unexpected character ('\"' (code 34)): was expecting comma to separate Object entries", 1, 8),
    ("[1 2]", "Unexpected character ('2' (code 50)): was expecting comma to separate Array entries", 1, 4),
    ('{\n "a":\r\n  True\r}', f"Unrecognized token 'True': was expecting {VALUES}", 3, 7),
    ('{"a":["x"]', f"Unexpected end-of-input: expected close marker for {OBJECT_STARTS}", 1, 11),
    ('{"a":', "Unexpected end-of-input within/between Object entries", 1, 6),
    ('"abc', "Unexpected end-of-input: was expecting closing quote for a string value", 1, 5),
    ("[1}", f"Unexpected close marker '}}': expected ']' (for Array starting at {SOURCE}1, column: 1])", 1, 3),
    ("01", "Invalid numeric value: Leading zeroes not allowed", 1, 2),
    ("NaN", "Non-standard token 'NaN': enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow", 1, 4),
    # columns count UTF-16 units; a character that would be cut in two is sent as a question mark
    ('["🙂", x]', f"Unrecognized token 'x': was expecting {VALUES}", 1, 9),
    ("{🙂}", "Unexpected character ('?' (code 55357 / 0xd83d)): was expecting double-quote to start field name", 1, 2),
]


@pytest.mark.parametrize(("text", "message", "line", "column"), FAULTS)
def test_the_message_and_the_place(text: str, message: str, line: int, column: int) -> None:
    assert json_fault(text) == f"{message}\n at {SOURCE}{line}, column: {column}]"


@pytest.mark.parametrize("text", ["", " \r\n"])
def test_nothing_has_no_column(text: str) -> None:
    assert json_fault(text) == f"No content to map due to end-of-input\n at {SOURCE}1]"


@pytest.mark.parametrize(
    "text", ["{}", "[]", ' {"a" : [1, -0.5e+3, "\\u00e9\\n🙂", true, false, null, {}]} ', "7", '"x"', "null"]
)
def test_json_has_no_fault(text: str) -> None:
    assert json_fault(text) is None


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_ends_at_jacksons_limit(opening: str) -> None:
    assert json_fault(opening * 2_000) == (
        f"Document nesting depth ({NESTING_MAX + 1}) exceeds the maximum allowed "
        f"({NESTING_MAX}, from `StreamReadConstraints.getMaxNestingDepth()`)"
    )


def test_a_token_is_shown_in_part() -> None:
    fault = json_fault("x" * 10_000)
    assert fault is not None and fault.startswith(f"Unrecognized token '{'x' * 256}...': was expecting")


def test_a_long_text_is_not_looked_through() -> None:
    assert json_fault("[" * TEXT_CHARS_MAX) is not None
    assert json_fault("[" * (TEXT_CHARS_MAX + 1)) is None


def calls_for(text: str) -> int:
    """Count the functions that are called, of Python and of C; finalizers of garbage are not among them."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(count)
    try:
        json_fault(text)
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


@pytest.mark.parametrize(
    "part", ["[],", '"a":{"b":[1]},', "\n", "\\n", "🙂", "1", "x", "[1.5e3,", '"\\u00e9",', " "], ids=range(10)
)
@pytest.mark.parametrize("opening", ["[", '{"a":[', '"'])
def test_twice_the_text_is_at_most_twice_the_work(opening: str, part: str) -> None:
    once, twice = (calls_for(opening + part * n + "\x00") for n in (1_000, 2_000))
    assert twice <= 2.5 * once
