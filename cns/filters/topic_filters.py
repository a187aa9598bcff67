"""The filters of one topic as a process holds them: kept up with the topic's log, asked for every notification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple

from cns.filters.index import FilterIndex, Matches
from cns.filters.message_values import Facts, attribute_facts, body_facts
from cns.filters.model import Scope
from cns.filters.parser import compiled
from cns.filters.reasons import first_unmet
from cns.notification import Notification
from cns.publishing.filter_changes import FilterChange
from cns.subscriptions.subscription import IndexState, Subscription


class Asked(NamedTuple):
    """What filters of one scope were asked about, None: nothing that they could be, and of which protocols they are."""

    scope: Scope
    facts: Facts | None
    protocols: Set[str]


class Found(NamedTuple):
    """`unanswerable`: how many filters could not be asked, because an attribute of the notification is malformed."""

    matches: Matches
    unanswerable: int
    asked: Sequence[Asked]


class HeldFilters:
    def __init__(self) -> None:
        self.place = ""
        """In the log: what came before is held."""
        self.revision = 0
        """Another one after each change of what is held."""
        self.behind: dict[str, int] = {}
        """Subscriptions whose records are older than the log said, and the version it said: their change is under way,
        or its writer died. They are read anew before each use."""
        self._index = FilterIndex()
        self._held: dict[str, Subscription] = {}
        self._groups: dict[Scope, Counter[str]] = {scope: Counter() for scope in Scope}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, subscription_id: str) -> bool:
        return subscription_id in self._held

    @property
    def evaluations(self) -> int:
        """Of policies, since these are held."""
        return self._index.evaluations

    # -- keeping up ---------------------------------------------------------------------------------------------------

    def settle(self, change: FilterChange, record: Subscription | None) -> None:
        """What the log names has been read: None when it is gone."""
        if record is not None and record.version < change.version:
            self.behind[change.id] = change.version
        else:
            self.behind.pop(change.id, None)
        if record is None or record.index_state is not IndexState.FILTERED:
            self._drop(change.id)
        else:
            self.put(record)

    def put(self, subscription: Subscription) -> None:
        """One that is confirmed and has a filter."""
        if self._held.get(subscription.id) == subscription:
            return
        self._drop(subscription.id)
        scope = Scope(subscription.filter_scope)
        self._index.put(subscription.id, subscription.protocol, compiled(subscription.filter_policy, scope))
        self._held[subscription.id] = subscription
        self._groups[scope][subscription.protocol] += 1
        self.revision += 1

    def _drop(self, subscription_id: str) -> None:
        subscription = self._held.pop(subscription_id, None)
        if subscription is None:
            return
        self._index.remove(subscription_id)
        groups = self._groups[Scope(subscription.filter_scope)]
        groups[subscription.protocol] -= 1
        if not groups[subscription.protocol]:
            del groups[subscription.protocol]
        self.revision += 1

    # -- finding ------------------------------------------------------------------------------------------------------

    def find(self, notification: Notification) -> Found:
        matches = Matches([])
        unanswerable = 0
        asked: list[Asked] = []
        if self._groups[Scope.ATTRIBUTES]:
            facts = attribute_facts(notification.attributes)
            asked.append(Asked(Scope.ATTRIBUTES, facts, self._groups[Scope.ATTRIBUTES].keys()))
            if facts is None:
                unanswerable = self._groups[Scope.ATTRIBUTES].total()
            else:
                matches = self._index.search(Scope.ATTRIBUTES, facts)
        for text, protocols in self._texts(notification).items():
            facts = body_facts(text)
            asked.append(Asked(Scope.BODY, facts, protocols))
            if facts is not None:
                matches |= self._index.search(Scope.BODY, facts, protocols)
        return Found(matches, unanswerable, asked)

    def unmet(self, found: Found, n: int) -> dict[str, str]:
        """The first `n` of those that could be asked and do not match, and of each the first key that is not met."""
        keys: dict[str, str] = {}
        for one in sorted(self._held.keys() - set(found.matches.page())):
            if len(keys) == n:
                break
            subscription = self._held[one]
            scope = Scope(subscription.filter_scope)
            facts = _facts_for(scope, subscription.protocol, found.asked)
            if facts is not None:
                keys[one] = first_unmet(compiled(subscription.filter_policy, scope), facts)
            elif scope is Scope.BODY:
                keys[one] = ""
        return keys

    def _texts(self, notification: Notification) -> dict[str, set[str]]:
        """The texts that filters of bodies look at, and for which protocols."""
        texts: dict[str, set[str]] = {}
        for protocol in self._groups[Scope.BODY]:
            texts.setdefault(notification.text_for(protocol), set()).add(protocol)
        return texts


def _facts_for(scope: Scope, protocol: str, asked: Sequence[Asked]) -> Facts | None:
    return next((one.facts for one in asked if one.scope is scope and protocol in one.protocols), None)
