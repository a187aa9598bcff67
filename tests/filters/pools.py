"""The values of generated policies and messages: few, so that many pairs match, with edge cases among them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

KEYS = ("a", "b", "c", "n", "A", "é")
STRINGS = (
    *(
        "",
        " ",
        "a",
        "A",
        "ab",
        "Ab",
        "AB",
        "abc",
        "abab",
        "b",
        "ba",
        "red",
        "RED",
        "Redder",
        "15",
        "1.0",
        "true",
        "null",
    ),
    *("é", "É", "日本", "日", "σ", "Σ", "я", "Я", "a*b", "*", "a\\b", "\\", 'a"b', '"', "a\nb", "a.b", "straße"),
    *("STRASSE", "ς"),
)
ADDRESSES = (
    *("10.0.0.0", "10.0.0.5", "10.0.0.255", "10.0.1.5", "10.1.0.5", "192.168.0.1", "0.0.0.0", "255.255.255.255"),
    *("2001:db8::1", "2001:DB8:0:0::1", "2001:db8:1::1", "::1", "fe80::1", "10.0.0", "10.0.0.256", "10.0.0.5/24"),
    "::g",
)
NETWORKS = (
    *("10.0.0.0/24", "10.0.0.5/24", "10.0.0.0/8", "0.0.0.0/0", "10.0.0.4/31", "10.0.0.128/25", "192.168.0.0/16"),
    *("2001:db8::/32", "2001:DB8:0::/48", "::/0", "::/127", "fe80::1/64"),
)
NUMBERS = (
    *("0", "-0", "0.0", "1", "1.0", "1e0", "10e-1", "1.00001", "-1", "15", "15.0", "1.5e1", "1.5E+1", "100", "1e2"),
    *("0.1", "0.10", "0.3", "-0.5", "-5e-1", "999999999", "1000000000", "-1e9", "999999999.99999"),
    *("1.000012", "1.000018", "-1.000001"),
)
NUMBERS_OF_MESSAGES = (
    *NUMBERS,
    *("1e30", "-12345678901234567890", "0.30000000000000004", "9007199254740993", "1e-100", "0e5", "1.5e1"),
)
MALFORMED_NUMBERS = (".5", "5.", "+5", "05", "-05")
MALFORMED_ARRAYS = ("red", "{}", '["red",]', "[.5]", '["red"', '["red"] x', '[["red"]]', '[{"a":1}]')


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its spelling."""

    spelling: str


def written(value: Any) -> str:
    """JSON with the original spelling of numbers."""
    if isinstance(value, Number):
        return value.spelling
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {written(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def string(random: Random) -> str:
    """A random string, sometimes of only two letters, so that parts of it overlap."""
    return "".join(random.choices("ab", k=random.randint(1, 4))) if random.random() < 0.2 else random.choice(STRINGS)


def swapped(random: Random, text: str) -> str:
    """The text with the case of some letters changed."""
    return "".join(random.choice((each.lower(), each.upper(), each.casefold())) for each in text)
