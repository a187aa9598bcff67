"""A tree that sorts the branches of policies by what they ask: a message goes down only where it has what is asked for.

A node has the branches that agree in all keys above it. A few of them lie there together and are each looked at; more
are sorted by their next key, path by path and kind by kind. So conjunctions are told apart, policies on other paths
cost nothing, and a branch is copied (of several values one is enough) only where others crowd it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cns.filters.index_keys import Key, Kind, Probe
from cns.filters.index_tables import TABLES, Message, Table
from cns.filters.rule import Entry

CROWD = 4
"""Entries that are looked at one by one: to sort so few would cost more, in time and in memory."""
TUPLE_MAX = 16
"""Entries kept in a tuple, which is small, as most nodes have one; of more, each is taken out at no greater cost."""


class Node:
    __slots__ = ("entries", "fans")

    def __init__(self, entries: tuple[Entry, ...] = ()) -> None:
        self.entries: Collection[Entry] = entries
        self.fans: dict[str, Fan] | None = None  # by path; None: it was never crowded

    @property
    def is_empty(self) -> bool:
        return not self.entries and not self.fans

    def put(self, entry: Entry, keys: Keys, depth: int = 0) -> None:
        """Those of its keys that are not above this node begin at `depth`."""
        if depth < len(keys) and self.fans is not None:
            self._put_below(entry, keys, depth)
            return
        self.entries = _with(self.entries, entry)
        if depth < len(keys) and len(self.entries) > CROWD:
            self._sort(depth)

    def remove(self, entry: Entry, keys: Keys, depth: int = 0) -> None:
        """What becomes empty goes, too; what was sorted stays so."""
        if depth == len(keys) or self.fans is None:
            self.entries = _without(self.entries, entry)
            return
        key = keys[depth]
        fan = self.fans[key.path]
        for probe in key.probes:
            _remove_at(fan, probe, entry, keys, depth + 1)
        if not fan:
            del self.fans[key.path]

    def reached(self, message: Message) -> list[Entry]:
        """Those in this node and below whose keys are met, some more than once."""
        found: list[Entry] = []
        pending: list[Place] = [self]
        while pending:
            place = pending.pop()
            if isinstance(place, Entry):
                found.append(place)
            else:
                found += place.entries
                if place.fans:
                    pending += _below(place.fans, message)
        return found

    def _sort(self, depth: int) -> None:
        crowd, self.entries, self.fans = self.entries, (), {}
        for entry in crowd:
            self.put(entry, entry.keys, depth)

    def _put_below(self, entry: Entry, keys: Keys, depth: int) -> None:
        assert self.fans is not None
        key = keys[depth]
        fan = self.fans.setdefault(key.path, {})
        for probe in key.probes:
            _put_at(fan, probe, entry, keys, depth + 1)


Keys = tuple[Key, ...]
Place = Node | Entry  # an entry that is alone needs no node
Fan = dict[Kind, Table[Place]]


def _below(fans: Mapping[str, Fan], message: Message) -> list[Place]:
    found: list[Place] = []
    for path in fans if len(fans) < len(message.literals) else message.literals:
        if path in fans and path in message.literals:
            values = message.at(path)
            for table in fans[path].values():
                reached = table.reached(values)
                found += reached if values.is_single else set(reached)  # several values may meet in one place
    return found


def _put_at(fan: Fan, probe: Probe, entry: Entry, keys: Keys, depth: int) -> None:
    table = fan.get(probe.kind)
    if table is None:
        table = fan[probe.kind] = TABLES[probe.kind]()
    place = table.places.get(probe.value)
    if place is None:
        table.add(probe, entry)
    elif isinstance(place, Entry):
        table.places[probe.value] = Node((place, entry))
    else:
        place.put(entry, keys, depth)


def _remove_at(fan: Fan, probe: Probe, entry: Entry, keys: Keys, depth: int) -> None:
    table = fan[probe.kind]
    place = table.places[probe.value]
    if isinstance(place, Node):
        place.remove(entry, keys, depth)
        if not place.is_empty:
            return
    table.drop(probe)
    if not table.places:
        del fan[probe.kind]


def _with(entries: Collection[Entry], entry: Entry) -> Collection[Entry]:
    if isinstance(entries, set):
        entries.add(entry)
        return entries
    return (*entries, entry) if len(entries) < TUPLE_MAX else {*entries, entry}


def _without(entries: Collection[Entry], entry: Entry) -> Collection[Entry]:
    if isinstance(entries, set):
        entries.remove(entry)
        return entries
    return tuple([other for other in entries if other is not entry])
