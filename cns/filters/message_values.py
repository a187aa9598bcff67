"""What one notification holds for filters to look at: its attributes, or its body.

A body is flattened as AWS's rule engine flattens it: what stands under nested objects and what stands under a key with
dots are found at the same path, and only scalars are found anywhere: an object or an empty array is not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import msgspec

from cns.filters import literals
from cns.filters.limits import NESTING_MAX, PATH_CHARS_MAX
from cns.notification import Attributes

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Element(msgspec.Struct, frozen=True):
    """A part of a body in which conditions hold together: the body itself, or one member of an array.

    Members that are scalars are not elements: each of them is found at the array's own path.
    """

    values: dict[str, list[str]] = {}
    arrays: list[Array] = []


class Array(msgspec.Struct, frozen=True):
    path: str
    elements: list[Element]


class Facts(msgspec.Struct, frozen=True):
    """`values` has every literal at each path. `body` is there when some of them are in elements of arrays."""

    values: Mapping[str, tuple[str, ...]]
    body: Element | None = None


class _Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


class _Malformed(Exception):
    pass


def attribute_facts(attributes: Attributes) -> Facts | None:
    """None: a String.Array or a Number is malformed, and no filter can be asked."""
    try:
        found = {name: _attribute(data_type, text) for name, (data_type, text) in attributes.items()}
    except _Malformed:
        return None
    return Facts({name: values for name, values in found.items() if values})


def body_facts(text: str) -> Facts | None:
    """None: the body is no JSON object, and no filter matches it."""
    try:
        document = _decode(text)
    except _Malformed:
        return None
    return _flatten(document) if type(document) is dict else None


def _attribute(data_type: str, text: str) -> tuple[str, ...]:
    base = data_type.split(".", 2)
    if base[0] == "Binary":
        return ()
    if base[0] == "Number":
        return (_number_literal(text),)
    if base[1:2] == ["Array"]:
        return _array_literals(text)
    return (literals.of_string(text),)


def _number_literal(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        raise _Malformed
    return literals.of_number(text)


def _array_literals(text: str) -> tuple[str, ...]:
    """Of the members of an array, or of a scalar, which AWS matches as if it were the only member."""
    document = _decode(text)
    members = document if type(document) is list else [document]
    return tuple([_scalar_literal(value) for value in members])


def _scalar_literal(value: object) -> str:
    literal = _LITERALS.get(type(value))
    if literal is None:
        raise _Malformed
    return literal(value)


def _flatten(document: dict[str, object]) -> Facts:
    body = Element({}, [])
    values: dict[str, list[str]] = {}
    pending: list[tuple[object, str, Element, int]] = [(document, "", body, 0)]
    while pending:  # a stack of our own: a body may nest deeper than Python recurses
        value, path, element, depth = pending.pop()
        if len(path) > PATH_CHARS_MAX or depth > NESTING_MAX:
            continue
        if type(value) is dict:
            start = f"{path}." if depth else ""
            pending += [(member, start + key, element, depth + 1) for key, member in value.items()]
        elif type(value) is list:
            pending += [(member, path, part, depth + 1) for member, part in _members(value, path, element)]
        else:
            literal = _scalar_literal(value)
            values.setdefault(path, []).append(literal)
            element.values.setdefault(path, []).append(literal)
    found = {path: tuple(literals_there) for path, literals_there in values.items()}
    return Facts(found, body if body.arrays else None)


def _members(values: list[object], path: str, element: Element) -> Iterator[tuple[object, Element]]:
    """Each member of an array with the element it belongs to."""
    parts: list[Element] = []
    for value in values:
        if type(value) in _CONTAINERS:
            parts.append(Element({}, []))
            yield value, parts[-1]
        else:
            yield value, element
    if parts:
        element.arrays.append(Array(path, parts))


def _decode(text: str) -> object:
    try:
        return _JSON.decode(text)
    except (ValueError, RecursionError):
        raise _Malformed from None


def _refuse(constant: str) -> NoReturn:
    raise _Malformed  # NaN and Infinity, which Python takes for JSON


_JSON = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_refuse)
_CONTAINERS = (dict, list)
_LITERALS: dict[type, Callable[[Any], str]] = {
    str: literals.of_string,
    _Number: literals.of_number,
    bool: lambda value: literals.TRUE if value else literals.FALSE,
    type(None): lambda value: literals.NULL,
}
