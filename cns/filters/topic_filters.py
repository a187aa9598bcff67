"""The filters of one topic in memory, updated from the topic's log of filter changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple

from cns.filters.index import FilterIndex, Matches
from cns.filters.message_values import MessageValues, attribute_values, body_values
from cns.filters.model import Scope
from cns.filters.parser import compile_stored
from cns.filters.reasons import first_unmet
from cns.notification import Notification
from cns.publishing.filter_changes import FilterChange
from cns.subscriptions.subscription import IndexState, Subscription


class FilterInput(NamedTuple):
    """The values on which filters of one scope and some protocols were evaluated. None: the message has no values."""

    scope: Scope
    values: MessageValues | None
    protocols: Set[str]


class FilterResult(NamedTuple):
    """`unevaluable` counts the filters that look at attributes, if an attribute of the notification is malformed."""

    matches: Matches
    unevaluable: int
    inputs: Sequence[FilterInput]


class TopicFilters:
    def __init__(self) -> None:
        self.log_position = ""
        """The position in the topic's log up to which changes are applied."""
        self.revision = 0
        """Rises with each change of the filters."""
        self.outdated: dict[str, int] = {}
        """Subscriptions whose records are older than the log says, with the version in the log. Their change is under
        way, or its writer died. They are read again before each use."""
        self._index = FilterIndex()
        self._subscriptions: dict[str, Subscription] = {}
        self._groups: dict[Scope, Counter[str]] = {scope: Counter() for scope in Scope}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __contains__(self, subscription_id: str) -> bool:
        return subscription_id in self._subscriptions

    @property
    def evaluations(self) -> int:
        """Policies evaluated so far."""
        return self._index.evaluations

    # -- updating -----------------------------------------------------------------------------------------------------

    def apply(self, change: FilterChange, record: Subscription | None) -> None:
        """Apply a change of the log, with the record that was read for it (None: it does not exist any more)."""
        if record is not None and record.version < change.version:
            self.outdated[change.id] = change.version
        else:
            self.outdated.pop(change.id, None)
        if record is None or record.index_state is not IndexState.FILTERED:
            self._drop(change.id)
        else:
            self.put(record)

    def put(self, subscription: Subscription) -> None:
        """Add or replace a subscription that is confirmed and has a filter."""
        if self._subscriptions.get(subscription.id) == subscription:
            return
        self._drop(subscription.id)
        scope = Scope(subscription.filter_scope)
        self._index.put(subscription.id, subscription.protocol, compile_stored(subscription.filter_policy, scope))
        self._subscriptions[subscription.id] = subscription
        self._groups[scope][subscription.protocol] += 1
        self.revision += 1

    def _drop(self, subscription_id: str) -> None:
        subscription = self._subscriptions.pop(subscription_id, None)
        if subscription is None:
            return
        self._index.remove(subscription_id)
        groups = self._groups[Scope(subscription.filter_scope)]
        groups[subscription.protocol] -= 1
        if not groups[subscription.protocol]:
            del groups[subscription.protocol]
        self.revision += 1

    # -- finding ------------------------------------------------------------------------------------------------------

    def find(self, notification: Notification) -> FilterResult:
        matches = Matches([])
        unevaluable = 0
        inputs: list[FilterInput] = []
        if self._groups[Scope.ATTRIBUTES]:
            values = attribute_values(notification.attributes)
            inputs.append(FilterInput(Scope.ATTRIBUTES, values, self._groups[Scope.ATTRIBUTES].keys()))
            if values is None:
                unevaluable = self._groups[Scope.ATTRIBUTES].total()
            else:
                matches = self._index.search(Scope.ATTRIBUTES, values)
        for text, protocols in self._texts(notification).items():
            values = body_values(text)
            inputs.append(FilterInput(Scope.BODY, values, protocols))
            if values is not None:
                matches |= self._index.search(Scope.BODY, values, protocols)
        return FilterResult(matches, unevaluable, inputs)

    def first_unmet_keys(self, found: FilterResult, n: int) -> dict[str, str]:
        """The ids of the first `n` subscriptions that do not match, each with the first key that it does not meet.

        The key is '' where the body is no JSON object. Filters that could not be evaluated are left out.
        """
        keys: dict[str, str] = {}
        for one in sorted(self._subscriptions.keys() - set(found.matches.page())):
            if len(keys) == n:
                break
            subscription = self._subscriptions[one]
            scope = Scope(subscription.filter_scope)
            values = _values_for(scope, subscription.protocol, found.inputs)
            if values is not None:
                keys[one] = first_unmet(compile_stored(subscription.filter_policy, scope), values)
            elif scope is Scope.BODY:
                keys[one] = ""
        return keys

    def _texts(self, notification: Notification) -> dict[str, set[str]]:
        """The texts that filters of bodies look at, each with its protocols."""
        texts: dict[str, set[str]] = {}
        for protocol in self._groups[Scope.BODY]:
            texts.setdefault(notification.text_for(protocol), set()).add(protocol)
        return texts


def _values_for(scope: Scope, protocol: str, inputs: Sequence[FilterInput]) -> MessageValues | None:
    return next((one.values for one in inputs if one.scope is scope and protocol in one.protocols), None)
