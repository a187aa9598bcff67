"""Writes that follow from changes of subscriptions, in the same commit: counts for quotas, logs of filter changes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import apsw

from cns.stores.embedded import schema
from cns.subscriptions.subscription import Subscription, SubscriptionState, filters_alike


class DerivedWrites:
    """Collects the changes of many subscriptions, to write few rows. Topics are given by key."""

    def __init__(self) -> None:
        self._topics: dict[int, list[int]] = {}
        self._owners: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._refiltered: list[tuple[int, str]] = []

    def add(self, topic: int, before: Subscription | None, after: Subscription | None) -> None:
        """Add the change of a subscription from one record to another; None stands for no record."""
        if before is not None:
            self._count(topic, before, -1)
        if after is not None:
            self._count(topic, after, 1)
        subscription = after or before
        if subscription is not None and not filters_alike(before, after):
            self._refiltered.append((topic, subscription.id))

    def _count(self, topic: int, subscription: Subscription, change: int) -> None:
        counts = self._topics.setdefault(topic, [0] * (len(SubscriptionState) + 1))
        counts[subscription.state] += change
        owner = self._owners[subscription.owner]
        owner[0] += change if subscription.state is SubscriptionState.PENDING else 0
        if subscription.filter_policy:
            counts[-1] += change
            owner[1] += change

    def write(self, connection: apsw.Connection) -> None:
        for topic, changes in self._topics.items():
            connection.execute(schema.COUNT, (*changes, topic))
        for owner, changes in self._owners.items():
            if any(changes):
                connection.execute(schema.COUNT_OF_ACCOUNT, (owner, *changes))
        for topic, subscription_id in self._refiltered:
            _log(connection, topic, subscription_id)


def _log(connection: apsw.Connection, topic: int, subscription_id: str) -> None:
    row: Any = connection.execute(schema.LOG_FILTER_CHANGE, (topic,)).fetchone()
    if row is None:  # the topic was deleted
        return
    (number,) = row
    connection.execute(schema.PUT_FILTER_CHANGE, (topic, number, subscription_id))
    connection.execute(schema.TRIM_FILTER_LOG, (topic, number - schema.FILTER_CHANGES_KEPT))
