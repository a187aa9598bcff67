"""The values of one notification that filters look at, from its attributes or from its body.

A body is flattened as AWS's rule engine does it: a value in nested objects and a value under a key with dots are at the
same path. Only scalars are values: there is none at the path of an object or of an empty array.
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
from cns_common.errors import UNREADABLE

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Element(msgspec.Struct, frozen=True):
    """A part of a body in which conditions must hold together: the body itself, or one member of an array.

    Members that are scalars are not elements: they are values at the array's own path.
    """

    values: dict[str, list[str]] = {}
    arrays: list[Array] = []


class Array(msgspec.Struct, frozen=True):
    path: str
    elements: list[Element]


class MessageValues(msgspec.Struct, frozen=True):
    """`by_path` has all literals at each path. `body` is set when some of them are in elements of arrays."""

    by_path: Mapping[str, tuple[str, ...]]
    body: Element | None = None
    no_attributes: bool = False
    """The message has no attribute at all: it meets no policy on attributes, not even `exists: false`."""


class _Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


class _MalformedValue(Exception):
    pass


def attribute_values(attributes: Attributes) -> MessageValues | None:
    """The values of attributes. None if a String.Array or a Number is malformed: then no filter can be evaluated."""
    try:
        found = {name: _attribute(data_type, text) for name, (data_type, text) in attributes.items()}
    except _MalformedValue:
        return None
    return MessageValues({name: values for name, values in found.items() if values}, no_attributes=not attributes)


def body_values(text: str) -> MessageValues | None:
    """The values of a body. None if it is no JSON object: then no filter matches it."""
    try:
        document = _decode(text)
    except _MalformedValue:
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
        raise _MalformedValue
    return literals.of_number(text)


def _array_literals(text: str) -> tuple[str, ...]:
    """The literals of an array's members. AWS takes a scalar as an array of one member."""
    document = _decode(text)
    members = document if type(document) is list else [document]
    return tuple([_scalar_literal(value) for value in members])


def _scalar_literal(value: object) -> str:
    literal = _LITERALS.get(type(value))
    if literal is None:
        raise _MalformedValue
    return literal(value)


def _flatten(document: dict[str, object]) -> MessageValues:
    body = Element({}, [])
    values: dict[str, list[str]] = {}
    pending: list[tuple[object, str, Element, int]] = [(document, "", body, 0)]
    while pending:  # no recursion: a body may be nested deeper than Python allows
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
    return MessageValues(found, body if body.arrays else None)


def _members(values: list[object], path: str, element: Element) -> Iterator[tuple[object, Element]]:
    """The members of an array, each with the element to which its values belong."""
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
    except UNREADABLE:
        raise _MalformedValue from None


def _refuse(constant: str) -> NoReturn:
    raise _MalformedValue  # NaN and Infinity, which Python's parser accepts


_JSON = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_refuse)
_CONTAINERS = (dict, list)
_LITERALS: dict[type, Callable[[Any], str]] = {
    str: literals.of_string,
    _Number: literals.of_number,
    bool: lambda value: literals.TRUE if value else literals.FALSE,
    type(None): lambda value: literals.NULL,
}
