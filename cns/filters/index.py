"""The index of one topic's filter policies: finds the matching subscriptions without evaluating every policy.

A lookup may find too many policies, never too few; those found are evaluated.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import chain

from cns.filters.evaluation import matches
from cns.filters.index_keys import branches
from cns.filters.index_tables import MessageLookup
from cns.filters.index_tree import Node
from cns.filters.message_values import MessageValues
from cns.filters.model import Filter, Scope
from cns.filters.rule import BranchEntry, Rule


class Matches:
    """The ids of the subscriptions that match a notification, read page by page in sorted order.

    The lists belong to the index: a subscription that is removed between two pages is not in the second.
    """

    def __init__(self, id_lists: Sequence[Sequence[str]]) -> None:
        self._id_lists = id_lists

    def page(self, after: str = "", n: int | None = None) -> list[str]:
        """The first `n` ids (None: all) after `after`."""
        id_lists = self._id_lists
        if after or n is not None:
            starts = [bisect_right(ids, after) for ids in id_lists]
            end = sys.maxsize if n is None else n
            id_lists = [ids[start : start + end] for ids, start in zip(id_lists, starts, strict=True)]
        found = list(chain.from_iterable(id_lists))
        found.sort()
        return found[:n]

    def __or__(self, other: Matches) -> Matches:
        """Combine the results of two searches that have no subscription in common."""
        return Matches([*self._id_lists, *other._id_lists])


class FilterIndex:
    """Subscriptions are put in groups, one for each protocol: a group sees the same text of a message."""

    def __init__(self) -> None:
        self._trees = {scope: Node() for scope in Scope}
        self._rules: dict[Filter, Rule] = {}
        self._rule_of: dict[str, Rule] = {}
        self.evaluations = 0
        """Policies evaluated since the index was made."""

    def __len__(self) -> int:
        return len(self._rule_of)

    def put(self, subscription_id: str, group: str, policy: Filter) -> None:
        """Add a subscription, or change its policy."""
        self.remove(subscription_id)
        rule = self._rules.get(policy) or self._new_rule(policy)
        rule.add(subscription_id, group)
        self._rule_of[subscription_id] = rule

    def remove(self, subscription_id: str) -> None:
        """Remove a subscription, if the index has it."""
        rule = self._rule_of.pop(subscription_id, None)
        if rule is None:
            return
        rule.remove(subscription_id)
        if not rule.ids:
            self._drop_rule(rule)

    def search(self, scope: Scope, values: MessageValues, groups: Collection[str] | None = None) -> Matches:
        """Find the matching subscriptions of the groups (None: of all groups)."""
        found: list[list[str]] = []
        rules = self._candidates(scope, values)
        if groups is not None:
            rules = {rule for rule in rules if rule.ids_of(groups)}
        for rule in rules:
            if matches(rule.policy, values):
                found += rule.ids if groups is None else rule.ids_of(groups)
        self.evaluations += len(rules)
        return Matches(found)

    def find(
        self,
        scope: Scope,
        values: MessageValues,
        groups: Collection[str] | None = None,
        after: str = "",
        n: int | None = None,
    ) -> list[str]:
        return self.search(scope, values, groups).page(after, n)

    def _candidates(self, scope: Scope, values: MessageValues) -> set[Rule]:
        message = MessageLookup(values.by_path)
        found = self._trees[scope].lookup(message)
        return {entry.rule for entry in found if not entry.ranges or message.has_numbers_in(entry.ranges)}

    def _new_rule(self, policy: Filter) -> Rule:
        rule = self._rules[policy] = Rule(policy)
        found = branches(policy.root)
        rule.entries = tuple([BranchEntry(rule, number, branch.ranges) for number, branch in enumerate(found)])
        for entry, branch in zip(rule.entries, found, strict=True):
            self._trees[policy.scope].put(entry, branch.keys)
        return rule

    def _drop_rule(self, rule: Rule) -> None:
        del self._rules[rule.policy]
        for entry in rule.entries:
            self._trees[rule.policy.scope].remove(entry, entry.keys)
        rule.entries = ()  # breaks the reference cycle
