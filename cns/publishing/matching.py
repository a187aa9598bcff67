"""Matches a notification with the subscriptions of its topic, for the API and for the producers.

Subscriptions without a filter are read from the store, page by page. Those with a filter are found in the index of
filters that this process keeps per topic. Both lists are in the order of ids, and each page merges them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cns.delivery.envelope import MessageType
from cns.delivery.failure_causes import FinalCause
from cns.filters.filter_cache import FILTERS_CACHED_MAX, FilterCache
from cns.filters.topic_filters import TopicFilters
from cns.notification import Notification
from cns.stores.contract import SubscriptionStore
from cns_common.clock import Clock
from cns_common.events.schema import DeliveryFiltered, EventSink, NotificationDropped, NotificationMatched
from cns_common.metrics.catalogue import DROPPED, FILTER_EVALUATIONS, FILTERED_OUT
from cns_common.metrics.model import Counters

FILTERS_NAMED_OF_MAX = 100
"""Events name the filters that did not match only for topics with at most this many filters."""
FILTERS_NAMED_MAX = 10
"""Filters named in one event."""


class FilterSummary(msgspec.Struct, frozen=True):
    """Counts of the subscriptions that do not get a notification because of their filters.

    `filtered`: the filter does not match. `unanswerable`: the filter could not be evaluated.
    """

    filtered: int
    unanswerable: int
    keys: dict[str, str]
    """For some of the filtered subscription ids the first key of the policy that does not match."""


class MatchPage(msgspec.Struct, frozen=True):
    """Subscriptions that match. `cursor` leads to the next page and is '' on the last one.

    The last page has the filter summary; give it to `SubscriptionMatcher.report_filtered`.
    """

    arns: tuple[str, ...]
    cursor: str
    filter_summary: FilterSummary | None = None


class SubscriptionMatcher:
    """`counts` has the filter evaluations, the filtered and the dropped notifications."""

    def __init__(
        self,
        subscriptions: SubscriptionStore,
        clock: Clock,
        events: EventSink,
        filters_held_max: int = FILTERS_CACHED_MAX,
    ) -> None:
        self._filters = FilterCache(subscriptions, filters_held_max)
        self._clock = clock
        self._events = events
        self.counts = Counters(FILTER_EVALUATIONS, FILTERED_OUT)
        self.counts.start(DROPPED, cause=[FinalCause.INVALID_ATTRIBUTES])

    async def page(self, topic_arn: str, notification: Notification, cursor: str, n: int) -> MatchPage:
        """Up to `n` matches after the cursor. One more unfiltered subscription is read to see whether this page is the
        last."""
        (page,) = await self.pages(topic_arn, [notification], cursor, n)
        return page

    async def pages(
        self, topic_arn: str, notifications: Sequence[Notification], cursor: str, n: int
    ) -> list[MatchPage]:
        """The page at `cursor` for each of the notifications. The subscriptions are read once for all of them."""
        audience, filters = await self._filters.audience(topic_arn, cursor, n + 1)
        prefix = topic_arn + ":"
        if filters is None:
            following = audience.ids[n - 1] if len(audience.ids) > n else ""
            page = MatchPage(tuple([prefix + subscription_id for subscription_id in audience.ids[:n]]), following)
            return [page] * len(notifications)
        return [self._page(prefix, audience.ids, filters, notification, cursor, n) for notification in notifications]

    def _page(
        self, prefix: str, ids: list[str], filters: TopicFilters, notification: Notification, cursor: str, n: int
    ) -> MatchPage:
        """Merge unfiltered `ids` with matching filters. When `ids` may go on, matches behind its last one wait for the
        next page."""
        evaluated = filters.evaluations
        found = filters.find(notification)
        self.counts.add(FILTER_EVALUATIONS, filters.evaluations - evaluated)
        last = ids[-1] if len(ids) > n else ""
        # a subscription that just got a filter can still be among the ids
        merged = [one for one in ids if one not in filters]
        merged += [one for one in found.matches.page(cursor, n + 1) if not last or one <= last]
        merged.sort()
        following = merged[n - 1] if len(merged) > n else last
        if following:
            return MatchPage(tuple([prefix + one for one in merged[:n]]), following)
        matched = len(found.matches.page()) if cursor else sum(one in filters for one in merged)
        filtered = len(filters) - matched - found.unevaluable
        if not filtered and not found.unevaluable:
            return MatchPage(tuple([prefix + one for one in merged]), "")
        named = filtered and len(filters) <= FILTERS_NAMED_OF_MAX
        keys = filters.first_unmet_keys(found, FILTERS_NAMED_MAX) if named else {}
        return MatchPage(tuple([prefix + one for one in merged]), "", FilterSummary(filtered, found.unevaluable, keys))

    def report_matched(self, notification: Notification, matched: int, part: str = "") -> None:
        """Report how many subscriptions a part of the fan-out found: see `NotificationMatched`."""
        self._events.emit(
            NotificationMatched(
                at_ms=self._clock.now_ms(),
                message_id=notification.id,
                topic=notification.topic_arn,
                matched=matched,
                part=part,
            )
        )

    def report_filtered(self, notification: Notification, page: MatchPage) -> None:
        """Count and report what the filters kept back. Call it once, when the page is used."""
        summary = page.filter_summary
        if summary is None:
            return
        if summary.filtered:
            self._report_filtered(notification, summary)
        if summary.unanswerable:
            self._report_dropped(notification, summary.unanswerable)

    def _report_filtered(self, notification: Notification, summary: FilterSummary) -> None:
        self.counts.add(FILTERED_OUT, summary.filtered)
        self._events.emit(
            DeliveryFiltered(
                at_ms=self._clock.now_ms(),
                message_id=notification.id,
                topic=notification.topic_arn,
                filtered=summary.filtered,
                subscription_ids=tuple(summary.keys),
                filter_keys=tuple(summary.keys.values()),
            )
        )

    def _report_dropped(self, notification: Notification, subscriptions: int) -> None:
        """Emit one event for all filters that could not be evaluated."""
        self.counts.add(DROPPED, subscriptions, cause=FinalCause.INVALID_ATTRIBUTES)
        self._events.emit(
            NotificationDropped(
                at_ms=self._clock.now_ms(),
                message_id=notification.id,
                message_type=MessageType.NOTIFICATION.value,
                topic=notification.topic_arn,
                subscription="",
                attempt=0,
                cause=FinalCause.INVALID_ATTRIBUTES,
                subscriptions=subscriptions,
            )
        )
