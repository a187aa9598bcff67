"""A filter policy as it is evaluated: which values a message must have, and where.

A value is a *literal*: the text of a JSON scalar that says its type, a string with a quotation mark before it and none
behind (`"red`), a number in its shortest decimal spelling (`15`, `-0.5`, `1E+30`; 15.0 is `15`), or `true`, `false`,
`null`. Numbers are cut to five decimals. So values compare as AWS compares them, by type and to five decimals, and are
keys of hash tables.

A place is a *path*: the key of an attribute, or the keys of nested objects joined by dots.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network

import msgspec


class Scope(StrEnum):
    """What a policy looks at."""

    ATTRIBUTES = "MessageAttributes"
    BODY = "MessageBody"


class Exact(msgspec.Struct, frozen=True, tag=True):
    literal: str


class Prefix(msgspec.Struct, frozen=True, tag=True):
    text: str
    fold: bool = False  # without regard to case; the text is folded already


class Suffix(msgspec.Struct, frozen=True, tag=True):
    text: str
    fold: bool = False


class Folded(msgspec.Struct, frozen=True, tag=True):
    """equals-ignore-case; the text is folded already."""

    text: str


class Wildcard(msgspec.Struct, frozen=True, tag=True):
    """What must follow one another, with anything between: `a*b` is ('a', 'b'), `*a` is ('', 'a')."""

    parts: tuple[str, ...]


class Numeric(msgspec.Struct, frozen=True, tag=True):
    """From `least` to `most`, both cut to five decimals; None: without end. `=` is a range of one number."""

    least: Decimal | None
    most: Decimal | None
    least_included: bool = True
    most_included: bool = True


class Cidr(msgspec.Struct, frozen=True, tag=True):
    network: IPv4Network | IPv6Network


class Exists(msgspec.Struct, frozen=True, tag=True):
    wanted: bool


class AnythingBut(msgspec.Struct, frozen=True, tag=True):
    """There is a value, and it meets none of these."""

    conditions: tuple[Exact | Prefix | Suffix | Folded | Wildcard, ...]


Condition = Exact | Prefix | Suffix | Folded | Wildcard | Numeric | Cidr | Exists | AnythingBut


class Leaf(msgspec.Struct, frozen=True, tag=True):
    """One of the conditions is met at the path."""

    path: str
    conditions: tuple[Condition, ...]


class AnyOf(msgspec.Struct, frozen=True, tag=True):
    """`$or`. The paths in its branches are whole ones."""

    branches: tuple[AllOf, ...]


class AllOf(msgspec.Struct, frozen=True, tag=True):
    parts: tuple[Leaf | AnyOf, ...]


class Filter(msgspec.Struct, frozen=True):
    scope: Scope
    root: AllOf
