"""Evaluates a filter policy on a message as slowly and plainly as the documentation describes it.

This is the oracle for `cns.filters` and shares no code with it: it walks policy and message as JSON for each pair. It
tries every branch of `$or`, and for it every choice of one scalar per key that meets the key's conditions. The scalars
of a choice must not be in different members of one array. If a key must be absent, no scalar at its path may be
compatible with the chosen ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from ipaddress import ip_address, ip_network
from itertools import combinations, product
from typing import Any

Route = tuple[str | int, ...]
JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Malformed(Exception):
    """An attribute's value does not fit its type: the filtered delivery fails."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value, its path of keys joined by dots, and its index in each array around it."""

    path: str
    value: Any
    places: Mapping[Route, int]

    def joins(self, other: Scalar) -> bool:
        return all(other.places.get(array, index) == index for array, index in self.places.items())


def parsed(text: str) -> Any:
    """JSON with all numbers as decimals, cut to five places."""
    return json.loads(
        text, parse_int=Decimal, parse_float=lambda spelling: cut(Decimal(spelling)), parse_constant=_refuse
    )


def cut(number: Decimal) -> Decimal:
    """Round down to five decimals."""
    enough = Context(prec=1_000)
    return enough.scaleb(enough.scaleb(number, 5).to_integral_value(ROUND_FLOOR), -5)


def attributes_pass(policy: str, attributes: Mapping[str, tuple[str, str]]) -> bool:
    """`attributes`: name → (type, value), as in a message."""
    scalars = [Scalar(name, value, {}) for name, typed in attributes.items() for value in _values(*typed)]
    return bool(attributes) and _passes(policy, scalars)


def body_passes(policy: str, body: str) -> bool:
    try:
        message = parsed(body)
    except ValueError:
        return False
    return isinstance(message, dict) and _passes(policy, scalars_in(message))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _values(data_type: str, text: str) -> list[Any]:
    base = data_type.split(".")
    if base[0] == "Binary":
        return []
    if base[0] == "Number":
        if not JSON_NUMBER.fullmatch(text):
            raise Malformed(text)
        return [cut(Decimal(text))]
    if base[:2] == ["String", "Array"]:
        try:
            values = parsed(text)
        except ValueError:
            raise Malformed(text) from None
        values = values if isinstance(values, list) else [values]
        if any(isinstance(each, dict | list) for each in values):
            raise Malformed(text)
        return values
    return [text]


def scalars_in(message: Any) -> list[Scalar]:
    return list(_scalars(message, (), {}))


def _scalars(value: Any, route: Route, places: Mapping[Route, int]) -> Iterator[Scalar]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _scalars(member, (*route, key), places)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            inside = {**places, route: index} if isinstance(member, dict | list) else places
            yield from _scalars(member, (*route, index), inside)
    else:
        yield Scalar(".".join(key for key in route if isinstance(key, str)), value, places)


def _passes(policy: str, scalars: list[Scalar]) -> bool:
    return any(
        _hold_together(chosen, [path for (path, _), each in zip(keys, chosen, strict=True) if each is None], scalars)
        for keys in ways(parsed(policy))
        for chosen in product(*(list(_choices(path, conditions, scalars)) for path, conditions in keys))
    )


def ways(policy: Mapping[str, Any], prefix: str = "") -> Iterator[list[tuple[str, list[Any]]]]:
    """For every branch of `$or`: the paths and conditions that must all be met."""
    parts: list[list[list[tuple[str, list[Any]]]]] = []
    for key, wanted in policy.items():
        if key == "$or":
            parts.append([way for branch in wanted for way in ways(branch, prefix)])
        elif isinstance(wanted, dict):
            parts.append(list(ways(wanted, f"{prefix}{key}.")))
        else:
            parts.append([[(prefix + key, wanted)]])
    for chosen in product(*parts):
        yield [leaf for way in chosen for leaf in way]


def _choices(path: str, conditions: list[Any], scalars: list[Scalar]) -> Iterator[Scalar | None]:
    """Scalars that meet one of the conditions; None stands for an absent value."""
    if {"exists": False} in conditions:
        yield None
    for scalar in scalars:
        if scalar.path == path and any(_meets(condition, scalar.value) for condition in conditions):
            yield scalar


def _hold_together(chosen: tuple[Scalar | None, ...], absent: list[str], scalars: list[Scalar]) -> bool:
    taken = [each for each in chosen if each is not None]
    if not all(one.joins(other) for one, other in combinations(taken, 2)):
        return False
    return not any(scalar.path in absent and all(scalar.joins(each) for each in taken) for scalar in scalars)


def _meets(condition: Any, value: Any) -> bool:
    if not isinstance(condition, dict):
        return _same(condition, value)
    [(operator, operand)] = condition.items()
    if operator == "exists":
        return bool(operand)
    if operator == "anything-but":
        return not _excluded(operand, value)
    return _compares(operator, operand, value)


def _excluded(operand: Any, value: Any) -> bool:
    if isinstance(operand, dict):
        [(operator, texts)] = operand.items()
        return any(_compares(operator, text, value) for text in _listed(texts))
    return any(_same(each, value) for each in _listed(operand))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _compares(operator: str, operand: Any, value: Any) -> bool:
    if operator == "numeric":
        return isinstance(value, Decimal) and _in_range(operand, value)
    if not isinstance(value, str):
        return False
    if isinstance(operand, dict):
        operand, value = str(operand["equals-ignore-case"]).casefold(), str(value).casefold()
    if operator == "prefix":
        return str(value).startswith(str(operand))
    if operator == "suffix":
        return str(value).endswith(str(operand))
    if operator == "equals-ignore-case":
        return str(value).casefold() == str(operand).casefold()
    if operator == "wildcard":
        return _wild(operand, value)
    assert operator == "cidr", operator
    return _inside(operand, value)


def _in_range(terms: list[Any], value: Decimal) -> bool:
    while terms:
        sign, bound, *terms = terms
        if not {
            "=": value == bound,
            "<": value < bound,
            "<=": value <= bound,
            ">": value > bound,
            ">=": value >= bound,
        }[sign]:
            return False
    return True


def _wild(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(_wild(pattern[1:], text[start:]) for start in range(len(text) + 1))
    rest = pattern[1:]
    wanted = pattern[0]
    if wanted == "\\":
        wanted, rest = rest[0], rest[1:]
    return text[:1] == wanted and _wild(rest, text[1:])


def _inside(cidr: str, text: str) -> bool:
    try:
        return ip_address(text) in ip_network(cidr, strict=False)
    except ValueError:
        return False
