"""Which of a topic's subscriptions get a notification: the one question that publishing and the producer ask.

Those without a filter come from the store, page by page; those with one from the filters that this process holds of the
topic. Both are in the order of their ids, and a page is of both.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cns.delivery.envelope import MessageType
from cns.filters.filter_cache import FILTERS_HELD_MAX, FilterKeeper
from cns.filters.topic_filters import HeldFilters
from cns.notification import Notification
from cns.stores.contract import SubscriptionStore
from cns_common.clock import Clock
from cns_common.events.schema import DeliveryFiltered, EventSink, NotificationDropped
from cns_common.metrics.catalogue import DROPPED, FILTER_EVALUATIONS, FILTERED_OUT
from cns_common.metrics.model import Counters

UNANSWERABLE = "invalid_attributes"
"""Why those do not get a notification whose filters look at attributes, one of which is malformed."""


FILTERS_NAMED_OF_MAX = 100
"""Of a topic with more filters it is told how many did not let a notification through, not which."""
FILTERS_NAMED_MAX = 10


class Kept(msgspec.Struct, frozen=True):
    """From whom filters keep a notification. `unanswerable`: how many of them could not be asked."""

    filtered: int
    unanswerable: int
    keys: dict[str, str]
    """The ids of some of the filtered: the first key of each policy that is not met."""


class Page(msgspec.Struct, frozen=True):
    """Of the subscriptions looked at, those that match; pass the cursor on for the next page, '' is the end. That one
    says from whom the notification is kept, and is to be given to `Matching.tell`."""

    arns: tuple[str, ...]
    cursor: str
    kept: Kept | None = None


class Matching:
    """`counts` are of how many filters were evaluated, and of what they did not let through."""

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
        self.counts = Counters(FILTER_EVALUATIONS, FILTERED_OUT)
        self.counts.start(DROPPED, cause=[UNANSWERABLE])

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
        self.counts.add(FILTER_EVALUATIONS, held.evaluations - evaluated)
        last = ids[-1] if len(ids) > n else ""
        merged = [one for one in ids if one not in held]  # one that gets a filter is among the ids for a while
        merged += [one for one in found.matches.page(cursor, n + 1) if not last or one <= last]
        merged.sort()
        following = merged[n - 1] if len(merged) > n else last
        if following:
            return Page(tuple([prefix + one for one in merged[:n]]), following)
        matched = len(found.matches.page()) if cursor else sum(one in held for one in merged)
        filtered = len(held) - matched - found.unanswerable
        if not filtered and not found.unanswerable:
            return Page(tuple([prefix + one for one in merged]), "")
        named = filtered and len(held) <= FILTERS_NAMED_OF_MAX
        keys = held.unmet(found, FILTERS_NAMED_MAX) if named else {}
        return Page(tuple([prefix + one for one in merged]), "", Kept(filtered, found.unanswerable, keys))

    def tell(self, notification: Notification, page: Page) -> None:
        """Count and say from whom filters keep a notification: once, when the page is used."""
        kept = page.kept
        if kept is None:
            return
        if kept.filtered:
            self._filter(notification, kept)
        if kept.unanswerable:
            self._drop(notification, kept.unanswerable)

    def _filter(self, notification: Notification, kept: Kept) -> None:
        self.counts.add(FILTERED_OUT, kept.filtered)
        self._events.emit(
            DeliveryFiltered(
                at_ms=self._clock.now_ms(),
                message_id=notification.id,
                topic=notification.topic_arn,
                filtered=kept.filtered,
                subscription_ids=tuple(kept.keys),
                filter_keys=tuple(kept.keys.values()),
            )
        )

    def _drop(self, notification: Notification, subscriptions: int) -> None:
        """One event for all whose filters could not be asked."""
        self.counts.add(DROPPED, subscriptions, cause=UNANSWERABLE)
        self._events.emit(
            NotificationDropped(
                at_ms=self._clock.now_ms(),
                message_id=notification.id,
                message_type=MessageType.NOTIFICATION.value,
                topic=notification.topic_arn,
                subscription="",
                attempt=0,
                cause=UNANSWERABLE,
                subscriptions=subscriptions,
            )
        )
