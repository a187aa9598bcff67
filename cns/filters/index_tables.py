"""The tables of one path, one for each kind of probe: they map a message's values to the items of matching probes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Generic, TypeVar

from cns.filters.index_keys import Probe, ProbeKind, ProbeValue, Range, bucket, ticks
from cns.filters.literals import STRING_MARK, fold

T = TypeVar("T")

_NUMBER_STARTS = frozenset("-0123456789")


class PathValues:
    """The values of a message at one path, in the forms that the tables look up."""

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
    def folded_texts(self) -> list[str]:
        return [fold(text) for text in self.texts]

    @property
    def numbers(self) -> list[int]:
        if self._numbers is None:
            self._numbers = [ticks(literal) for literal in self.literals if literal[0] in _NUMBER_STARTS]
        return self._numbers

    @property
    def addresses(self) -> list[tuple[int, int]]:
        """IP version and address bits of each text that is an address."""
        if self._addresses is None:
            self._addresses = [address for text in self.texts if (address := _address(text))]
        return self._addresses


class MessageLookup:
    """A message's values by path, and what is derived from them, kept for one search."""

    __slots__ = ("_numbers", "_values", "literals")

    def __init__(self, literals: Mapping[str, Sequence[str]]) -> None:
        self.literals = literals
        self._values: dict[str, PathValues] = {}
        self._numbers: dict[str, list[int]] = {}

    def at(self, path: str) -> PathValues:
        """The values at a path that has some."""
        values = self._values.get(path)
        if values is None:
            values = self._values[path] = PathValues(self.literals[path])
        return values

    def has_numbers_in(self, ranges: Sequence[Range]) -> bool:
        """Whether the message has a number in each of the ranges."""
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


class IndexTable(Generic[T]):
    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: dict[ProbeValue, T] = {}

    def add(self, probe: Probe, item: T) -> None:
        self.items[probe.value] = item

    def drop(self, probe: Probe) -> None:
        del self.items[probe.value]

    def lookup(self, values: PathValues) -> list[T]:
        raise NotImplementedError


class SizedTable(IndexTable[T]):
    """Looks up a value cut to each probe size. The cost grows with the number of sizes, not of items."""

    __slots__ = ("sizes",)

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}  # and the number of items of that size

    def add(self, probe: Probe, item: T) -> None:
        super().add(probe, item)
        self.sizes[probe.size] = self.sizes.get(probe.size, 0) + 1

    def drop(self, probe: Probe) -> None:
        super().drop(probe)
        self.sizes[probe.size] -= 1
        if not self.sizes[probe.size]:
            del self.sizes[probe.size]


class BoundTable(IndexTable[T]):
    """Sorted bounds. A lookup returns the items of all bounds on one side of the value."""

    __slots__ = ("order",)

    def __init__(self) -> None:
        super().__init__()
        self.order: list[int] = []

    def add(self, probe: Probe, item: T) -> None:
        super().add(probe, item)
        insort(self.order, _number(probe))

    def drop(self, probe: Probe) -> None:
        super().drop(probe)
        del self.order[bisect_left(self.order, _number(probe))]


class ExactTable(IndexTable[T]):
    def lookup(self, values: PathValues) -> list[T]:
        items = self.items
        return [items[literal] for literal in values.literals if literal in items]


class FoldedTable(IndexTable[T]):
    def lookup(self, values: PathValues) -> list[T]:
        items = self.items
        return [items[text] for text in values.folded_texts if text in items]


class PresenceTable(IndexTable[T]):
    def lookup(self, values: PathValues) -> list[T]:
        return list(self.items.values())


class PrefixTable(SizedTable[T]):
    def lookup(self, values: PathValues) -> list[T]:
        items = self.items
        return [
            items[cut] for text in values.texts for n in self.sizes if (cut := text[:n]) in items and n <= len(text)
        ]


class SuffixTable(SizedTable[T]):
    def lookup(self, values: PathValues) -> list[T]:
        items = self.items
        return [
            items[cut] for text in values.texts for n in self.sizes if (cut := text[-n:]) in items and n <= len(text)
        ]


class FoldedPrefixTable(SizedTable[T]):
    def lookup(self, values: PathValues) -> list[T]:
        items = self.items
        return [
            items[cut]
            for text in values.folded_texts
            for n in self.sizes
            if (cut := text[:n]) in items and n <= len(text)
        ]


class FoldedSuffixTable(SizedTable[T]):
    def lookup(self, values: PathValues) -> list[T]:
        items = self.items
        return [
            items[cut]
            for text in values.folded_texts
            for n in self.sizes
            if (cut := text[-n:]) in items and n <= len(text)
        ]


class RangeTable(SizedTable[T]):
    def lookup(self, values: PathValues) -> list[T]:
        items = self.items
        return [items[at] for n in values.numbers for level in self.sizes if (at := bucket(n, level)) in items]


class NetworkTable(SizedTable[T]):
    def lookup(self, values: PathValues) -> list[T]:
        items = self.items
        return [
            items[network]
            for version, address in values.addresses
            for n in self.sizes
            if (network := (version, n, address >> n)) in items
        ]


class AboveTable(BoundTable[T]):
    def lookup(self, values: PathValues) -> list[T]:
        bounds = self.order[: bisect_right(self.order, max(values.numbers))] if values.numbers else ()
        return [self.items[bound] for bound in bounds]


class BelowTable(BoundTable[T]):
    def lookup(self, values: PathValues) -> list[T]:
        bounds = self.order[bisect_left(self.order, min(values.numbers)) :] if values.numbers else ()
        return [self.items[bound] for bound in bounds]


TABLES: dict[ProbeKind, type[IndexTable[Any]]] = {
    ProbeKind.EXACT: ExactTable,
    ProbeKind.FOLDED: FoldedTable,
    ProbeKind.NETWORK: NetworkTable,
    ProbeKind.RANGE: RangeTable,
    ProbeKind.PREFIX: PrefixTable,
    ProbeKind.SUFFIX: SuffixTable,
    ProbeKind.FOLDED_PREFIX: FoldedPrefixTable,
    ProbeKind.FOLDED_SUFFIX: FoldedSuffixTable,
    ProbeKind.ABOVE: AboveTable,
    ProbeKind.BELOW: BelowTable,
    ProbeKind.PRESENT: PresenceTable,
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
