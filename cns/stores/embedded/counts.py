"""What follows from changes of subscriptions, in the same commit: the counts of quotas, and the logs of filters."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import apsw

from cns.stores.embedded import schema
from cns.subscriptions.subscription import Subscription, SubscriptionState, filters_alike


class DerivedWrites:
    """Changes are gathered, so that a sweep of many rows writes few. Topics by their keys."""

    def __init__(self) -> None:
        self._topics: dict[int, list[int]] = {}
        self._owners: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._refiltered: list[tuple[int, str]] = []

    def count(self, topic: int, before: Subscription | None, after: Subscription | None) -> None:
        """A subscription goes from one record to another; None: from, or to, nowhere."""
        if before is not None:
            self._add(topic, before, -1)
        if after is not None:
            self._add(topic, after, 1)
        subscription = after or before
        if subscription is not None and not filters_alike(before, after):
            self._refiltered.append((topic, subscription.id))

    def _add(self, topic: int, subscription: Subscription, change: int) -> None:
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
    if row is None:  # the topic is gone, and nothing is published to it
        return
    (number,) = row
    connection.execute(schema.PUT_FILTER_CHANGE, (topic, number, subscription_id))
    connection.execute(schema.TRIM_FILTER_LOG, (topic, number - schema.FILTER_CHANGES_KEPT))
