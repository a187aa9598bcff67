"""Reads the conditions of one key of a filter policy: values, and expressions that name an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cns.filters import literals
from cns.filters.model import (
    AnythingBut,
    Cidr,
    Condition,
    Exact,
    Exists,
    Folded,
    Numeric,
    Prefix,
    Suffix,
    Wildcard,
)
from cns.filters.parser_patterns import network, number, numeric, wildcard
from cns.filters.tokenizer import FALSE, NAME, NULL, NUMBER, STRING, TRUE, Cursor

Unwanted = Exact | Prefix | Suffix | Folded | Wildcard

IGNORE_CASE = "equals-ignore-case"

ONE_KEY = "Only one key allowed in match expression"
ONE_ELEMENT = "Too many elements in numeric expression"
"""AWS says so of `numeric`, and of `anything-but` too."""

_ONE_OR_MORE = "Value of anything-but must be an array or single string/number value."


def read_conditions(cursor: Cursor) -> tuple[Condition, ...]:
    """The array that has just been opened."""
    conditions: list[Condition] = []
    while (kind := cursor.next()) != "]":
        if kind == "{":
            conditions.append(_expression(cursor))
        elif kind == STRING:
            conditions.append(Exact(literals.of_string(cursor.text())))
        elif kind == NUMBER:
            conditions.append(Exact(literals.of_number(cursor.text())))
        elif kind in (TRUE, FALSE, NULL):
            conditions.append(Exact(kind))
        else:
            raise cursor.fault("Match value must be String, number, true, false, or null")
    if not conditions:
        raise cursor.fault("Empty arrays are not allowed")
    return tuple(conditions)


def _expression(cursor: Cursor) -> Condition:
    if cursor.next() != NAME:
        raise cursor.fault("Match expression name not found")
    name = cursor.text()
    operator = OPERATORS.get(name)
    if operator is None:
        raise cursor.fault(f"Unrecognized match type {name}")
    return operator(cursor)


def _prefix(cursor: Cursor) -> Prefix:
    return Prefix(*_affix(cursor, "prefix"))


def _suffix(cursor: Cursor) -> Suffix:
    return Suffix(*_affix(cursor, "suffix"))


def _affix(cursor: Cursor, name: str) -> tuple[str, bool]:
    """A pattern, and whether it is compared without regard to case."""
    kind = cursor.next()
    if kind == STRING:
        text = cursor.text()
        _close(cursor, ONE_KEY)
        return text, False
    if kind != "{":
        raise cursor.fault(_must_be_string(name))
    if cursor.next() != NAME:
        raise cursor.fault(f"{name.title()} expression name not found")
    inner = cursor.text()
    if inner != IGNORE_CASE:
        raise cursor.fault(f"Unsupported {name} pattern: {inner}")
    text = _pattern(cursor, inner)
    _close(cursor, ONE_KEY)
    return literals.fold(text), True


def _folded(cursor: Cursor) -> Folded:
    return Folded(literals.fold(_pattern(cursor, IGNORE_CASE)))


def _wildcard(cursor: Cursor) -> Wildcard | Exact:
    if cursor.next() != STRING:
        raise cursor.fault(_must_be_string("wildcard"))
    condition = wildcard(cursor, cursor.text())
    _close(cursor, ONE_KEY)
    return condition


def _exists(cursor: Cursor) -> Exists:
    kind = cursor.next()
    if kind not in (TRUE, FALSE):
        raise cursor.fault("exists match pattern must be either true or false.")
    _close(cursor, ONE_KEY)
    return Exists(kind == TRUE)


def _cidr(cursor: Cursor) -> Cidr:
    if cursor.next() != STRING:
        raise cursor.fault(_must_be_string("prefix"))  # so says AWS
    condition = Cidr(network(cursor.text()))
    _close(cursor, ONE_KEY)
    return condition


def _numeric(cursor: Cursor) -> Numeric:
    if cursor.next() != "[":
        raise cursor.fault("Value of numeric must be an array.")
    condition = numeric(cursor)
    _close(cursor, ONE_ELEMENT)
    return condition


def _anything_but(cursor: Cursor) -> AnythingBut:
    kind = cursor.next()
    if kind != "{":
        return AnythingBut(_unwanted(cursor, kind))
    if cursor.next() != NAME:
        raise cursor.fault("Anything-But expression name not found")
    name = cursor.text()
    pattern = _PATTERNS.get(name)
    if pattern is None or (name == "suffix" and not cursor.stored):  # earlier versions accepted suffix
        raise cursor.fault(f"Unsupported anything-but pattern: {name}")
    conditions = tuple([pattern(cursor, text) for text in _unwanted_patterns(cursor, name)])
    if not conditions:
        raise cursor.fault(_ONE_OR_MORE)
    _close(cursor, ONE_ELEMENT)
    _close(cursor, ONE_ELEMENT)
    return AnythingBut(conditions)


def _unwanted(cursor: Cursor, kind: str) -> tuple[Exact, ...]:
    """One value or a list of them, all strings or all numbers."""
    if kind in (STRING, NUMBER):
        values = [_unwanted_value(cursor, kind)]
    elif kind == "[":
        values = []
        while (kind := cursor.next()) != "]":
            values.append(_unwanted_value(cursor, kind))
        if len({value.literal[0] == literals.STRING_MARK for value in values}) != 1:
            raise cursor.fault(
                "Inside anything but list, either all values are number or string, mixed type is not supported"
            )
    else:
        raise cursor.fault(_ONE_OR_MORE)
    _close(cursor, ONE_ELEMENT)
    return tuple(values)


def _unwanted_value(cursor: Cursor, kind: str) -> Exact:
    if kind == STRING:
        return Exact(literals.of_string(cursor.text()))
    if kind == NUMBER:
        return Exact(literals.of_decimal(number(cursor)))
    raise cursor.fault("Inside anything but list, start|null|boolean is not supported.")


def _unwanted_patterns(cursor: Cursor, name: str) -> Iterator[str]:
    kind = cursor.next()
    if kind != "[":
        yield _unwanted_pattern(cursor, kind, name)
    else:
        while (kind := cursor.next()) != "]":
            yield _unwanted_pattern(cursor, kind, name)


def _unwanted_pattern(cursor: Cursor, kind: str, name: str) -> str:
    if kind != STRING:
        raise cursor.fault(_must_be_string(name))
    text = cursor.text()
    if not text and name in ("prefix", "suffix"):
        raise cursor.fault("Null prefix/suffix not allowed")
    return text


def _pattern(cursor: Cursor, name: str) -> str:
    """The string an operator takes, and the end of its expression."""
    if cursor.next() != STRING:
        raise cursor.fault(_must_be_string(name))
    text = cursor.text()
    _close(cursor, ONE_KEY)
    return text


def _must_be_string(name: str) -> str:
    return f"{name} match pattern must be a string"


def _close(cursor: Cursor, otherwise: str) -> None:
    if cursor.next() != "}":
        raise cursor.fault(otherwise)


OPERATORS: dict[str, Callable[[Cursor], Condition]] = {
    "prefix": _prefix,
    "suffix": _suffix,
    IGNORE_CASE: _folded,
    "wildcard": _wildcard,
    "anything-but": _anything_but,
    "numeric": _numeric,
    "exists": _exists,
    "cidr": _cidr,
}

_PATTERNS: dict[str, Callable[[Cursor, str], Unwanted]] = {
    "prefix": lambda _, text: Prefix(text),
    "suffix": lambda _, text: Suffix(text),
    IGNORE_CASE: lambda _, text: Folded(literals.fold(text)),
    "wildcard": wildcard,
}
"""What anything-but takes beside values."""
