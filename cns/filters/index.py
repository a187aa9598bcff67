"""The filter policies of one topic, in memory: a notification finds its subscriptions without asking all of them.

What a lookup finds is evaluated: it finds too much at times, and never too little.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import chain

from cns.filters.evaluation import matches
from cns.filters.index_keys import branches
from cns.filters.index_tables import Message
from cns.filters.index_tree import Node
from cns.filters.message_values import Facts
from cns.filters.model import Filter, Scope
from cns.filters.rule import Entry, Rule


class Matches:
    """Subscriptions that get a notification, in the order of their ids, found once and read page by page.

    Whoever unsubscribes between two pages is not in the second.
    """

    def __init__(self, audiences: Sequence[Sequence[str]]) -> None:
        self._audiences = audiences

    def page(self, after: str = "", n: int | None = None) -> list[str]:
        """At most `n` ids behind `after`."""
        audiences = self._audiences
        if after or n is not None:
            starts = [bisect_right(ids, after) for ids in audiences]
            end = sys.maxsize if n is None else n
            audiences = [ids[start : start + end] for ids, start in zip(audiences, starts, strict=True)]
        found = list(chain.from_iterable(audiences))
        found.sort()
        return found[:n]

    def __or__(self, other: Matches) -> Matches:
        """Of two searches that no subscription is in both of."""
        return Matches([*self._audiences, *other._audiences])


class FilterIndex:
    """A group is a set of subscriptions that see the same text of a message: those of one protocol."""

    def __init__(self) -> None:
        self._trees = {scope: Node() for scope in Scope}
        self._rules: dict[Filter, Rule] = {}
        self._rule_of: dict[str, Rule] = {}
        self.evaluations = 0
        """Of policies, since the index was made."""

    def __len__(self) -> int:
        return len(self._rule_of)

    def put(self, subscription_id: str, group: str, policy: Filter) -> None:
        """Also changes what is there."""
        self.remove(subscription_id)
        rule = self._rules.get(policy) or self._new_rule(policy)
        rule.add(subscription_id, group)
        self._rule_of[subscription_id] = rule

    def remove(self, subscription_id: str) -> None:
        """None of that id: nothing changes."""
        rule = self._rule_of.pop(subscription_id, None)
        if rule is None:
            return
        rule.remove(subscription_id)
        if not rule.ids:
            self._drop_rule(rule)

    def search(self, scope: Scope, facts: Facts, groups: Collection[str] | None = None) -> Matches:
        """Those of the groups, None: of all."""
        found: list[list[str]] = []
        rules = self._candidates(scope, facts)
        if groups is not None:
            rules = {rule for rule in rules if rule.of(groups)}
        for rule in rules:
            if matches(rule.policy, facts):
                found += rule.ids if groups is None else rule.of(groups)
        self.evaluations += len(rules)
        return Matches(found)

    def find(
        self,
        scope: Scope,
        facts: Facts,
        groups: Collection[str] | None = None,
        after: str = "",
        n: int | None = None,
    ) -> list[str]:
        return self.search(scope, facts, groups).page(after, n)

    def _candidates(self, scope: Scope, facts: Facts) -> set[Rule]:
        message = Message(facts.values)
        reached = self._trees[scope].reached(message)
        return {entry.rule for entry in reached if not entry.ranges or message.is_in(entry.ranges)}

    def _new_rule(self, policy: Filter) -> Rule:
        rule = self._rules[policy] = Rule(policy)
        found = branches(policy.root)
        rule.entries = tuple([Entry(rule, number, branch.ranges) for number, branch in enumerate(found)])
        for entry, branch in zip(rule.entries, found, strict=True):
            self._trees[policy.scope].put(entry, branch.keys)
        return rule

    def _drop_rule(self, rule: Rule) -> None:
        del self._rules[rule.policy]
        for entry in rule.entries:
            self._trees[rule.policy.scope].remove(entry, entry.keys)
        rule.entries = ()  # they hold the rule
