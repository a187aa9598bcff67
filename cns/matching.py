"""Which of a topic's subscriptions get a notification: the one question that publishing and the producer ask.

Those without a filter come from the store, page by page; those with one from the filters that this process holds of the
topic. Both are in the order of their ids, and a page is of both.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cns.envelope import MessageType
from cns.filters.held import HeldFilters
from cns.filters.keeping import FILTERS_HELD_MAX, FilterKeeper
from cns.model import Notification
from cns.stores.contract import SubscriptionStore
from common.clock import Clock
from common.events import EventSink, NotificationDropped
from common.metrics import Counts

UNANSWERABLE = "invalid_attributes"
"""Why those do not get a notification whose filters look at attributes, one of which is malformed."""


class Page(msgspec.Struct, frozen=True):
    """Of the subscriptions looked at, those that match; pass the cursor on for the next page, '' is the end."""

    arns: tuple[str, ...]
    cursor: str


class Matching:
    """`counts` are of how many filters were evaluated, and of what they do not let through: that is entered with the
    last page of a notification."""

    def __init__(
        self,
        subscriptions: SubscriptionStore,
        clock: Clock,
        events: EventSink,
        filters_held_max: int = FILTERS_HELD_MAX,
    ) -> None:
        self._filters = FilterKeeper(subscriptions, filters_held_max)
        self._clock = clock
        self._events = events
        self.counts = Counts()

    async def page(self, topic_arn: str, notification: Notification, cursor: str, n: int) -> Page:
        """Up to `n` matches after the cursor; of the unfiltered it reads one more, to know whether that is all."""
        (page,) = await self.pages(topic_arn, [notification], cursor, n)
        return page

    async def pages(self, topic_arn: str, notifications: Sequence[Notification], cursor: str, n: int) -> list[Page]:
        """The same page for each of several notifications, the subscriptions read once."""
        audience, held = await self._filters.audience(topic_arn, cursor, n + 1)
        prefix = topic_arn + ":"
        if held is None:
            following = audience.ids[n - 1] if len(audience.ids) > n else ""
            page = Page(tuple([prefix + subscription_id for subscription_id in audience.ids[:n]]), following)
            return [page] * len(notifications)
        return [self._page(prefix, audience.ids, held, notification, cursor, n) for notification in notifications]

    def _page(
        self, prefix: str, ids: list[str], held: HeldFilters, notification: Notification, cursor: str, n: int
    ) -> Page:
        """Where there are more ids than were read, nothing behind the last of them belongs to this page."""
        evaluated = held.evaluations
        found = held.find(notification)
        self.counts.add("filter_evaluations", held.evaluations - evaluated)
        last = ids[-1] if len(ids) > n else ""
        merged = [one for one in ids if one not in held]  # one that gets a filter is among the ids for a while
        merged += [one for one in found.matches.page(cursor, n + 1) if not last or one <= last]
        merged.sort()
        following = merged[n - 1] if len(merged) > n else last
        if following:
            return Page(tuple([prefix + one for one in merged[:n]]), following)
        matched = len(found.matches.page()) if cursor else sum(one in held for one in merged)
        self.counts.add("filtered_out", len(held) - matched - found.unanswerable)
        if found.unanswerable:
            self._drop(notification, found.unanswerable)
        return Page(tuple([prefix + one for one in merged]), "")

    def _drop(self, notification: Notification, subscriptions: int) -> None:
        """One event for all whose filters could not be asked."""
        self.counts.add("notifications_dropped", subscriptions, cause=UNANSWERABLE)
        self._events.emit(
            NotificationDropped(
                at_ms=self._clock.now_ms(),
                message_id=notification.id,
                message_type=MessageType.NOTIFICATION.value,
                topic=notification.topic_arn,
                subscription="",
                attempt=0,
                cause=UNANSWERABLE,
            )
        )
