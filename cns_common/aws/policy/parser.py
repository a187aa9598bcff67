"""The texts of a policy: wildcards, policy variables, and sets of texts of which one must match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cns_common.arn import Arn

Facts = Mapping[str, str | list[str]]
"""Condition keys, in lower case, and their values."""

_VARIABLE = re.compile(r"\$\{([^}]*)(\}?)")
"""A `${` without a `}` matches the rest of the text: otherwise each of many would be scanned to the end."""
_VARIABLE_BODY = re.compile(r"\s*([^\s,']+)\s*(?:,\s*'([^']*)'\s*)?")
SHARED_MAX = 1_000
"""Cached parts that policies share: most policies name the same service and action."""
_ESCAPES = frozenset("*?$")
_ANYTHING = "."
_ANYTHING_BUT_COLON = "[^:]"


class PolicyError(ValueError):
    """The document is not a valid policy; the text says why."""


class UnresolvedVariableError(Exception):
    """The request has no single value for a policy variable. At AWS the whole statement does not apply then."""


@dataclass(frozen=True, slots=True)
class ExactText:
    """Text in which `*` and `?` stand for themselves: a variable's value, or `${*}`."""

    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    key: str
    default: str | None


Resolved = tuple[str | ExactText, ...]
"""A text without variables. In `str` pieces, which the policy wrote, `*` and `?` are wildcards."""


@dataclass(frozen=True, slots=True)
class Template:
    """One text of a policy, with its variables unresolved."""

    pieces: tuple[str | ExactText | Variable, ...]

    @property
    def constant(self) -> bool:
        return not any(isinstance(piece, Variable) for piece in self.pieces)

    def resolve(self, facts: Facts) -> Resolved:
        return tuple(_value(piece, facts) if isinstance(piece, Variable) else piece for piece in self.pieces)


def _value(variable: Variable, facts: Facts) -> ExactText:
    found = facts.get(variable.key, variable.default)
    if not isinstance(found, str):
        raise UnresolvedVariableError(variable.key)
    return ExactText(found)


def template(text: str, *, variables: bool) -> Template:
    """Parse the `${…}` of `text`, unless the policy's version or the element has no `variables`."""
    if not variables:
        return Template((text,))
    pieces: list[str | ExactText | Variable] = []
    end = 0
    for match in _VARIABLE.finditer(text):
        if not match[2]:
            break
        pieces.append(text[end : match.start()])
        pieces.append(_variable(match[1]))
        end = match.end()
    pieces.append(text[end:])
    return Template(tuple(piece for piece in pieces if piece != ""))


def _variable(body: str) -> ExactText | Variable:
    if body in _ESCAPES:
        return ExactText(body)
    match = _VARIABLE_BODY.fullmatch(body)
    if match is None:
        raise PolicyError(f"Invalid policy variable: ${{{body}}}")
    return Variable(match[1].lower(), match[2])


def plain_text(resolved: Resolved) -> str:
    """The text itself, for comparisons without wildcards."""
    return "".join(piece if isinstance(piece, str) else piece.text for piece in resolved)


def wildcard(resolved: Resolved) -> re.Pattern[str]:
    """A pattern for a whole text, in which `*` matches `:` and `/`, too."""
    return re.compile(_wildcard_regex(resolved, _ANYTHING), re.DOTALL)


def arn_wildcard(resolved: Resolved) -> re.Pattern[str] | None:
    """A pattern for an ARN, in which `*` stays within one of its six parts; None when `resolved` is not an ARN."""
    parts = _colon_parts(resolved)
    if len(parts) != len(Arn._fields) + 1:
        return None
    *heads, tail = parts
    regexes = [_wildcard_regex(head, _ANYTHING_BUT_COLON) for head in heads]
    return re.compile(":".join([*regexes, _wildcard_regex(tail, _ANYTHING)]), re.DOTALL)


def _colon_parts(resolved: Resolved) -> list[Resolved]:
    parts: list[list[str | ExactText]] = [[]]
    for piece in resolved:
        room = len(Arn._fields) + 1 - len(parts)
        first, *others = [piece] if isinstance(piece, ExactText) else piece.split(":", room)
        parts[-1].append(first)
        parts.extend([other] for other in others)
    return [tuple(part) for part in parts]


def _wildcard_regex(resolved: Resolved, any_character: str) -> str:
    """Each `*` matches as little as possible and never backtracks (an atomic group), so matching is linear per `*`."""
    segments = [""]
    for piece in resolved:
        if isinstance(piece, ExactText):
            segments[-1] += re.escape(piece.text)
            continue
        first, *others = [re.escape(text).replace(r"\?", any_character) for text in piece.split("*")]
        segments[-1] += first
        segments += others
    if len(segments) == 1:
        return segments[0]
    head, *middle, tail = segments
    return head + "".join(f"(?>{any_character}*?{segment})" for segment in middle) + f"{any_character}*{tail}"


@dataclass(frozen=True, slots=True)
class TextSet:
    """Texts of which one must match: a set of exact ones, one pattern of those with wildcards, and templates."""

    exact: frozenset[str]
    wildcards: re.Pattern[str] | None
    templates: tuple[Template, ...]

    def matches(self, text: str, facts: Facts) -> bool:
        if text in self.exact or (self.wildcards is not None and self.wildcards.fullmatch(text)):
            return True
        return any(wildcard(each.resolve(facts)).fullmatch(text) for each in self.templates)


def text_set(texts: Iterable[Template]) -> TextSet:
    exact: list[str] = []
    regexes: list[str] = []
    templates: list[Template] = []
    for each in texts:
        if not each.constant:
            templates.append(each)
        elif any(isinstance(piece, str) and ("*" in piece or "?" in piece) for piece in each.pieces):
            regexes.append(_wildcard_regex(each.resolve({}), _ANYTHING))
        else:
            exact.append(plain_text(each.resolve({})))
    joined = re.compile("|".join(regexes), re.DOTALL) if regexes else None
    return TextSet(frozenset(exact), joined, tuple(templates))


def string_list(element: object, name: str) -> Sequence[str]:
    """A policy element that is one string or a list of strings, and not empty."""
    texts = [element] if isinstance(element, str) else element
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise PolicyError(f"{name} must be a string or a list of strings")
    return texts
