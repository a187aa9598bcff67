"""Parse the conditions of one key of a filter policy: values, and expressions with an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cns.filters import literals
from cns.filters.model import (
    AnythingBut,
    Cidr,
    Condition,
    EqualsIgnoreCase,
    Exact,
    Exists,
    Numeric,
    Prefix,
    Suffix,
    Wildcard,
)
from cns.filters.parser_patterns import network, number, numeric, wildcard
from cns.filters.tokenizer import FALSE, NAME, NULL, NUMBER, STRING, TRUE, Cursor

Unwanted = Exact | Prefix | Suffix | EqualsIgnoreCase | Wildcard

IGNORE_CASE = "equals-ignore-case"

ONE_KEY = "Only one key allowed in match expression"
ONE_ELEMENT = "Too many elements in numeric expression"
"""AWS uses this text for `numeric` and for `anything-but`."""

_ONE_OR_MORE = "Value of anything-but must be an array or single string/number value."


def read_conditions(cursor: Cursor) -> tuple[Condition, ...]:
    """Read the array whose opening bracket is the current token."""
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
            raise cursor.error("Match value must be String, number, true, false, or null")
    if not conditions:
        raise cursor.error("Empty arrays are not allowed")
    return tuple(conditions)


def _expression(cursor: Cursor) -> Condition:
    if cursor.next() != NAME:
        raise cursor.error("Match expression name not found")
    name = cursor.text()
    operator = OPERATORS.get(name)
    if operator is None:
        raise cursor.error(f"Unrecognized match type {name}")
    return operator(cursor)


def _prefix(cursor: Cursor) -> Prefix:
    return Prefix(*_affix(cursor, "prefix"))


def _suffix(cursor: Cursor) -> Suffix:
    return Suffix(*_affix(cursor, "suffix"))


def _affix(cursor: Cursor, name: str) -> tuple[str, bool]:
    """The text, and whether case is ignored."""
    kind = cursor.next()
    if kind == STRING:
        text = cursor.text()
        _close(cursor, ONE_KEY)
        return text, False
    if kind != "{":
        raise cursor.error(_must_be_string(name))
    if cursor.next() != NAME:
        raise cursor.error(f"{name.title()} expression name not found")
    inner = cursor.text()
    if inner != IGNORE_CASE:
        raise cursor.error(f"Unsupported {name} pattern: {inner}")
    text = _pattern(cursor, inner)
    _close(cursor, ONE_KEY)
    return literals.fold(text), True


def _equals_ignore_case(cursor: Cursor) -> EqualsIgnoreCase:
    return EqualsIgnoreCase(literals.fold(_pattern(cursor, IGNORE_CASE)))


def _wildcard(cursor: Cursor) -> Wildcard | Exact:
    if cursor.next() != STRING:
        raise cursor.error(_must_be_string("wildcard"))
    condition = wildcard(cursor, cursor.text())
    _close(cursor, ONE_KEY)
    return condition


def _exists(cursor: Cursor) -> Exists:
    kind = cursor.next()
    if kind not in (TRUE, FALSE):
        raise cursor.error("exists match pattern must be either true or false.")
    _close(cursor, ONE_KEY)
    return Exists(kind == TRUE)


def _cidr(cursor: Cursor) -> Cidr:
    if cursor.next() != STRING:
        raise cursor.error(_must_be_string("prefix"))  # the name is AWS's mistake
    condition = Cidr(network(cursor.text()))
    _close(cursor, ONE_KEY)
    return condition


def _numeric(cursor: Cursor) -> Numeric:
    if cursor.next() != "[":
        raise cursor.error("Value of numeric must be an array.")
    condition = numeric(cursor)
    _close(cursor, ONE_ELEMENT)
    return condition


def _anything_but(cursor: Cursor) -> AnythingBut:
    kind = cursor.next()
    if kind != "{":
        return AnythingBut(_unwanted(cursor, kind))
    if cursor.next() != NAME:
        raise cursor.error("Anything-But expression name not found")
    name = cursor.text()
    pattern = _PATTERNS.get(name)
    if pattern is None:
        raise cursor.error(f"Unsupported anything-but pattern: {name}")
    conditions = tuple([pattern(cursor, text) for text in _unwanted_patterns(cursor, name)])
    if not conditions:
        raise cursor.error(_ONE_OR_MORE)
    _close(cursor, ONE_ELEMENT)
    _close(cursor, ONE_ELEMENT)
    return AnythingBut(conditions)


def _unwanted(cursor: Cursor, kind: str) -> tuple[Exact, ...]:
    """One value, or a list of values: all strings or all numbers."""
    if kind in (STRING, NUMBER):
        values = [_unwanted_value(cursor, kind)]
    elif kind == "[":
        values = []
        while (kind := cursor.next()) != "]":
            values.append(_unwanted_value(cursor, kind))
        if len({value.literal[0] == literals.STRING_MARK for value in values}) != 1:
            raise cursor.error(
                "Inside anything but list, either all values are number or string, mixed type is not supported"
            )
    else:
        raise cursor.error(_ONE_OR_MORE)
    _close(cursor, ONE_ELEMENT)
    return tuple(values)


def _unwanted_value(cursor: Cursor, kind: str) -> Exact:
    if kind == STRING:
        return Exact(literals.of_string(cursor.text()))
    if kind == NUMBER:
        return Exact(literals.of_decimal(number(cursor)))
    raise cursor.error("Inside anything but list, start|null|boolean is not supported.")


def _unwanted_patterns(cursor: Cursor, name: str) -> Iterator[str]:
    kind = cursor.next()
    if kind != "[":
        yield _unwanted_pattern(cursor, kind, name)
    else:
        while (kind := cursor.next()) != "]":
            yield _unwanted_pattern(cursor, kind, name)


def _unwanted_pattern(cursor: Cursor, kind: str, name: str) -> str:
    if kind != STRING:
        raise cursor.error(_must_be_string(name))
    text = cursor.text()
    if not text and name in ("prefix", "suffix"):
        raise cursor.error("Null prefix/suffix not allowed")
    return text


def _pattern(cursor: Cursor, name: str) -> str:
    """Read an operator's string and the end of its expression."""
    if cursor.next() != STRING:
        raise cursor.error(_must_be_string(name))
    text = cursor.text()
    _close(cursor, ONE_KEY)
    return text


def _must_be_string(name: str) -> str:
    return f"{name} match pattern must be a string"


def _close(cursor: Cursor, otherwise: str) -> None:
    if cursor.next() != "}":
        raise cursor.error(otherwise)


OPERATORS: dict[str, Callable[[Cursor], Condition]] = {
    "prefix": _prefix,
    "suffix": _suffix,
    IGNORE_CASE: _equals_ignore_case,
    "wildcard": _wildcard,
    "anything-but": _anything_but,
    "numeric": _numeric,
    "exists": _exists,
    "cidr": _cidr,
}

_PATTERNS: dict[str, Callable[[Cursor, str], Unwanted]] = {
    "prefix": lambda _, text: Prefix(text),
    "suffix": lambda _, text: Suffix(text),
    IGNORE_CASE: lambda _, text: EqualsIgnoreCase(literals.fold(text)),
    "wildcard": wildcard,
}
"""The operators inside anything-but."""
