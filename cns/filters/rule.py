"""A rule: a policy, and the subscriptions that have it. It is evaluated once for all of them."""

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
        self.ids: tuple[list[str], ...] = ()  # of each group, in order
        self.entries: tuple[Entry, ...] = ()

    def add(self, subscription_id: str, group: str) -> None:
        if group in self.groups:
            insort(self.ids[self.groups.index(group)], subscription_id)
        else:
            self.groups, self.ids = (*self.groups, group), (*self.ids, [subscription_id])

    def remove(self, subscription_id: str) -> None:
        for group, ids in zip(self.groups, self.ids, strict=True):
            place = bisect_left(ids, subscription_id)
            if ids[place : place + 1] == [subscription_id]:
                del ids[place]
                if not ids:
                    self._drop(group)
                return

    def of(self, groups: Collection[str]) -> list[list[str]]:
        """The ids in those groups."""
        return [ids for group, ids in zip(self.groups, self.ids, strict=True) if group in groups]

    def _drop(self, group: str) -> None:
        place = self.groups.index(group)
        self.groups = self.groups[:place] + self.groups[place + 1 :]
        self.ids = self.ids[:place] + self.ids[place + 1 :]


class Entry:
    """A branch of a rule. Its keys are worked out again when they are asked for, seldom: they would fill the memory."""

    __slots__ = ("number", "ranges", "rule")

    def __init__(self, rule: Rule, number: int, ranges: tuple[Range, ...]) -> None:
        self.rule = rule
        self.number = number
        self.ranges = ranges

    @property
    def keys(self) -> tuple[Key, ...]:
        return branches(self.rule.policy.root)[self.number].keys
