"""No regular expression of the service takes time that grows faster than its text: steps are counted, not timed.

Every pattern of every module is found, with the methods that its modules call it by, so that a new one is tested
without being named here. Hostile texts are made of the pattern's own characters: something repeated, before and behind
it something that keeps the match from coming to an end.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import math
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import cns
import cns_backend
import cns_cli
import cns_common
import cns_receiver
import cns_server
import cns_workers
import cqs
from cns_common.aws.policy.parser import arn_wildcard, wildcard
from tests.regex_steps import StepCounter, TooManySteps, op, parser

CHARACTERS = 96
"""About how long the repeated part of a text is, and twice that; it is repeated at least REPEATS_MIN times."""
REPEATS_MIN = 12
CONFIRMED_BY = 4
"""A finding is confirmed with a text longer by this factor: a repeat bounded at about 100 no longer grows there."""
STEPS_MAX = 200_000
"""Limit of steps on the shorter text: more than any linear pattern takes."""
GROWTH_MAX = 2.5
"""Limit of the ratio of steps when a text is twice as long."""
ATOMS_MAX, ATOMS_MAX_IN_GATE = 6, 3
"""Hostile texts are made of so many of a pattern's atoms: `make test-all` tries seven times as many texts."""
OWN_TEXT_ONLY = frozenset(
    {
        "cns_common.cassandra.schema",  # this repository's own CREATE statements
        "cns_common.events.search",  # names of files that this service wrote
        "cns_receiver.journal",  # a file that the receiver wrote
        "cns_workers.delivery.traffic.admission",  # the operator's own URL
    }
)
"""Modules whose patterns are never applied to untrusted text."""
METHODS = frozenset({"match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split"})
NEVER_MATCHED = "\x00"


class Use(NamedTuple):
    pattern: re.Pattern[Any]
    method: str


def modules() -> Iterator[ModuleType]:
    for package in (cns_common, cqs, cns, cns_backend, cns_workers, cns_server, cns_receiver, cns_cli):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name in OWN_TEXT_ONLY or "pipeline" in found.name or found.name.endswith("__main__"):
                continue  # the pipeline needs Spark, and reads what this service wrote
            yield importlib.import_module(found.name)


def called(module: ModuleType) -> Iterator[tuple[str, str]]:
    """(name, method) of each method call in a module."""
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS:
            yield node.value.id, node.attr


def uses() -> dict[str, Use]:
    """By the names of module, pattern and method. A pattern that no module calls by its name counts as called by
    the methods that its module calls of others, of a loop over patterns say; by search where there are none."""
    found: dict[str, Use] = {}
    calls: dict[re.Pattern[Any], set[str]] = defaultdict(set)
    unnamed: dict[str, set[str]] = defaultdict(set)
    owners: dict[re.Pattern[Any], str] = {}
    for module in modules():
        patterns = {name: value for name, value in vars(module).items() if isinstance(value, re.Pattern)}
        for name, pattern in patterns.items():
            owners.setdefault(pattern, f"{module.__name__}.{name}")
        for name, method in called(module):
            if name in patterns:
                calls[patterns[name]].add(method)
            else:
                unnamed[module.__name__].add(method)
    for pattern, owner in owners.items():
        for method in calls[pattern] or unnamed[owner.rpartition(".")[0]] or {"search"}:
            found[f"{owner}.{method}"] = Use(pattern, method)
    return found


USES = uses()


def atoms(items: Any) -> Iterator[str]:
    """A character of each class and literal of a pattern, and each run of literals as a whole."""
    run = ""
    for code, argument in items:
        if code is op.LITERAL:
            run += chr(argument)
            continue
        if run:
            yield run
            run = ""
        yield from inner(code, argument)
    if run:
        yield run


def inner(code: Any, argument: Any) -> Iterator[str]:
    if code is op.NOT_LITERAL:
        yield "x" if argument != ord("x") else "y"
    elif code is op.ANY:
        yield "x"
    elif code is op.IN:
        yield from members(argument)
    elif code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        yield from atoms(argument[2])
    elif code is op.SUBPATTERN:
        yield from atoms(argument[3])
    elif code is op.BRANCH:
        for branch in argument[1]:
            yield from atoms(branch)
    elif code is op.ATOMIC_GROUP:
        yield from atoms(argument)
    elif code in (op.ASSERT, op.ASSERT_NOT):
        yield from atoms(argument[1])


def members(items: Any) -> Iterator[str]:
    samples = {op.CATEGORY_DIGIT: "7", op.CATEGORY_SPACE: " ", op.CATEGORY_WORD: "w"}
    if items[0][0] is op.NEGATE:
        yield "x"
        return
    for code, argument in items:
        if code is op.LITERAL:
            yield chr(argument)
        elif code is op.RANGE:
            yield chr(argument[0])
        elif code is op.CATEGORY:
            yield samples.get(argument, "x")


