"""What of a filter policy can be looked up: the keys of an index, and what must be found at them.

A policy is a disjunction of *branches*, because of `$or`; a branch is a conjunction of *keys*; a key is a path and the
*probes* one of which finds what a condition there can match. Keys may find more than the policy matches, never less: a
key that says too little (`exists: false` says nothing) is left out, and what is found is evaluated.
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
    Exact,
    Exists,
    Folded,
    Leaf,
    Numeric,
    Prefix,
    Suffix,
    Wildcard,
)

BRANCHES_MAX = 64
"""Of a policy. `$or`s that would multiply them beyond it are evaluated only; one `$or` alone adds them, and may."""
COPIES_MAX = 1024
"""Of a branch: the product of its keys' probes. Keys that would go beyond it are left out; the first never is."""
KEYS_MAX = 8
"""Of a branch: so many lookups tell policies apart, or more will not."""

TICKS_PER_UNIT = 100_000
"""Numbers are looked up in ticks, of the five decimals they have; what a tick cannot tell apart, evaluation does."""
TICKS_MAX = 1 << 60
LEVEL_BITS = 6


class Kind(StrEnum):
    """How a value is looked up."""

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
    """The size says how much of a message's value is looked up: a length, or the bits that are left out."""

    kind: Kind
    value: ProbeValue
    size: int = 0


class Key(NamedTuple):
    path: str
    probes: tuple[Probe, ...]


class Range(NamedTuple):
    """One number at the path must be in it: a probe finds neighbours too, which this tells apart cheaply."""

    path: str
    least: int
    most: int


class Branch(NamedTuple):
    keys: tuple[Key, ...]
    ranges: tuple[Range, ...]


PRESENT = Probe(Kind.PRESENT, "")

_WEIGHTS = {
    Kind.EXACT: 0,
    Kind.FOLDED: 0,
    Kind.NETWORK: 0,
    Kind.RANGE: 1,
    Kind.PREFIX: 1,
    Kind.SUFFIX: 1,
    Kind.FOLDED_PREFIX: 1,
    Kind.FOLDED_SUFFIX: 1,
    Kind.ABOVE: 2,
    Kind.BELOW: 2,
    Kind.PRESENT: 3,
}


def branches(root: AllOf) -> list[Branch]:
    """In an order that depends on the policy only."""
    return [_branch(leaves) for leaves in conjunctions(root)]


def conjunctions(root: AllOf) -> list[tuple[Leaf, ...]]:
    """A message that the policy matches meets all leaves of one of these."""
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
    """Keeps order: a number that is not less has not fewer ticks."""
    exact = float(number) * TICKS_PER_UNIT
    if -TICKS_MAX < exact < TICKS_MAX:
        return floor(exact)
    return TICKS_MAX if exact > 0 else -TICKS_MAX


def range_of(numeric: Numeric) -> tuple[int, int]:
    """In ticks, both ends included."""
    least = -TICKS_MAX if numeric.least is None else ticks(numeric.least)
    most = TICKS_MAX if numeric.most is None else ticks(numeric.most)
    return least, most


def bucket(number: int, level: int) -> int:
    """Of the buckets that are `2**level` ticks wide the one that the number is in; no two levels share one."""
    return number >> level << LEVEL_BITS | level


def _branch(leaves: tuple[Leaf, ...]) -> Branch:
    numeric = [(leaf.path, only) for leaf in leaves if isinstance(only := _only(leaf), Numeric)]
    if len(numeric) == 1 and None in (numeric[0][1].least, numeric[0][1].most):
        numeric = []  # one bound alone is found exactly
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
    """Less: fewer policies share it, fewer copies are made. The path makes policies agree on an order."""
    return max([_WEIGHTS[probe.kind] for probe in key.probes]), len(key.probes), key.path


def _probes(leaf: Leaf) -> tuple[Probe, ...]:
    """None of them: the leaf can be met by what is not there."""
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
            return (Probe(Kind.EXACT, literal),)
        case Folded(text):
            return (Probe(Kind.FOLDED, text),)
        case Prefix(text, fold):
            return (_text_probe(Kind.FOLDED_PREFIX if fold else Kind.PREFIX, text),)
        case Suffix(text, fold):
            return (_text_probe(Kind.FOLDED_SUFFIX if fold else Kind.SUFFIX, text),)
        case Wildcard(parts):
            return (_wildcard_probe(parts),)
        case Numeric():
            return _numeric_probes(condition)
        case Cidr(network):
            bits = network.max_prefixlen - network.prefixlen
            return (Probe(Kind.NETWORK, (network.version, bits, int(network.network_address) >> bits), bits),)
        case Exists(wanted):
            return (PRESENT,) if wanted else ()
        case AnythingBut():
            return (PRESENT,)


def _text_probe(kind: Kind, text: str) -> Probe:
    return Probe(kind, text, len(text)) if text else PRESENT


def _wildcard_probe(parts: tuple[str, ...]) -> Probe:
    """By the longer of its ends."""
    first, last = parts[0], parts[-1]
    return _text_probe(Kind.PREFIX, first) if len(first) >= len(last) else _text_probe(Kind.SUFFIX, last)


def _numeric_probes(numeric: Numeric) -> tuple[Probe, ...]:
    """Of a range with two ends the buckets, two at most, that are wider than it."""
    least, most = range_of(numeric)
    if numeric.most is None:
        return (Probe(Kind.ABOVE, least),)
    if numeric.least is None:
        return (Probe(Kind.BELOW, most),)
    level = (most - least).bit_length()
    return tuple([Probe(Kind.RANGE, value, level) for value in sorted({bucket(least, level), bucket(most, level)})])
