"""A parsed filter policy: the values that a message must have, and at which paths.

A value is a *literal*, a text that also tells the JSON type: a string has a quotation mark in front and none behind
(`"red`); a number is in its shortest decimal spelling, cut to five decimals (`15`, `-0.5`, `1E+30`; 15.0 is `15`); the
others are `true`, `false` and `null`. So equal literals are equal values as AWS compares them, and can be dict keys.

A *path* is the name of an attribute, or the keys of nested objects in the body, joined by dots.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network

import msgspec


class Scope(StrEnum):
    """The part of a message that a policy looks at."""

    ATTRIBUTES = "MessageAttributes"
    BODY = "MessageBody"


class Exact(msgspec.Struct, frozen=True, tag=True):
    literal: str


class Prefix(msgspec.Struct, frozen=True, tag=True):
    text: str
    ignore_case: bool = False  # then the text is case-folded


class Suffix(msgspec.Struct, frozen=True, tag=True):
    text: str
    ignore_case: bool = False


class EqualsIgnoreCase(msgspec.Struct, frozen=True, tag=True):
    """The text is case-folded."""

    text: str


class Wildcard(msgspec.Struct, frozen=True, tag=True):
    """The pattern, split at its stars: `a*b` is ('a', 'b'), `*a` is ('', 'a')."""

    parts: tuple[str, ...]


class Numeric(msgspec.Struct, frozen=True, tag=True):
    """A range from `least` to `most`, both cut to five decimals. None: no bound. `=` is a range of one number."""

    least: Decimal | None
    most: Decimal | None
    least_included: bool = True
    most_included: bool = True


class Cidr(msgspec.Struct, frozen=True, tag=True):
    network: IPv4Network | IPv6Network


class Exists(msgspec.Struct, frozen=True, tag=True):
    wanted: bool


class AnythingBut(msgspec.Struct, frozen=True, tag=True):
    """Met by a value that meets none of the conditions."""

    conditions: tuple[Exact | Prefix | Suffix | EqualsIgnoreCase | Wildcard, ...]


Condition = Exact | Prefix | Suffix | EqualsIgnoreCase | Wildcard | Numeric | Cidr | Exists | AnythingBut


class Leaf(msgspec.Struct, frozen=True, tag=True):
    """Met if a value at the path meets one of the conditions."""

    path: str
    conditions: tuple[Condition, ...]


class AnyOf(msgspec.Struct, frozen=True, tag=True):
    """`$or`. The leaves in its branches have full paths."""

    branches: tuple[AllOf, ...]


class AllOf(msgspec.Struct, frozen=True, tag=True):
    parts: tuple[Leaf | AnyOf, ...]


class Filter(msgspec.Struct, frozen=True):
    scope: Scope
    root: AllOf
