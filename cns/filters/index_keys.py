"""The index keys of a filter policy.

A policy is a disjunction of *branches* (from `$or`), a branch is a conjunction of *keys*, and a key is a path with
*probes*: every value that meets a condition at the path is found by one of the probes. Keys may find more than the
policy matches, never less, so the policies found are evaluated. A key that selects nothing (`exists: false`) is left
out.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from math import floor
from typing import NamedTuple

from cns.filters.model import (
    AllOf,
    AnyOf,
    AnythingBut,
    Cidr,
    Condition,
    EqualsIgnoreCase,
    Exact,
    Exists,
    Leaf,
    Numeric,
    Prefix,
    Suffix,
    Wildcard,
)

BRANCHES_MAX = 64
"""Branches of a policy. An `$or` that would multiply them beyond this is not indexed, only evaluated. A single `$or`,
which adds branches, may exceed it."""
COPIES_MAX = 1024
"""Copies of a branch in the tree: the product of its keys' probes. Further keys are left out, but never the first."""
KEYS_MAX = 8
"""Keys of a branch: more would hardly tell more policies apart."""

TICKS_PER_UNIT = 100_000
"""Numbers are looked up in ticks of five decimals. Evaluation tells apart what falls into the same tick."""
TICKS_MAX = 1 << 60
LEVEL_BITS = 6


class ProbeKind(StrEnum):
    """The way in which a probe looks up a value."""

    EXACT = "exact"
    FOLDED = "folded"
    NETWORK = "network"
    RANGE = "range"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    FOLDED_PREFIX = "folded prefix"
    FOLDED_SUFFIX = "folded suffix"
    ABOVE = "above"
    BELOW = "below"
    PRESENT = "present"


ProbeValue = str | int | tuple[int, int, int]


class Probe(NamedTuple):
    """`size` cuts the message's value before the lookup: to a number of characters, or by a number of low bits."""

    kind: ProbeKind
    value: ProbeValue
    size: int = 0


class Key(NamedTuple):
    path: str
    probes: tuple[Probe, ...]


class Range(NamedTuple):
    """In ticks, inclusive. A message must have such a number at the path: a cheap check after an inexact probe."""

    path: str
    least: int
    most: int


class Branch(NamedTuple):
    keys: tuple[Key, ...]
    ranges: tuple[Range, ...]


PRESENT = Probe(ProbeKind.PRESENT, "")

_WEIGHTS = {
    ProbeKind.EXACT: 0,
    ProbeKind.FOLDED: 0,
    ProbeKind.NETWORK: 0,
    ProbeKind.RANGE: 1,
    ProbeKind.PREFIX: 1,
    ProbeKind.SUFFIX: 1,
    ProbeKind.FOLDED_PREFIX: 1,
    ProbeKind.FOLDED_SUFFIX: 1,
    ProbeKind.ABOVE: 2,
    ProbeKind.BELOW: 2,
    ProbeKind.PRESENT: 3,
}


def branches(root: AllOf) -> list[Branch]:
    """The branches, in an order that depends only on the policy."""
    return [_branch(leaves) for leaves in conjunctions(root)]


def conjunctions(root: AllOf) -> list[tuple[Leaf, ...]]:
    """Groups of leaves: a message that matches the policy meets all leaves of at least one group."""
    found: list[tuple[Leaf, ...]] = [tuple([part for part in root.parts if type(part) is Leaf])]
    choices = [
        [leaves for branch in part.branches for leaves in conjunctions(branch)]
        for part in root.parts
        if type(part) is AnyOf
    ]
    for choice in sorted(choices, key=len):
        if len(found) == 1 or len(found) * len(choice) <= BRANCHES_MAX:
            found = [first + second for first in found for second in choice]
    return found


def ticks(number: str | Decimal) -> int:
    """The number in ticks, rounded down and limited to TICKS_MAX. The order of numbers is kept."""
    exact = float(number) * TICKS_PER_UNIT
    if -TICKS_MAX < exact < TICKS_MAX:
        return floor(exact)
    return TICKS_MAX if exact > 0 else -TICKS_MAX