def hostile(pattern: re.Pattern[Any], atoms_max: int) -> Iterator[tuple[str, str, str]]:
    """Prefixes, repeated parts and suffixes of hostile texts."""
    seen = list(dict.fromkeys(atoms(parser.parse(pattern.pattern, pattern.flags))))
    few = sorted(seen, key=len, reverse=True)[:2] + seen
    few = list(dict.fromkeys(few))[:atoms_max]
    pairs = ["".join(pair) for pair in itertools.permutations(few, 2)]
    yield from itertools.product(["", *few], [*few, *pairs], ["", NEVER_MATCHED])


def steps_of(use: Use, text: str, budget: int) -> int:
    """The steps of a match, at most `budget`."""
    counter = StepCounter(use.pattern, budget)
    try:
        counter.run(use.method, text)
    except TooManySteps:
        return budget
    return counter.steps


def growth(use: Use, parts: tuple[str, str, str], repeats: int) -> float:
    """The ratio of the steps of a text of twice the length; counting stops above `GROWTH_MAX`."""
    before, again, behind = parts
    once = steps_of(use, before + again * repeats + behind, STEPS_MAX)
    if once == STEPS_MAX:
        return math.inf
    return steps_of(use, before + again * 2 * repeats + behind, int((GROWTH_MAX + 1) * once)) / once


def faster_than_linear(use: Use, atoms_max: int = ATOMS_MAX) -> str:
    """A hostile text that takes more than linear time; '' if there is none."""
    for parts in hostile(use.pattern, atoms_max):
        repeats = max(CHARACTERS // len(parts[1]), REPEATS_MIN)
        if growth(use, parts, repeats) > GROWTH_MAX and growth(use, parts, CONFIRMED_BY * repeats) > GROWTH_MAX:
            return "{!r} + n * {!r} + {!r}".format(*parts)
    return ""


@pytest.mark.parametrize("name", sorted(USES))
def test_steps_grow_no_faster_than_the_text(name: str) -> None:
    assert faster_than_linear(USES[name], ATOMS_MAX_IN_GATE) == ""


@pytest.mark.extended
@pytest.mark.parametrize("name", sorted(USES))
def test_steps_grow_no_faster_than_many_texts(name: str) -> None:
    assert faster_than_linear(USES[name]) == ""


OF_POLICIES = ["arn:aws:sns:*:*:a*b*c", "*a*", "a?b*", "*aab*aab", "sqs:*Message*", "**"]


@pytest.mark.parametrize("text", OF_POLICIES)
def test_wildcards_of_policies_are_linear(text: str) -> None:
    """These patterns come from a policy's owner, and their texts from any caller."""
    arn = arn_wildcard((text,))
    for pattern in (wildcard((text,)), *([arn] if arn is not None else [])):
        assert faster_than_linear(Use(pattern, "fullmatch")) == ""


QUADRATIC = {
    "the scope of a credential, as it was": Use(
        re.compile(
            rb"(?:Credential=|X-Amz-Credential=)([^/%&,\s]+)(?:/|%2F)[0-9]*(?:/|%2F)([a-z0-9-]+)(?:/|%2F)([a-z]+)"
        ),
        "search",
    ),
    "a run that is searched for": Use(re.compile("a+b"), "search"),
    "two runs side by side": Use(re.compile("a*a*b"), "match"),
    "a run of runs": Use(re.compile("(?:a+)+b"), "match"),
    "alternatives that overlap": Use(re.compile("(?:aa|a)*b"), "match"),
    "strings with escapes": Use(re.compile(r'"(?:[^"\\]|\\.)*"'), "finditer"),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", QUADRATIC)
def test_what_is_not_linear_is_found(name: str) -> None:
    """The counter finds a pattern that is known to be slow."""
    assert faster_than_linear(QUADRATIC[name], ATOMS_MAX_IN_GATE)


MATCHED = ["", "ab", "aab", "xaaab", "a1b2", "  x = 1", "AB\nab", '"a\\"b" c', "..//..", "aaaa!", "k=v, k='v'"]
PATTERNS = ["a+b", "a*?b", r"\ba|b\Z", r"(?<=a)b", r"(?=a)\w+", r"(?>a*?b)", "[^a-b]+", r'"(?:[^"\\]|\\.)*"']


@pytest.mark.parametrize("text", PATTERNS)
def test_the_counter_finds_what_re_finds(text: str) -> None:
    pattern = re.compile(text)
    counter = StepCounter(pattern)
    for subject in MATCHED:
        assert counter.ends(subject) == [found.end() for found in pattern.finditer(subject)]
