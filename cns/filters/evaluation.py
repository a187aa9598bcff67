"""Evaluate a filter policy: whether a notification meets it.

Where a body has arrays of objects, all conditions on paths in one array must hold in the same element of it. The
conditions that need a value choose that element; `exists: false` is then checked against the chosen element, or against
all elements if none was chosen. AWS's rule engine tries combinations of values. Here each element computes which
conditions it can meet together, so the work grows with the size of the body, not with the number of combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from itertools import chain, product
from typing import Any

from cns.filters.literals import STRING_MARK, decimal_of, fold
from cns.filters.message_values import Array, Element, MessageValues
from cns.filters.model import (
    AllOf,
    AnyOf,
    AnythingBut,
    Cidr,
    Condition,
    EqualsIgnoreCase,
    Exact,
    Exists,
    Filter,
    Leaf,
    Numeric,
    Prefix,
    Suffix,
    Wildcard,
)

Values = Mapping[str, Sequence[str]]
ElementState = tuple[int, int]
"""Bit sets of leaves: those that are met, and those that an absent value would meet but that have a value."""

NOTHING: tuple[str, ...] = ()


def matches(policy: Filter, values: MessageValues) -> bool:
    if values.no_attributes:
        return False
    if values.body is None:
        return _all_met(policy.root, values.by_path)
    body = values.body
    return any(_met_together(leaves, values.by_path, body) for leaves in _conjunctions(policy.root.parts))


def _all_met(group: AllOf, values: Values) -> bool:
    for part in group.parts:
        if isinstance(part, Leaf):
            if not _met(part.conditions, values.get(part.path, NOTHING)):
                return False
        elif not any(_all_met(branch, values) for branch in part.branches):
            return False
    return True


def _met(conditions: Sequence[Condition], found: Sequence[str]) -> bool:
    if not found:
        return any(type(condition) is Exists and not condition.wanted for condition in conditions)
    for condition in conditions:
        if type(condition) is Exact:
            if condition.literal in found:
                return True
        else:
            meets = _MEETS[type(condition)]
            for literal in found:
                if meets(condition, literal):
                    return True
    return False


def _conjunctions(parts: Sequence[Leaf | AnyOf]) -> Iterator[tuple[Leaf, ...]]:
    """One group of leaves for each choice of branches in the `$or`s: all leaves of one group must be met.

    The limit of a policy's complexity bounds their number.
    """
    for choice in product(*map(_choices_of, parts)):
        yield tuple(chain.from_iterable(choice))


def _choices_of(part: Leaf | AnyOf) -> list[tuple[Leaf, ...]]:
    if isinstance(part, Leaf):
        return [(part,)]
    return [leaves for branch in part.branches for leaves in _conjunctions(branch.parts)]


def _met_together(leaves: Sequence[Leaf], values: Values, body: Element) -> bool:
    met_separately = True
    for leaf in leaves:
        if not _met(leaf.conditions, values.get(leaf.path, NOTHING)):
            if not _met(leaf.conditions, NOTHING):
                return False
            met_separately = False
    if all(len(_leaves_in(array, leaves)) < 2 for array in body.arrays):
        return met_separately  # no two leaves are in the same array
    return _ElementMatcher(leaves).matches(body)


def _leaves_in(array: Array, leaves: Sequence[Leaf]) -> list[Leaf]:
    below = f"{array.path}."
    return [leaf for leaf in leaves if leaf.path.startswith(below) or leaf.path == array.path]


class _ElementMatcher:
    """Matches leaves that must be met in the same elements. A set of leaves is an integer with one bit for each."""

    __slots__ = ("_absent", "_bits", "_leaves")

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._leaves = leaves
        self._bits = {leaf: 1 << index for index, leaf in enumerate(leaves)}
        self._absent = sum([bit for leaf, bit in self._bits.items() if _met(leaf.conditions, NOTHING)])

    def matches(self, body: Element) -> bool:
        every = sum(self._bits.values())
        return any(met | self._absent & ~there == every for met, there in self._states(body, self._leaves))

    def _states(self, element: Element, leaves: Sequence[Leaf]) -> set[ElementState]:
        """All states that the element can reach, over every choice of elements in its arrays."""
        met = there = 0
        for leaf in leaves:
            found = element.values.get(leaf.path)
            if found:
                there |= self._bits[leaf] & self._absent
                if _met(leaf.conditions, found):
                    met |= self._bits[leaf]
        states = {(met, there)}
        for array in element.arrays:
            inside = _leaves_in(array, leaves)
            if inside:
                choices = self._choices(array, inside)
                states = {(met | more, there | also) for met, there in states for more, also in choices}
        return states

    def _choices(self, array: Array, leaves: Sequence[Leaf]) -> set[ElementState]:
        """The states from choosing one element that meets a leaf, or none: then the values of all elements count."""
        chosen: set[ElementState] = set()
        anywhere = 0
        for element in array.elements:
            for met, there in self._states(element, leaves):
                anywhere |= there
                if met:
                    chosen.add((met, there))
        return chosen | {(0, anywhere)}


def _prefix(condition: Prefix, literal: str) -> bool:
    if literal[0] != STRING_MARK:
        return False
    if condition.ignore_case:
        return fold(literal).startswith(condition.text, 1)
    return literal.startswith(condition.text, 1)


def _suffix(condition: Suffix, literal: str) -> bool:
    if literal[0] != STRING_MARK:
        return False
    if condition.ignore_case:
        return fold(literal).endswith(condition.text, 1)
    return literal.endswith(condition.text, 1)


def _equals_ignore_case(condition: EqualsIgnoreCase, literal: str) -> bool:
    return literal[0] == STRING_MARK and fold(literal[1:]) == condition.text


def _wildcard(condition: Wildcard, literal: str) -> bool:
    """Match each part at its earliest position, and the last part at the end."""
    first, *middle, last = condition.parts
    if literal[0] != STRING_MARK or not literal.startswith(first, 1):
        return False
    position = 1 + len(first)
    for part in middle:
        start = literal.find(part, position)
        if start < 0:
            return False
        position = start + len(part)
    return literal.endswith(last, position)


def _numeric(condition: Numeric, literal: str) -> bool:
    number = decimal_of(literal)
    if number is None:
        return False
    least, most = condition.least, condition.most
    if least is not None and (number < least or (number == least and not condition.least_included)):
        return False
    return most is None or number < most or (number == most and condition.most_included)


def _cidr(condition: Cidr, literal: str) -> bool:
    if literal[0] != STRING_MARK or "%" in literal:  # an address with a zone is in no network
        return False
    try:
        return ip_address(literal[1:]) in condition.network
    except ValueError:
        return False


def _exists(condition: Exists, literal: str) -> bool:
    return condition.wanted


def _anything_but(condition: AnythingBut, literal: str) -> bool:
    return not any(_MEETS[type(each)](each, literal) for each in condition.conditions)


def _exact(condition: Exact, literal: str) -> bool:
    return condition.literal == literal


_MEETS: dict[type, Callable[[Any, str], bool]] = {
    Exact: _exact,
    Prefix: _prefix,
    Suffix: _suffix,
    EqualsIgnoreCase: _equals_ignore_case,
    Wildcard: _wildcard,
    Numeric: _numeric,
    Cidr: _cidr,
    Exists: _exists,
    AnythingBut: _anything_but,
}
"""Whether a literal meets the condition."""