def range_of(numeric: Numeric) -> tuple[int, int]:
    """The least and the greatest tick of the range, inclusive."""
    least = -TICKS_MAX if numeric.least is None else ticks(numeric.least)
    most = TICKS_MAX if numeric.most is None else ticks(numeric.most)
    return least, most


def bucket(number: int, level: int) -> int:
    """The bucket of `2**level` ticks that holds the number. Buckets of different levels have different values."""
    return number >> level << LEVEL_BITS | level


def _branch(leaves: tuple[Leaf, ...]) -> Branch:
    numeric = [(leaf.path, only) for leaf in leaves if isinstance(only := _only(leaf), Numeric)]
    if len(numeric) == 1 and None in (numeric[0][1].least, numeric[0][1].most):
        numeric = []  # the probe of a single bound finds no neighbours
    return Branch(_chosen(leaves), tuple([Range(path, *range_of(only)) for path, only in numeric]))


def _only(leaf: Leaf) -> Condition | None:
    return leaf.conditions[0] if len(leaf.conditions) == 1 else None


def _chosen(leaves: tuple[Leaf, ...]) -> tuple[Key, ...]:
    keys = [Key(leaf.path, probes) for leaf in leaves if (probes := _probes(leaf))]
    chosen: list[Key] = []
    copies = 1
    for key in sorted(keys, key=_weight):
        if not chosen or copies * len(key.probes) <= COPIES_MAX:
            chosen.append(key)
            copies *= len(key.probes)
    return tuple(chosen[:KEYS_MAX])


def _weight(key: Key) -> tuple[int, int, str]:
    """Sort selective keys first: fewer policies share them, and they make fewer copies. The path comes last, so that
    all policies agree on the order."""
    return max([_WEIGHTS[probe.kind] for probe in key.probes]), len(key.probes), key.path


def _probes(leaf: Leaf) -> tuple[Probe, ...]:
    """The probes of a leaf. None: the leaf can be met where there is no value."""
    found: dict[Probe, None] = {}
    for condition in leaf.conditions:
        probes = _condition_probes(condition)
        if not probes:
            return ()
        found.update(dict.fromkeys(probes))
    return (PRESENT,) if PRESENT in found else tuple(found)


def _condition_probes(condition: Condition) -> tuple[Probe, ...]:
    match condition:
        case Exact(literal):
            return (Probe(ProbeKind.EXACT, literal),)
        case EqualsIgnoreCase(text):
            return (Probe(ProbeKind.FOLDED, text),)
        case Prefix(text, ignore_case):
            return (_text_probe(ProbeKind.FOLDED_PREFIX if ignore_case else ProbeKind.PREFIX, text),)
        case Suffix(text, ignore_case):
            return (_text_probe(ProbeKind.FOLDED_SUFFIX if ignore_case else ProbeKind.SUFFIX, text),)
        case Wildcard(parts):
            return (_wildcard_probe(parts),)
        case Numeric():
            return _numeric_probes(condition)
        case Cidr(network):
            bits = network.max_prefixlen - network.prefixlen
            return (Probe(ProbeKind.NETWORK, (network.version, bits, int(network.network_address) >> bits), bits),)
        case Exists(wanted):
            return (PRESENT,) if wanted else ()
        case AnythingBut():
            return (PRESENT,)


def _text_probe(kind: ProbeKind, text: str) -> Probe:
    return Probe(kind, text, len(text)) if text else PRESENT


def _wildcard_probe(parts: tuple[str, ...]) -> Probe:
    """A probe by the longer of the pattern's fixed ends."""
    first, last = parts[0], parts[-1]
    return _text_probe(ProbeKind.PREFIX, first) if len(first) >= len(last) else _text_probe(ProbeKind.SUFFIX, last)


def _numeric_probes(numeric: Numeric) -> tuple[Probe, ...]:
    """A range with two ends has one or two buckets, each wider than the range."""
    least, most = range_of(numeric)
    if numeric.most is None:
        return (Probe(ProbeKind.ABOVE, least),)
    if numeric.least is None:
        return (Probe(ProbeKind.BELOW, most),)
    level = (most - least).bit_length()
    return tuple(
        [Probe(ProbeKind.RANGE, value, level) for value in sorted({bucket(least, level), bucket(most, level)})]
    )
