"""The tables of one path, one for each kind of probe: what a message's values there find in it, and at what cost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Generic, TypeVar

from cns.filters.index_keys import Kind, Probe, ProbeValue, Range, bucket, ticks
from cns.filters.literals import STRING_MARK, fold

T = TypeVar("T")

_NUMBER_STARTS = frozenset("-0123456789")


class Values:
    """Of a message, at one path."""

    __slots__ = ("_addresses", "_numbers", "is_single", "literals")

    def __init__(self, literals: Sequence[str]) -> None:
        self.is_single = len(literals) == 1
        self.literals = literals if self.is_single else list(dict.fromkeys(literals))
        self._numbers: list[int] | None = None
        self._addresses: list[tuple[int, int]] | None = None

    @property
    def texts(self) -> list[str]:
        return [literal[1:] for literal in self.literals if literal[0] == STRING_MARK]

    @property
    def folded(self) -> list[str]:
        return [fold(text) for text in self.texts]

    @property
    def numbers(self) -> list[int]:
        if self._numbers is None:
            self._numbers = [ticks(literal) for literal in self.literals if literal[0] in _NUMBER_STARTS]
        return self._numbers

    @property
    def addresses(self) -> list[tuple[int, int]]:
        """Version and bits of each."""
        if self._addresses is None:
            self._addresses = [address for text in self.texts if (address := _address(text))]
        return self._addresses


class Message:
    """What it holds at each path, and what is worked out of that for the length of one search."""

    __slots__ = ("_numbers", "_values", "literals")

    def __init__(self, literals: Mapping[str, Sequence[str]]) -> None:
        self.literals = literals
        self._values: dict[str, Values] = {}
        self._numbers: dict[str, list[int]] = {}

    def at(self, path: str) -> Values:
        """There must be some."""
        values = self._values.get(path)
        if values is None:
            values = self._values[path] = Values(self.literals[path])
        return values

    def is_in(self, ranges: Sequence[Range]) -> bool:
        for path, least, most in ranges:
            for number in self._numbers.get(path) or self._numbers_at(path):
                if least <= number <= most:
                    break
            else:
                return False
        return True

    def _numbers_at(self, path: str) -> list[int]:
        found = self._numbers[path] = self.at(path).numbers if path in self.literals else []
        return found


class Table(Generic[T]):
    __slots__ = ("places",)

    def __init__(self) -> None:
        self.places: dict[ProbeValue, T] = {}

    def add(self, probe: Probe, place: T) -> None:
        self.places[probe.value] = place

    def drop(self, probe: Probe) -> None:
        del self.places[probe.value]

    def reached(self, values: Values) -> list[T]:
        raise NotImplementedError


class Sized(Table[T]):
    """A value is cut to each of the sizes and looked up: what it costs is their number, not that of the places."""

    __slots__ = ("sizes",)

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}  # and how many places have it

    def add(self, probe: Probe, place: T) -> None:
        super().add(probe, place)
        self.sizes[probe.size] = self.sizes.get(probe.size, 0) + 1

    def drop(self, probe: Probe) -> None:
        super().drop(probe)
        self.sizes[probe.size] -= 1
        if not self.sizes[probe.size]:
            del self.sizes[probe.size]


class Bounds(Table[T]):
    """Numbers in order. All on one side of a value are reached, each for itself."""

    __slots__ = ("order",)

    def __init__(self) -> None:
        super().__init__()
        self.order: list[int] = []

    def add(self, probe: Probe, place: T) -> None:
        super().add(probe, place)
        insort(self.order, _number(probe))

    def drop(self, probe: Probe) -> None:
        super().drop(probe)
        del self.order[bisect_left(self.order, _number(probe))]


class Exact(Table[T]):
    def reached(self, values: Values) -> list[T]:
        places = self.places
        return [places[literal] for literal in values.literals if literal in places]


class Folded(Table[T]):
    def reached(self, values: Values) -> list[T]:
        places = self.places
        return [places[text] for text in values.folded if text in places]


class Present(Table[T]):
    def reached(self, values: Values) -> list[T]:
        return list(self.places.values())


class Prefixes(Sized[T]):
    def reached(self, values: Values) -> list[T]:
        places = self.places
        return [
            places[cut] for text in values.texts for n in self.sizes if (cut := text[:n]) in places and n <= len(text)
        ]


class Suffixes(Sized[T]):
    def reached(self, values: Values) -> list[T]:
        places = self.places
        return [
            places[cut] for text in values.texts for n in self.sizes if (cut := text[-n:]) in places and n <= len(text)
        ]


class FoldedPrefixes(Sized[T]):
    def reached(self, values: Values) -> list[T]:
        places = self.places
        return [
            places[cut] for text in values.folded for n in self.sizes if (cut := text[:n]) in places and n <= len(text)
        ]


class FoldedSuffixes(Sized[T]):
    def reached(self, values: Values) -> list[T]:
        places = self.places
        return [
            places[cut] for text in values.folded for n in self.sizes if (cut := text[-n:]) in places and n <= len(text)
        ]


class Ranges(Sized[T]):
    def reached(self, values: Values) -> list[T]:
        places = self.places
        return [places[at] for n in values.numbers for level in self.sizes if (at := bucket(n, level)) in places]


class Networks(Sized[T]):
    def reached(self, values: Values) -> list[T]:
        places = self.places
        return [
            places[network]
            for version, address in values.addresses
            for n in self.sizes
            if (network := (version, n, address >> n)) in places
        ]


class Above(Bounds[T]):
    def reached(self, values: Values) -> list[T]:
        bounds = self.order[: bisect_right(self.order, max(values.numbers))] if values.numbers else ()
        return [self.places[bound] for bound in bounds]


class Below(Bounds[T]):
    def reached(self, values: Values) -> list[T]:
        bounds = self.order[bisect_left(self.order, min(values.numbers)) :] if values.numbers else ()
        return [self.places[bound] for bound in bounds]


TABLES: dict[Kind, type[Table[Any]]] = {
    Kind.EXACT: Exact,
    Kind.FOLDED: Folded,
    Kind.NETWORK: Networks,
    Kind.RANGE: Ranges,
    Kind.PREFIX: Prefixes,
    Kind.SUFFIX: Suffixes,
    Kind.FOLDED_PREFIX: FoldedPrefixes,
    Kind.FOLDED_SUFFIX: FoldedSuffixes,
    Kind.ABOVE: Above,
    Kind.BELOW: Below,
    Kind.PRESENT: Present,
}


def _number(probe: Probe) -> int:
    assert isinstance(probe.value, int)
    return probe.value


def _address(text: str) -> tuple[int, int] | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return address.version, int(address)
