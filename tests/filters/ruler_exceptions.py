"""The kinds of pairs on which AWS's open rule engine differs from SNS, each with its reason.

For every other generated pair of the scope MessageBody, the engine and the service must agree.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from ipaddress import ip_address, ip_network
from itertools import permutations
from typing import Any

from tests.filters.naive import Scalar, cut, parsed, scalars_in, ways
from tests.filters.pair_generator import Case

NO_OBJECT = "no object"
"""The engine throws; SNS does not deliver."""


class Pair:
    """A parsed case: the keys of each branch of `$or`, and the scalars of the body."""

    def __init__(self, case: Case) -> None:
        self.ways = list(ways(parsed(case.policy)))
        self.keys = [key for way in self.ways for key in way]
        self.conditions = [each for _, conditions in self.keys for each in conditions]
        self.scalars: list[Scalar] = scalars_in(parsed(case.body))
        self.numbers = _numbers(case.policy) | _numbers(case.body)
        self.strings = [each.value for each in self.scalars if isinstance(each.value, str)]

    def operands(self, operator: str) -> Iterator[Any]:
        """All operands of an operator, including each within anything-but."""
        for each in self.conditions:
            if isinstance(each, dict):
                [(outer, operand)] = each.items()
                if outer == "anything-but" and isinstance(operand, dict):
                    [(outer, operand)] = operand.items()
                if outer == operator:
                    yield from operand if isinstance(operand, list) else [operand]


def why_not(case: Case) -> str | None:
    """The kind of exception, or None if the engine must agree."""
    if not is_object(case.body):
        return NO_OBJECT
    pair = Pair(case)
    return next((kind for kind, holds in KINDS.items() if holds(pair)), None)


def is_object(body: str) -> bool:
    try:
        return isinstance(parsed(body), dict)
    except ValueError:
        return False


def _key_twice(pair: Pair) -> bool:
    """Beside `$or` and in it, or nested and dotted: the engine keeps the last one, SNS documents that all must hold."""
    return any(len({path for path, _ in way}) < len(way) for way in pair.ways)


def _absent_before_chosen(pair: Pair) -> bool:
    """The engine chooses members of arrays key by key, and `exists: false` knows only what was chosen before it."""
    in_arrays = {each.path for each in pair.scalars if each.places}
    return any(
        {"exists": False} in conditions and path in in_arrays and any(path < other for other, _ in way)
        for way in pair.ways
        for path, conditions in way
    )


def _around_an_array(pair: Pair) -> bool:
    """A bug of the engine: once inside an array, it misses values at a key's path outside that array."""
    within: dict[str, list[set[object]]] = defaultdict(list)
    for each in pair.scalars:
        within[each.path].append(set(each.places))
    return any(
        set.union(*within[path]) & set.union(*within[other]) - set.intersection(*within[path])
        for way in pair.ways
        for path, other in permutations([path for path, _ in way if path in within], 2)
    )


def _other_family(pair: Pair) -> bool:
    """The engine compares addresses as texts of digits: it finds 10.0.0.5 in `::/0`, and takes ::1 for 0.0.0.0."""
    versions = {ip_network(each, strict=False).version for each in pair.operands("cidr")}
    exact = _addresses(each for each in pair.conditions if isinstance(each, str))
    return any(
        versions - {address.version}
        or any(one.version != address.version and address.packed.startswith(one.packed) for one in exact)
        for address in _addresses(pair.strings)
    )


def _other_spelling(pair: Pair) -> bool:
    """An exact string that is an address matches all spellings of it; to SNS it is a string."""
    wanted = [each for each in pair.conditions if isinstance(each, str)]
    together = {*wanted, *pair.strings}
    return len(set(_addresses(together))) < len(_addresses(together))


def _quotation_mark(pair: Pair) -> bool:
    """The engine sees a string with its quotation marks, so that the prefix `a"` matches `a`."""
    prefixes, suffixes = (list(pair.operands(each)) for each in ("prefix", "suffix"))
    return any(_text(each).endswith('"') for each in prefixes) or any(_text(each).startswith('"') for each in suffixes)


def _folding(pair: Pair) -> bool:
    """Letters with more than two forms: the engine knows only the upper and lower form of the policy's letter."""
    ignoring = [each for operator in ("prefix", "suffix") for each in pair.operands(operator) if isinstance(each, dict)]
    folded = [*map(_text, ignoring), *pair.operands("equals-ignore-case")]
    return bool(folded) and any(each.casefold() != each.lower() for each in "".join([*folded, *pair.strings]))


def _number_in_network(pair: Pair) -> bool:
    """The engine also matches numbers whose text is between the first and the last address."""
    paths = {path for path, conditions in pair.keys for each in conditions if "cidr" in str(each)}
    return any(each.path in paths and isinstance(each.value, Decimal) for each in pair.scalars)


def _more_decimals(pair: Pair) -> bool:
    """The engine compares more decimals than the five that SNS documents."""
    return len({cut(each) for each in pair.numbers}) < len(pair.numbers)


def _not_a_double(pair: Pair) -> bool:
    """The engine compares doubles; other numbers it compares as text."""
    numbers = (each.value for each in pair.scalars if isinstance(each.value, Decimal))
    return any(Decimal(repr(float(each))) != each for each in numbers)


KINDS: Mapping[str, Callable[[Pair], bool]] = {
    "a key twice": _key_twice,
    "absent before chosen": _absent_before_chosen,
    "around an array": _around_an_array,
    "address of another family": _other_family,
    "another spelling of an address": _other_spelling,
    "a quotation mark at the end": _quotation_mark,
    "letters of many forms": _folding,
    "a number and a network": _number_in_network,
    "more than five decimals": _more_decimals,
    "a number that is no double": _not_a_double,
}


def _addresses(texts: Iterable[str]) -> list[Any]:
    found = []
    for text in texts:
        try:
            found.append(ip_address(text))
        except ValueError:
            continue
    return found


def _numbers(text: str) -> set[Decimal]:
    """All numbers of a JSON text, as spelled."""
    found: set[Decimal] = set()

    def note(spelling: str) -> None:
        found.add(Decimal(spelling))

    json.loads(text, parse_int=note, parse_float=note)
    return found


def _text(operand: Any) -> str:
    return str(operand["equals-ignore-case"] if isinstance(operand, dict) else operand)
