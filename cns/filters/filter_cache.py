"""The filters of the topics to which a process publishes: read at first use, then updated from the topics' logs."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from weakref import WeakValueDictionary

from msgspec.structs import replace

from cns.filters.topic_filters import TopicFilters
from cns.publishing.filter_changes import Audience, FilterChange
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import IndexState

FILTERS_CACHED_MAX = 200_000
"""Filters of all topics together. The least recently used topics are evicted; a topic in use stays, however large."""
PAGE_FILTERS = 100
PAGES_BETWEEN_LOG_READS = 5
"""Pages of filters between two reads of the log."""
UNLOCKED_READS_MAX = 3
"""Reads of an audience without the lock, before the lock is taken."""


class FilterCache:
    def __init__(self, store: SubscriptionStore, filters_cached_max: int) -> None:
        self._store = store
        self._filters_cached_max = filters_cached_max
        self._topics: OrderedDict[str, TopicFilters] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def audience(self, topic_arn: str, after: str, n: int) -> tuple[Audience, TopicFilters | None]:
        """A topic's audience and its filters at the same moment. None: the topic has no filters.

        The store's answer is used only if the log had no changes for it, and if the filters were not updated while it
        was read. Otherwise the answer may be older than the filters, and lack a subscription that lost its filter in
        between. After UNLOCKED_READS_MAX attempts the filters are locked against updates by others.
        """
        filters = self._topics.get(topic_arn)
        for attempts in count():
            if filters is not None and attempts >= UNLOCKED_READS_MAX:
                audience = await self._audience_under_lock(topic_arn, filters, after, n)
                if audience is not None:
                    return audience, filters
            if filters is not None and filters.outdated:
                await self._update(topic_arn, filters, filters.log_position)
            position, revision = ("", 0) if filters is None else (filters.log_position, filters.revision)
            audience = await self._store.audience(topic_arn, after, n, position)
            if not audience.log:
                self._topics.pop(topic_arn, None)
                return audience, None
            if filters is None or audience.reload_all:
                filters = await self._read(topic_arn, filters, audience)
            elif audience.log != position:
                await self._update(topic_arn, filters, position, audience)
            elif (filters.log_position, filters.revision) == (position, revision):
                if topic_arn in self._topics:  # it may have been evicted
                    self._topics.move_to_end(topic_arn)
                return audience, filters
        raise AssertionError("count() does not end")

    async def _audience_under_lock(self, topic_arn: str, filters: TopicFilters, after: str, n: int) -> Audience | None:
        """Read an audience and update the filters to its moment. None when the filters have to be read again.

        Subscriptions that lost their filter after the audience's ids were read are added to the ids.
        """
        async with self._lock(topic_arn):
            audience = await self._store.audience(topic_arn, after, n, filters.log_position)
            if not audience.log or audience.reload_all:
                return None
            unfiltered = await self._apply(topic_arn, filters, audience.changes)
            filters.log_position = audience.log
        last = audience.ids[-1] if len(audience.ids) >= n else ""  # later ids belong to another page
        added = [one for one in unfiltered if one > after and (not last or one <= last)]
        return replace(audience, ids=sorted({*audience.ids, *added}))

    async def _update(
        self, topic_arn: str, filters: TopicFilters, position: str, audience: Audience | None = None
    ) -> None:
        """Read the subscriptions that changed and those that are outdated.

        One update runs at a time, so that records are applied in the order in which they are read.
        """
        async with self._lock(topic_arn):
            if filters.log_position != position:
                return  # another update was faster
            await self._apply(topic_arn, filters, () if audience is None else audience.changes)
            if audience is not None:
                filters.log_position = audience.log

    async def _read(self, topic_arn: str, outdated: TopicFilters | None, audience: Audience) -> TopicFilters:
        """Read all filters of a topic, as of the audience's position in the log or later.

        A caller that arrives while another one reads them waits for the same filters.
        """
        async with self._lock(topic_arn):
            current = self._topics.get(topic_arn)
            if current is not None and current is not outdated:
                return current
            filters = TopicFilters()
            filters.log_position = audience.log
            after = ""
            for pages in count(1):
                page = await self._store.page_of_filtered(topic_arn, after, PAGE_FILTERS)
                if not page:
                    break
                for subscription in page:
                    if subscription.index_state is IndexState.FILTERED:  # else the index is older than the record
                        filters.put(subscription)
                after = page[-1].id
                if pages % PAGES_BETWEEN_LOG_READS == 0:
                    await self._catch_up(topic_arn, filters)
                await asyncio.sleep(0)  # let others run where the store answers without waiting
            await self._apply(topic_arn, filters, audience.changes)
            self._topics[topic_arn] = filters
            self._topics.move_to_end(topic_arn)
            self._evict()
            return filters

    async def _catch_up(self, topic_arn: str, filters: TopicFilters) -> None:
        """Apply the log while filters are read: if it wrapped around meanwhile, they would have to be read again."""
        audience = await self._store.audience(topic_arn, "", 1, filters.log_position)
        if audience.log and not audience.reload_all:
            await self._apply(topic_arn, filters, audience.changes)
            filters.log_position = audience.log

    async def _apply(self, topic_arn: str, filters: TopicFilters, changes: Sequence[FilterChange]) -> list[str]:
        """Apply changes, reread outdated records. Return the ids of those that are confirmed without a filter now."""
        wanted = dict(filters.outdated)
        for change in changes:
            wanted[change.id] = max(change.version, wanted.get(change.id, 0))
        found = await self._store.get([f"{topic_arn}:{one}" for one in wanted]) if wanted else []
        records = {subscription.id: subscription for subscription in found}
        for one, version in wanted.items():
            filters.apply(FilterChange(one, version), records.get(one))
        return [one for one, record in records.items() if record.index_state is IndexState.CONFIRMED]

    def _evict(self) -> None:
        cached = sum(len(filters) for filters in self._topics.values())
        while cached > self._filters_cached_max and len(self._topics) > 1:
            _, filters = self._topics.popitem(last=False)
            cached -= len(filters)

    def _lock(self, topic_arn: str) -> asyncio.Lock:
        return self._locks.setdefault(topic_arn, asyncio.Lock())
