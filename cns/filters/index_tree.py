"""A tree that sorts the branches of policies by their keys, so that a message visits only nodes whose keys it meets.

All branches in a node agree in the keys above it. A node holds a few branches as a list and evaluates each. When there
are more, it sorts them by their next key, by path and by kind of probe. So conjunctions are told apart, policies on
other paths cost nothing, and a branch is stored more than once (a key may have several probes) only in crowded nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cns.filters.index_keys import Key, Probe, ProbeKind
from cns.filters.index_tables import TABLES, IndexTable, MessageLookup
from cns.filters.rule import BranchEntry

UNSORTED_MAX = 4
"""Entries that a node evaluates one by one: sorting so few would cost more time and memory."""
TUPLE_MAX = 16
"""Up to this many entries are kept in a tuple, which is small (most nodes have one entry). More are kept in a set, from
which an entry is removed in constant time."""


class Node:
    __slots__ = ("entries", "tables")

    def __init__(self, entries: tuple[BranchEntry, ...] = ()) -> None:
        self.entries: Collection[BranchEntry] = entries
        self.tables: dict[str, KindTables] | None = None  # by path; None: the node was never sorted

    @property
    def is_empty(self) -> bool:
        return not self.entries and not self.tables

    def put(self, entry: BranchEntry, keys: Keys, depth: int = 0) -> None:
        """`keys[:depth]` are the keys above this node."""
        if depth < len(keys) and self.tables is not None:
            self._put_below(entry, keys, depth)
            return
        self.entries = _with(self.entries, entry)
        if depth < len(keys) and len(self.entries) > UNSORTED_MAX:
            self._sort(depth)

    def remove(self, entry: BranchEntry, keys: Keys, depth: int = 0) -> None:
        """Remove the entry and the nodes and tables that become empty. A sorted node stays sorted."""
        if depth == len(keys) or self.tables is None:
            self.entries = _without(self.entries, entry)
            return
        key = keys[depth]
        tables = self.tables[key.path]
        for probe in key.probes:
            _remove_at(tables, probe, entry, keys, depth + 1)
        if not tables:
            del self.tables[key.path]

    def lookup(self, message: MessageLookup) -> list[BranchEntry]:
        """The entries in this node and below whose keys the message meets, some more than once."""
        found: list[BranchEntry] = []
        pending: list[TreeItem] = [self]
        while pending:
            item = pending.pop()
            if isinstance(item, BranchEntry):
                found.append(item)
            else:
                found += item.entries
                if item.tables:
                    pending += _lookup_below(item.tables, message)
        return found

    def _sort(self, depth: int) -> None:
        entries, self.entries, self.tables = self.entries, (), {}
        for entry in entries:
            self.put(entry, entry.keys, depth)

    def _put_below(self, entry: BranchEntry, keys: Keys, depth: int) -> None:
        assert self.tables is not None
        key = keys[depth]
        tables = self.tables.setdefault(key.path, {})
        for probe in key.probes:
            _put_at(tables, probe, entry, keys, depth + 1)


Keys = tuple[Key, ...]
TreeItem = Node | BranchEntry  # a single entry needs no node
KindTables = dict[ProbeKind, IndexTable[TreeItem]]


def _lookup_below(by_path: Mapping[str, KindTables], message: MessageLookup) -> list[TreeItem]:
    found: list[TreeItem] = []
    for path in by_path if len(by_path) < len(message.literals) else message.literals:
        if path in by_path and path in message.literals:
            values = message.at(path)
            for table in by_path[path].values():
                items = table.lookup(values)
                found += items if values.is_single else set(items)  # two values may find the same item
    return found


def _put_at(tables: KindTables, probe: Probe, entry: BranchEntry, keys: Keys, depth: int) -> None:
    table = tables.get(probe.kind)
    if table is None:
        table = tables[probe.kind] = TABLES[probe.kind]()
    item = table.items.get(probe.value)
    if item is None:
        table.add(probe, entry)
    elif isinstance(item, BranchEntry):
        table.items[probe.value] = Node((item, entry))
    else:
        item.put(entry, keys, depth)


def _remove_at(tables: KindTables, probe: Probe, entry: BranchEntry, keys: Keys, depth: int) -> None:
    table = tables[probe.kind]
    item = table.items[probe.value]
    if isinstance(item, Node):
        item.remove(entry, keys, depth)
        if not item.is_empty:
            return
    table.drop(probe)
    if not table.items:
        del tables[probe.kind]


def _with(entries: Collection[BranchEntry], entry: BranchEntry) -> Collection[BranchEntry]:
    if isinstance(entries, set):
        entries.add(entry)
        return entries
    return (*entries, entry) if len(entries) < TUPLE_MAX else {*entries, entry}


def _without(entries: Collection[BranchEntry], entry: BranchEntry) -> Collection[BranchEntry]:
    if isinstance(entries, set):
        entries.remove(entry)
        return entries
    return tuple([other for other in entries if other is not entry])
