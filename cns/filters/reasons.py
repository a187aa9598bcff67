"""Explain why a notification does not meet a policy: the first unmet key, its conditions and the values found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cns.filters.evaluation import matches
from cns.filters.literals import STRING_MARK
from cns.filters.message_values import MessageValues
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
from cns.filters.parser import OR

SHOWN_MAX = 5
"""Values, or conditions, shown for one key."""
SHOWN_CHARS_MAX = 60
"""Characters shown of one of them."""


def first_unmet(policy: Filter, values: MessageValues) -> str:
    """The path of the first key that is not met, or `$or`. '' if each key is met, but not all in one array element."""
    part = _first_unmet(policy, values)
    return "" if part is None else _name(part)


def reason(policy: Filter, values: MessageValues) -> str:
    """A sentence for a person. The policy must not be met."""
    if values.no_attributes:
        return "the message has no attributes, and so it meets no policy that looks at attributes"
    part = _first_unmet(policy, values)
    if part is None:
        return "no element of an array meets all that the policy asks of it together"
    if isinstance(part, AnyOf):
        keys = ", ".join(f"`{path}`" for path in dict.fromkeys(_paths(part)))
        return f"key `{OR}`: none of its branches is met (they look at {keys})"
    found = values.by_path.get(part.path, ())
    asked = _conditions(part)
    if not found:
        return f"key `{part.path}`: it is not there; asked for is one of [{asked}]"
    subject = "value" if len(found) == 1 else "none of the values"
    verb = "matches none of" if len(found) == 1 else "matches one of"
    return f"key `{part.path}`: {subject} {_some([_literal(each) for each in found])} {verb} [{asked}]"


def asked_of(policy: Filter, key: str) -> list[str]:
    """The conditions of a key, in a text, or nothing if the policy does not have it outside of branches."""
    parts = [part for part in policy.root.parts if isinstance(part, Leaf) and part.path == key]
    return [_conditions(part) for part in parts]


def _first_unmet(policy: Filter, values: MessageValues) -> Leaf | AnyOf | None:
    for part in policy.root.parts:
        if not matches(Filter(policy.scope, AllOf((part,))), values):
            return part
    return None


def _name(part: Leaf | AnyOf) -> str:
    return part.path if isinstance(part, Leaf) else OR


def _paths(part: Leaf | AnyOf) -> Iterator[str]:
    if isinstance(part, Leaf):
        yield part.path
        return
    for branch in part.branches:
        for each in branch.parts:
            yield from _paths(each)


def _conditions(part: Leaf) -> str:
    return _some([_shown(condition) for condition in part.conditions])


def _some(texts: list[str]) -> str:
    more = len(texts) - SHOWN_MAX
    return ", ".join(texts[:SHOWN_MAX]) + (f", … {more} more" if more > 0 else "")


def _literal(literal: str) -> str:
    return _quoted(literal[1:]) if literal[0] == STRING_MARK else literal


def _quoted(text: str) -> str:
    """The text in one line, without characters that could control a terminal."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return f'"{line}"' if len(line) <= SHOWN_CHARS_MAX else f'"{line[: SHOWN_CHARS_MAX - 1]}…"'


def _shown(condition: Condition) -> str:
    return _SHOWN[type(condition)](condition)


def _numeric(condition: Numeric) -> str:
    least, most = condition.least, condition.most
    if least is not None and least == most:
        return f"= {least}"
    bounds = []
    if least is not None:
        bounds.append(f"{'>=' if condition.least_included else '>'} {least}")
    if most is not None:
        bounds.append(f"{'<=' if condition.most_included else '<'} {most}")
    return " and ".join(bounds)


def _affix(condition: Prefix | Suffix, name: str) -> str:
    return f"{name} {_quoted(condition.text)}" + (" in any case" if condition.ignore_case else "")


_SHOWN: dict[type, Callable[[Any], str]] = {
    Exact: lambda condition: _literal(condition.literal),
    Prefix: lambda condition: _affix(condition, "prefix"),
    Suffix: lambda condition: _affix(condition, "suffix"),
    EqualsIgnoreCase: lambda condition: f"{_quoted(condition.text)} in any case",
    Wildcard: lambda condition: f"wildcard {_quoted('*'.join(condition.parts))}",
    Numeric: _numeric,
    Cidr: lambda condition: f"cidr {condition.network}",
    Exists: lambda condition: f"exists {str(condition.wanted).lower()}",
    AnythingBut: lambda condition: f"anything but [{_some([_shown(each) for each in condition.conditions])}]",
}
