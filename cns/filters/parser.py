"""Parse a FilterPolicy, with AWS's checks in AWS's order and with its error texts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from cns.errors import invalid_parameter
from cns.filters.limits import (
    COMPILED_CACHE_MAX,
    DEFAULT_LIMITS,
    NESTING_MAX,
    OR_BRANCHES_MIN,
    PATH_CHARS_MAX,
    POLICY_BYTES_MAX,
)
from cns.filters.limits import FilterLimits as Limits
from cns.filters.model import AllOf, AnyOf, AnythingBut, Condition, Filter, Leaf, Scope, Wildcard
from cns.filters.parser_conditions import OPERATORS, read_conditions
from cns.filters.tokenizer import NAME, Cursor, FilterPolicyError, compact

OR = "$or"
RESERVED = OPERATORS.keys() | {
    *("exactly", "=", "<", "<=", ">", ">=", "regex", "not-wildcard", "not-equals-ignore-case"),
    *("date-after", "date-on-or-after", "date-before", "date-on-or-before", "in-date-range"),
    *("ip-address-in-range", "ip-address-not-in-range"),
}
"""Keys that AWS's rule engine refuses inside `$or`: names of operators that it has or may get."""

_TOO_COMPLEX = "Filter policy is too complex"


def read_filter(text: str, scope: Scope, prefix: str = "", limits: Limits = DEFAULT_LIMITS) -> tuple[str, Filter]:
    """Check a policy. Return the text to store, and the parsed policy. `prefix` begins the text of every error."""
    try:
        if len(text.encode(errors="surrogatepass")) > POLICY_BYTES_MAX:
            raise FilterPolicyError(f"Filter policy can not be larger than {POLICY_BYTES_MAX} bytes")
        whole = compact(text)
        reader = _FilterReader(whole)
        root = reader.read()
        if reader.nested and scope is Scope.ATTRIBUTES:
            raise invalid_parameter(
                f"{prefix}Filter policy scope MessageAttributes does not support nested filter policy"
            )
        _check(reader, root, limits)
    except FilterPolicyError as error:
        raise invalid_parameter(f"{prefix}FilterPolicy: {error}") from None
    return whole, Filter(scope, root)


@lru_cache(COMPILED_CACHE_MAX)
def compile_stored(text: str, scope: Scope) -> Filter:
    """Parse a stored text. The limits are not checked: it may have been stored under others."""
    return Filter(scope, _FilterReader(text).read())


class _FilterReader:
    """Parses a policy in one pass, and counts what the limits bound."""

    __slots__ = ("_cursor", "complexity", "keys", "nested")

    def __init__(self, text: str) -> None:
        self._cursor = Cursor(text)
        self.keys = 0
        self.complexity = 0
        self.nested = False

    def read(self) -> AllOf:
        if self._cursor.next() != "{":
            raise self._cursor.error("Filter is not an object")
        parts, self.complexity = self._object("", 1, 1)
        return AllOf(tuple(parts))

    def _object(self, path: str, depth: int, level: int) -> tuple[list[Leaf | AnyOf], int]:
        """Read an object. Return its parts and its complexity. `depth` counts nested keys, `level` all nesting."""
        if level > NESTING_MAX:
            raise FilterPolicyError(_TOO_COMPLEX)
        parts: list[Leaf | AnyOf] = []
        complexity = 1
        while self._cursor.next() == NAME:
            key = self._cursor.text()
            if key == OR:
                branches, part_complexity = self._branches(path, depth, level)
                parts.append(branches)
            else:
                if level > depth and key in RESERVED:
                    raise self._cursor.error(f"{key} is Ruler reserved fieldName which cannot be used inside {OR}.")
                leaves, part_complexity = self._value(key, path + key, depth, level)
                parts += leaves
            complexity *= part_complexity
        if not parts:
            raise self._cursor.error("Empty objects are not allowed")
        return parts, complexity

    def _value(self, key: str, path: str, depth: int, level: int) -> tuple[list[Leaf | AnyOf], int]:
        kind = self._cursor.next()
        if kind == "{":
            self.nested = True
            return self._object(f"{path}.", depth + 1, level + 1)
        if kind != "[":
            raise self._cursor.error(f'"{key}" must be an object or an array')
        conditions = read_conditions(self._cursor)
        if len(path) > PATH_CHARS_MAX:
            raise FilterPolicyError(_TOO_COMPLEX)
        self.keys += 1
        return [Leaf(path, conditions)], len(conditions) * depth

    def _branches(self, path: str, depth: int, level: int) -> tuple[AnyOf, int]:
        if self._cursor.next() != "[":
            raise self._cursor.error(f"It must be an Array followed with {OR}.")
        branches: list[AllOf] = []
        complexity = 0
        while (kind := self._cursor.next()) != "]":
            if kind != "{":
                raise self._cursor.error(f"Only JSON object is allowed in array of {OR} relationship.")
            parts, part_complexity = self._object(path, depth, level + 1)
            branches.append(AllOf(tuple(parts)))
            complexity += part_complexity
        if len(branches) < OR_BRANCHES_MIN:
            raise self._cursor.error(f"There must have at least {OR_BRANCHES_MIN} Objects in {OR} relationship.")
        return AnyOf(tuple(branches)), complexity


def _check(reader: _FilterReader, root: AllOf, limits: Limits) -> None:
    if reader.keys > limits.keys:
        raise FilterPolicyError(f"Filter policy can not have more than {limits.keys} keys")
    if reader.complexity > limits.complexity or sum(_points(root)) > limits.wildcard_points:
        raise FilterPolicyError(_TOO_COMPLEX)


def _points(group: AllOf) -> Iterator[int]:
    """The points of each wildcard pattern: 1 for one wildcard, 3 for more."""
    for part in group.parts:
        if isinstance(part, Leaf):
            yield from (1 if len(pattern.parts) == 2 else 3 for pattern in _wildcards(part.conditions))
        else:
            for branch in part.branches:
                yield from _points(branch)


def _wildcards(conditions: tuple[Condition, ...]) -> Iterator[Wildcard]:
    for condition in conditions:
        if isinstance(condition, Wildcard):
            yield condition
        elif isinstance(condition, AnythingBut):
            yield from _wildcards(condition.conditions)
