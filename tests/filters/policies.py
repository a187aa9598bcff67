"""Writes random filter policies within AWS's limits."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.filters.pools import ADDRESSES, KEYS, NETWORKS, NUMBERS, Number, string, swapped

LEAVES_MAX = 5
COMPLEXITY_MAX = 150
WILDCARDS_MAX = 3
DEPTH_MAX = 3
FEW = 0.3


def complexity(policy: dict[str, Any], depth: int = 1) -> int:
    """The product over the keys of values times depth; branches of `$or` are added."""
    total = 1
    for key, wanted in policy.items():
        if key == "$or":
            total *= sum(complexity(branch, depth) for branch in wanted)
        elif isinstance(wanted, dict):
            total *= complexity(wanted, depth + 1)
        else:
            total *= sum(_members(condition) for condition in wanted) * depth
    return total


def _members(condition: Any) -> int:
    if isinstance(condition, dict):
        [operand] = condition.values()
        return _members(operand)
    return len(condition) if isinstance(condition, list) else 1


class PolicyWriter:
    """Writes one policy. `leaves`: its paths and conditions; `operators`: the operators it has."""

    def __init__(self, random: Random, *, nested: bool) -> None:
        self._random = random
        self._nested = nested
        self._leaves_left = random.choices(range(1, LEAVES_MAX + 1), (8, 6, 4, 2, 1))[0]
        self._wildcards_left = WILDCARDS_MAX
        few = random.random() < FEW  # fewer, so that keys and operators combine more often, as they must in arrays
        self._keys = random.sample(KEYS, 3) if few else KEYS
        self._choice = ("exists", random.choice(tuple(CONDITIONS))) if few else tuple(CONDITIONS)
        self.leaves: list[tuple[str, list[Any]]] = []
        self.operators: set[str] = set()
        self.policy: dict[str, Any] = {}
        while self._leaves_left:
            self.policy = {**self._object("", 0), **self.policy}

    def _object(self, prefix: str, depth: int) -> dict[str, Any]:
        random, made = self._random, dict[str, Any]()
        for key in random.sample(self._keys, random.randint(2 if depth else 1, 3)):
            if not self._leaves_left:
                break
            chance = random.random()
            if self._leaves_left >= 2 and chance < 0.2 and "$or" not in made:
                self.operators.add("$or")
                made["$or"] = self._branches(prefix, depth)
            elif self._nested and depth < DEPTH_MAX and chance < 0.4:
                self.operators.add("nested")
                made[key] = self._object(f"{prefix}{key}.", depth + 1)
            else:
                name = key if chance < 0.9 else f"{key}.{random.choice(self._keys)}"
                made[name] = self._leaf(prefix + name)
        return made

    def _branches(self, prefix: str, depth: int) -> list[Any]:
        """At least two branches, so one leaf is reserved for the second."""
        self._leaves_left -= 1
        branches = [self._object(prefix, depth)]
        self._leaves_left += 1
        branches.append(self._object(prefix, depth))
        while self._leaves_left and self._random.random() < 0.5:
            branches.append(self._object(prefix, depth))
        return branches

    def _leaf(self, path: str) -> list[Any]:
        self._leaves_left -= 1
        conditions = [self._condition() for _ in range(self._random.choices((1, 2, 3), (6, 2, 1))[0])]
        self.leaves.append((path, conditions))
        return conditions

    def _condition(self) -> Any:
        operator = self._random.choice(self._choice)
        if operator.endswith("wildcard"):
            if not self._wildcards_left:
                operator = "exact string"
            self._wildcards_left -= 1
        self.operators.add(operator)
        return CONDITIONS[operator](self._random)


def _number(random: Random) -> Number:
    return Number(random.choice(NUMBERS))


def _beginning(random: Random) -> str:
    text = string(random) or "a"
    return text[: random.randint(1, len(text))]


def _end(random: Random) -> str:
    text = string(random) or "a"
    return text[random.randrange(len(text)) :]


def _pattern(random: Random) -> str:
    """A string with one to three asterisks inserted or replacing a character, never adjacent."""
    pieces = [each.replace("\\", "\\\\").replace("*", "\\*") for each in string(random)]
    for _ in range(random.randint(1, 3)):
        place = random.randint(0, len(pieces))
        if "*" not in pieces[max(place - 1, 0) : place + 2]:
            pieces[place : place + random.randint(0, 1)] = ["*"]
    return "".join(pieces)


def _one_or_more(make: Callable[[Random], Any]) -> Callable[[Random], Any]:
    return lambda random: random.choice((make(random), [make(random) for _ in range(random.randint(1, 3))]))


def _range(random: Random) -> list[Any]:
    low, high = sorted(random.sample(NUMBERS, 2), key=float)
    if float(low) == float(high) or random.random() < 0.6:
        return [random.choice(("=", "<", "<=", ">", ">=")), Number(low)]
    return [random.choice((">", ">=")), Number(low), random.choice(("<", "<=")), Number(high)]


CONDITIONS: dict[str, Callable[[Random], Any]] = {
    "exact string": string,
    "exact number": _number,
    "exact literal": lambda random: random.choice((True, False, None)),
    "exact address": lambda random: random.choice(ADDRESSES),
    "prefix": lambda random: {"prefix": _beginning(random)},
    "prefix ignoring case": lambda random: {"prefix": {"equals-ignore-case": swapped(random, _beginning(random))}},
    "suffix": lambda random: {"suffix": _end(random)},
    "suffix ignoring case": lambda random: {"suffix": {"equals-ignore-case": swapped(random, _end(random))}},
    "equals-ignore-case": lambda random: {"equals-ignore-case": swapped(random, string(random))},
    "wildcard": lambda random: {"wildcard": _pattern(random)},
    "numeric": lambda random: {"numeric": _range(random)},
    "exists": lambda random: {"exists": random.choice((True, False))},
    "cidr": lambda random: {"cidr": random.choice(NETWORKS)},
    "anything-but strings": lambda random: {"anything-but": _one_or_more(string)(random)},
    "anything-but numbers": lambda random: {"anything-but": _one_or_more(_number)(random)},
    "anything-but prefix": lambda random: {"anything-but": {"prefix": _one_or_more(_beginning)(random)}},
    "anything-but suffix": lambda random: {"anything-but": {"suffix": _one_or_more(_end)(random)}},
    "anything-but wildcard": lambda random: {"anything-but": {"wildcard": _one_or_more(_pattern)(random)}},
}
OPERATORS = (*CONDITIONS, "$or", "nested")
