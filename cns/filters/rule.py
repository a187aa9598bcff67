"""A rule: a policy and its subscriptions. The policy is evaluated once for all of them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection

from cns.filters.index_keys import Key, Range, branches
from cns.filters.model import Filter


class Rule:
    __slots__ = ("entries", "groups", "ids", "policy")

    def __init__(self, policy: Filter) -> None:
        self.policy = policy
        self.groups: tuple[str, ...] = ()
        self.ids: tuple[list[str], ...] = ()  # sorted, for each group
        self.entries: tuple[BranchEntry, ...] = ()

    def add(self, subscription_id: str, group: str) -> None:
        if group in self.groups:
            insort(self.ids[self.groups.index(group)], subscription_id)
        else:
            self.groups, self.ids = (*self.groups, group), (*self.ids, [subscription_id])

    def remove(self, subscription_id: str) -> None:
        for group, ids in zip(self.groups, self.ids, strict=True):
            index = bisect_left(ids, subscription_id)
            if ids[index : index + 1] == [subscription_id]:
                del ids[index]
                if not ids:
                    self._drop(group)
                return

    def ids_of(self, groups: Collection[str]) -> list[list[str]]:
        """The subscription ids of each of the groups."""
        return [ids for group, ids in zip(self.groups, self.ids, strict=True) if group in groups]

    def _drop(self, group: str) -> None:
        index = self.groups.index(group)
        self.groups = self.groups[:index] + self.groups[index + 1 :]
        self.ids = self.ids[:index] + self.ids[index + 1 :]


class BranchEntry:
    """A branch of a rule. Its keys are computed on each use, which is rare: to store them would cost much memory."""

    __slots__ = ("number", "ranges", "rule")

    def __init__(self, rule: Rule, number: int, ranges: tuple[Range, ...]) -> None:
        self.rule = rule
        self.number = number
        self.ranges = ranges

    @property
    def keys(self) -> tuple[Key, ...]:
        return branches(self.rule.policy.root)[self.number].keys
